/** Answers of OpenAI-compatible servers, in the shapes in which they come. */

export const sse = (...data: unknown[]): string =>
  data.map((one) => `data: ${typeof one === "string" ? one : JSON.stringify(one)}\n\n`).join("");

const chunk = (choices: unknown[], more: object = {}) => ({
  ...{ id: "chatcmpl-B9", object: "chat.completion.chunk", created: 1741570283, model: "gpt-4o-2024-08-06" },
  ...{ service_tier: "default", system_fingerprint: "fp_44709d6fcb", choices },
  ...more,
});
export const delta = (change: object, more: object = {}) =>
  chunk([{ index: 0, delta: change, logprobs: null, finish_reason: null, ...more }]);
export const finish = (reason: string, index = 0) =>
  chunk([{ index, delta: {}, logprobs: null, finish_reason: reason }]);
export const usageChunk = (usage: object) => chunk([], { usage });

export const USAGE = {
  ...{ prompt_tokens: 19, completion_tokens: 10, total_tokens: 29 },
  prompt_tokens_details: { cached_tokens: 8, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0, accepted_prediction_tokens: 0 },
};

export const logprob = (token: string, value: number, top: [string, number][] = []) => ({
  ...{ token, logprob: value, bytes: [...new TextEncoder().encode(token)] },
  top_logprobs: top.map(([text, of]) => ({
    token: text,
    logprob: of,
    bytes: [...new TextEncoder().encode(text)],
  })),
});

/** A whole answer with a tool call. */
export const CHAT = {
  ...{ id: "chatcmpl-abc", object: "chat.completion", created: 1699896916, model: "gpt-4o-mini" },
  choices: [
    {
      index: 0,
      message: {
        ...{ role: "assistant", content: null, refusal: null },
        tool_calls: [
          {
            ...{ id: "call_abc", type: "function" },
            function: { name: "get_weather", arguments: '{\n"location": "Boston, MA"\n}' },
          },
        ],
      },
      ...{ logprobs: null, finish_reason: "tool_calls" },
    },
  ],
  usage: USAGE,
};

/** The same conversation's second call, streamed: two tool calls, their arguments in pieces and interleaved. */
export const TOOL_STREAM = [
  delta({ role: "assistant", content: null }),
  delta({
    tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: "track", arguments: "" } }],
  }),
  delta({ tool_calls: [{ index: 0, function: { arguments: '{"ord' } }] }),
  delta({
    tool_calls: [{ index: 1, id: "call_2", type: "function", function: { name: "refund", arguments: "" } }],
  }),
  delta({ tool_calls: [{ index: 1, function: { arguments: '{"€":' } }] }),
  delta({ tool_calls: [{ index: 0, function: { arguments: 'er":9007199254740993}' } }] }),
  delta({ tool_calls: [{ index: 1, function: { arguments: "1}" } }] }),
  finish("tool_calls"),
];
export const TOOL_CALLS = [
  { id: "call_1", name: "track", arguments_json: '{"order":9007199254740993}' },
  { id: "call_2", name: "refund", arguments_json: '{"€":1}' },
];

/** The Responses interface. */
const item = {
  ...{ id: "fc_1", type: "function_call", status: "completed" },
  ...{ call_id: "call_9", name: "look_up", arguments: '{"id":7}' },
};
export const RESPONSE = {
  ...{ id: "resp_67", object: "response", created_at: 1741476542, status: "completed", error: null },
  ...{ incomplete_details: null, model: "gpt-4.1-2025-04-14" },
  output: [
    {
      ...{ type: "message", id: "msg_67", status: "completed", role: "assistant" },
      content: [
        {
          type: "output_text",
          text: "On it",
          annotations: [],
          logprobs: [logprob("On", -0.5), logprob(" it", -0.25)],
        },
      ],
    },
    item,
  ],
  usage: {
    ...{ input_tokens: 36, input_tokens_details: { cached_tokens: 3 }, output_tokens: 87 },
    ...{ output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 123 },
  },
};
const event = (type: string, more: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
export const RESPONSE_EVENTS = [
  event("response.created", { response: { ...RESPONSE, status: "in_progress", output: [], usage: null } }),
  event("response.output_text.delta", {
    ...{ item_id: "msg_67", output_index: 0, content_index: 0, delta: "On" },
    logprobs: [logprob("On", -0.5)],
  }),
  event("response.output_text.delta", {
    ...{ item_id: "msg_67", output_index: 0, content_index: 0, delta: " it" },
    logprobs: [logprob(" it", -0.25)],
  }),
  event("response.output_item.added", {
    output_index: 1,
    item: { ...item, arguments: "", status: "in_progress" },
  }),
  event("response.function_call_arguments.delta", { item_id: "fc_1", output_index: 1, delta: '{"id"' }),
  event("response.function_call_arguments.delta", { item_id: "fc_1", output_index: 1, delta: ":7}" }),
  event("response.function_call_arguments.done", { item_id: "fc_1", output_index: 1, arguments: '{"id":7}' }),
  event("response.output_item.done", { output_index: 1, item }),
  event("response.completed", { response: RESPONSE }),
];
