import { Type } from "@sinclair/typebox";
import { late, Maybe, Nullable, Open } from "./open.ts";

const TextPart = late(() =>
  Open(
    {
      type: Type.Union([Type.Literal("input_text"), Type.Literal("output_text")]),
      text: Type.String({ description: "a string of text" }),
    },
    { description: "a text part" },
  ),
);

/** Parts without a shape of their own here: only the type is asked for, as new ones keep coming. */
const OtherPart = late(() =>
  Open(
    {
      type: Type.String({
        pattern: "^(?!(?:in|out)put_text$)",
        description: "a part type such as input_text, input_image, input_file or output_text",
      }),
    },
    { description: "a content part of another type" },
  ),
);

const ContentPart = late(() =>
  Type.Union([TextPart(), OtherPart()], { description: "a content part with a string `type`" }),
);

const Content = late(() =>
  Type.Union([Type.String(), Type.Array(ContentPart())], {
    description: "a string or an array of content parts",
  }),
);

const MessageItem = late(() =>
  Open(
    {
      type: Type.Optional(Type.Literal("message")),
      role: Type.Union(
        [Type.Literal("user"), Type.Literal("assistant"), Type.Literal("system"), Type.Literal("developer")],
        { description: '"user", "assistant", "system" or "developer"' },
      ),
      content: Content(),
    },
    { description: "a message" },
  ),
);

const FunctionCallItem = late(() =>
  Open(
    {
      type: Type.Literal("function_call"),
      call_id: Type.String({ minLength: 1, description: "a string that names the call" }),
      name: Type.String({ minLength: 1, description: "a tool name" }),
      arguments: Type.String({ description: "a string of JSON" }),
    },
    { description: "a function_call item" },
  ),
);

const FunctionCallOutputItem = late(() =>
  Open(
    {
      type: Type.Literal("function_call_output"),
      call_id: Maybe(Type.String({ minLength: 1, description: "the call_id of the function_call it answers" })),
      name: Maybe(Type.String({ description: "the tool, of an output that answers no call" })),
      output: Content(),
    },
    { description: "a function_call_output item" },
  ),
);

const CustomToolCallItem = late(() =>
  Open(
    {
      type: Type.Literal("custom_tool_call"),
      name: Type.String({ minLength: 1, description: "a tool name" }),
      input: Type.String({ description: "a string: what the tool is given" }),
    },
    { description: "a custom_tool_call item" },
  ),
);

const CustomToolCallOutputItem = late(() =>
  Open(
    { type: Type.Literal("custom_tool_call_output"), output: Content() },
    { description: "a custom_tool_call_output item" },
  ),
);

/** Items without a shape of their own here (reasoning, server tools, those to come): only the type is asked for. */
const OtherItem = late(() =>
  Open(
    {
      type: Type.String({
        pattern: "^(?!(?:message|(?:function|custom_tool)_call(?:_output)?)$)",
        description: "an item type such as message, function_call, function_call_output or reasoning",
      }),
    },
    { description: "an item of another type" },
  ),
);

const InputItem = late(() =>
  Type.Union(
    [
      MessageItem(),
      FunctionCallItem(),
      FunctionCallOutputItem(),
      CustomToolCallItem(),
      CustomToolCallOutputItem(),
      OtherItem(),
    ],
    { description: "a message, or an item with a string `type`" },
  ),
);

const ToolDefinition = late(() =>
  Open(
    { type: Type.String({ description: '"function", or the type of a vendor\'s tool' }) },
    { description: "a tool with a type" },
  ),
);

/** The fields of both endpoints' bodies. */
const fields = () => ({
  model: Type.String({ minLength: 1, description: "a model ID, `<vendor>/<model_name>`" }),
  // One flat union: inside another one, the fault of an item would be told of the whole input.
  input: Type.Optional(
    Type.Union([Type.String(), Type.Array(InputItem()), Type.Null()], {
      description: "a string or an array of input items",
    }),
  ),
  instructions: Maybe(Type.String({ description: "a string: the system prompt" })),
  max_output_tokens: Maybe(Type.Integer({ minimum: 1, description: "Upper bound on generated tokens." })),
  stream: Maybe(Type.Boolean({ description: "true for server-sent events" })),
  temperature: Maybe(Type.Number({ description: "a number from 0 to 2; dropped while reasoning is active" })),
  top_p: Maybe(Type.Number({ description: "a number from 0 to 1; dropped while reasoning is active" })),
  tools: Maybe(Type.Array(ToolDefinition(), { description: "an array of tools" })),
  tool_choice: Maybe(
    Type.Union([Type.String(), Open({ type: Type.String() })], {
      description: '"auto", "none", "required" or an object with a type',
    }),
  ),
  parallel_tool_calls: Maybe(Type.Boolean({ description: "false for at most one tool call a turn" })),
  text: Maybe(Open({ format: Maybe(Open({ type: Type.String() }, { description: "an object" })) })),
  reasoning: Type.Optional(
    Type.Unknown({ description: "Reasoning: `{effort, summary}`. Values nobody knows are ignored." }),
  ),
  store: Maybe(Type.Boolean({ description: "Nothing is ever stored: true is accepted and has no effect." })),
  include: Maybe(Type.Array(Type.String(), { description: "an array of strings" })),
  previous_response_id: Type.Optional(Type.Unknown({ description: "Refused: nothing is stored. Send the input." })),
  conversation: Type.Optional(Type.Unknown({ description: "Refused: nothing is stored. Send the input." })),
  background: Maybe(Type.Boolean({ description: "true is refused: nothing is stored." })),
});

/** Body of `POST /v1/responses` (contract 3). */
export const ResponsesRequest = late(() =>
  Open(fields(), {
    title: "ResponsesRequest",
    description: "Input to answer. Stateless. Unknown fields are kept.",
    examples: [{ model: "sluice/echo", input: "Hello", stream: true }],
  }),
);

/** Body of `POST /v1/responses/input_tokens`: that of a response, of which only the input counts. */
export const CountInputRequest = late(() =>
  Open(fields(), {
    title: "CountInputRequest",
    description: "The input to measure. Everything a response takes is accepted; only the input is counted.",
    examples: [{ model: "sluice/echo", input: "Hello" }],
  }),
);

/** Answer of `POST /v1/responses/input_tokens` (OpenAI, "Get input token counts"). */
export const CountInputReply = late(() =>
  Open(
    {
      object: Type.Literal("response.input_tokens"),
      input_tokens: Type.Integer({ minimum: 0, description: "Tokens of the input." }),
    },
    { title: "CountInputReply" },
  ),
);

const ResponsesUsage = late(() =>
  Open(
    {
      input_tokens: Type.Integer({ description: "All input tokens, those of the cache included." }),
      input_tokens_details: Open({
        cached_tokens: Type.Integer({ description: "Input tokens read from the vendor's cache." }),
        cache_write_tokens: Type.Optional(Type.Integer({ description: "Input tokens written to the vendor's cache." })),
      }),
      output_tokens: Type.Integer({ description: "Generated tokens, reasoning included." }),
      output_tokens_details: Open({
        reasoning_tokens: Type.Integer({ description: "The part of output_tokens spent on reasoning." }),
      }),
      total_tokens: Type.Integer(),
    },
    { title: "ResponsesUsage" },
  ),
);

/** Fields that nobody checks in a request: its response repeats them as they came. */
const asWritten = (usual: string) => Type.Optional(Type.Unknown({ description: `As in the request, else ${usual}.` }));

/** What a response repeats of its request, as the client wrote it, else the dialect's own word for nothing. */
const repeated = late(() => ({
  instructions: asWritten("null"),
  max_output_tokens: Maybe(Type.Integer()),
  max_tool_calls: asWritten("null"),
  metadata: asWritten("an empty object"),
  parallel_tool_calls: Maybe(Type.Boolean()),
  prompt_cache_key: asWritten("not there"),
  reasoning: asWritten("`effort` and `summary` of null"),
  safety_identifier: asWritten("null"),
  temperature: Maybe(Type.Number()),
  text: Maybe(Open({ format: Type.Optional(Open({ type: Type.String() })), verbosity: asWritten("not there") })),
  tool_choice: asWritten("`auto`"),
  tools: Maybe(Type.Array(Open({}))),
  top_logprobs: asWritten("0"),
  top_p: Maybe(Type.Number()),
  truncation: asWritten("`disabled`"),
  user: asWritten("not there"),
}));

const OutputPart = late(() =>
  Open({
    type: Type.String({ examples: ["output_text", "refusal"] }),
    text: Maybe(Type.String()),
    refusal: Maybe(Type.String()),
    annotations: Maybe(Type.Array(Open({ type: Type.String() }), { description: "Pages that the text rests on." })),
    logprobs: Maybe(Type.Array(Open({}))),
  }),
);

/** An item of an answer. Which of the fields it has is told by its type. */
const OutputItem = late(() =>
  Open(
    {
      type: Type.String({ examples: ["message", "function_call", "reasoning"] }),
      id: Maybe(Type.String()),
      status: Maybe(Type.String({ examples: ["completed", "incomplete"] })),
      role: Maybe(Type.String({ description: "Of a message: `assistant`." })),
      content: Maybe(
        Type.Array(OutputPart(), {
          description: "Of a message; of reasoning, where its vendor tells the text itself.",
        }),
      ),
      summary: Maybe(
        Type.Array(Open({ type: Type.String(), text: Maybe(Type.String()) }), { description: "Of reasoning." }),
      ),
      encrypted_content: Maybe(
        Type.String({ description: "Of reasoning: its proof, to be sent back with the next turn." }),
      ),
      call_id: Maybe(Type.String({ description: "Of a call: what its output names." })),
      name: Maybe(Type.String({ description: "Of a call: the tool." })),
      arguments: Maybe(Type.Unknown({ description: "Of a function_call: a string of JSON." })),
    },
    { title: "ResponsesOutputItem" },
  ),
);

/** Answer of `POST /v1/responses`. */
export const ResponsesReply = late(() =>
  Open(
    {
      id: Type.String(),
      object: Type.Literal("response"),
      created_at: Type.Number({ description: "Unix seconds." }),
      status: Type.String({ examples: ["completed", "incomplete"] }),
      model: Type.String({ description: "The model ID that was asked for." }),
      output: Type.Array(OutputItem()),
      error: Maybe(Open({}, { description: "What went wrong, of a response that failed." })),
      incomplete_details: Nullable(
        Open({ reason: Type.Optional(Type.String()) }),
        "Why the answer is incomplete: `max_output_tokens` or `content_filter`.",
      ),
      usage: Type.Optional(Nullable(ResponsesUsage())),
      ...repeated(),
      background: Maybe(Type.Boolean()),
      previous_response_id: Maybe(Type.String()),
      service_tier: Maybe(Type.String()),
      store: Maybe(Type.Boolean()),
      access_programs: Maybe(Type.Array(Type.Unknown())),
    },
    { title: "ResponsesReply", description: "The answer as output items." },
  ),
);
