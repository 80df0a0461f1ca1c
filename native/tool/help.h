// What dsec-tool says of itself.
#pragma once

namespace dsec::tool {

inline constexpr char kHelp[] =
    R"(dsec-tool: what an agent does outside its sandbox, from a shell

  api-call --url URL [--method M] [--header 'N: V']... [--body TEXT | --body-file FILE]
           [--timeout MS] [--retry N] [--output FILE]        an HTTP call under the task's policy
  exec --tool NAME [--input JSON] [--output FILE]            a tool of the task
  list                                                       the tools of the task
  memory get KEY | set KEY JSON | delete KEY | list          [--namespace NAME] [--string]
         [--ttl-ms MS] [--if-absent] [--if-version N] [--prefix TEXT] [--limit N] [--cursor C]
  message send CHANNEL JSON | receive CHANNEL                [--string] [--wait MS] [--limit N] [--after ID] [--ack]
  step begin NAME [--state JSON] | end NUMBER                [--status succeeded|failed] [--detail JSON]
  reward NAME=NUMBER... [--weight NAME=NUMBER]...            or --input JSON
  logits [--input JSON]                                      {"tokens":[{"id":1,"logprob":-0.1}]}
  context [--input JSON]                                     the agent's own context, for the record
  observe [--wait MS]                                        what was put into this sandbox from outside

JSON is the text itself, @FILE, or - for standard input (the default of logits and context). --string takes it as text.
--json prints the channel's whole answer, and errors as JSON. --retry repeats what timed out, was not reached or answered
429 or 5xx, N further times.

Exit codes: 0 done; 1 the tool or the upstream says that it failed; 2 wrong usage; 3 refused (policy, budget, input, a
condition that does not hold); 4 timed out; 5 unavailable; 6 no channel: not in a sandbox; 7 no such memory key.

  dsec-tool api-call --url https://api.example.com/v1/prices --header 'accept: application/json'
  dsec-tool exec --tool get_user --input '{"user_id":"mia_li_3668"}'
  dsec-tool memory set plan '["look","book"]' && dsec-tool memory get plan
  n=$(dsec-tool step begin search) && dsec-tool step end "$n"
  dsec-tool message send results '{"score":0.5}'; dsec-tool message receive results --wait 1000 --ack

The socket is DSEC_SOCKET, or /run/dsec/tool.sock; any HTTP client can speak to it as well.
)";

}  // namespace dsec::tool
