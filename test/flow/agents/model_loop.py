"""An agent as people write them: a stock HTTP client streams completions from a model and makes the tool calls it asks for."""
import json
import subprocess
import sys
import urllib.request

base = sys.argv[1]
messages = [{"role": "user", "content": "Where is parcel 7?"}]
heard = b""

while True:
    body = {"model": "m", "messages": messages, "stream": True, "logprobs": True, "top_logprobs": 2}
    asked = urllib.request.Request(
        base + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    calls, said = {}, ""
    with urllib.request.urlopen(asked) as answer:
        for line in answer:
            heard += line
            if not line.startswith(b"data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                said += choice["delta"].get("content") or ""
                for part in choice["delta"].get("tool_calls", []):
                    call = calls.setdefault(part["index"], {"id": part.get("id"), "name": "", "arguments": ""})
                    call["name"] += part["function"].get("name", "")
                    call["arguments"] += part["function"]["arguments"]
    if not calls:
        break
    for call in calls.values():
        ran = subprocess.run(
            ["dsec-tool", "exec", "--tool", call["name"], "--input", call["arguments"]],
            stdout=subprocess.PIPE,
            check=True,
        )
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": ran.stdout.decode()})

open("heard", "wb").write(heard)
print(said)
