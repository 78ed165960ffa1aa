import { type TSchema, Type } from "@sinclair/typebox";
import { late, Maybe, Nullable, Open } from "./open.ts";

const text = (description: string) => Type.String({ description });
const number = (description: string) => Type.Number({ description });
const list = <T extends TSchema>(item: T, description: string) => Type.Array(item, { description });

/** A part of a message's content. Kinds that are not named here pass to the vendor as they are. */
const ChatPart = late(() =>
  Open(
    {
      type: text("a kind of part: text, image_url, input_audio, file or refusal"),
      text: Maybe(text("the text of a text part")),
      image_url: Maybe(
        Type.Union(
          [Open({ url: text("an https or data URL"), detail: Maybe(text("auto, low or high")) }), Type.String()],
          {
            description: "an object with a url",
          },
        ),
      ),
      input_audio: Maybe(
        Type.Union([Open({ data: text("base64 audio"), format: Maybe(text("wav or mp3")) }), Type.String()], {
          description: "an object with data",
        }),
      ),
      file: Maybe(
        Open({
          file_data: Maybe(text("a data URL")),
          file_id: Maybe(text("a file known to the vendor")),
          filename: Maybe(text("the file's name")),
        }),
      ),
      refusal: Maybe(text("a refusal of the assistant")),
    },
    { description: "a content part" },
  ),
);

const Called = late(() =>
  Open({
    name: Type.String({ minLength: 1, description: "the function's name" }),
    arguments: Maybe(Type.Union([text("arguments as JSON text"), Open({})], { description: "a string of JSON" })),
  }),
);

const ChatToolCall = late(() =>
  Open(
    {
      id: Maybe(text("the call's id, repeated by its result")),
      type: Maybe(text("function or custom")),
      function: Maybe(Called()),
      custom: Maybe(
        Open({
          name: Type.String({ minLength: 1, description: "the custom tool's name" }),
          input: Maybe(text("the tool's input")),
        }),
      ),
    },
    { description: "a tool call" },
  ),
);

const ROLES = ["developer", "system", "user", "assistant", "tool", "function"] as const;

const ChatMessage = late(() =>
  Open({
    role: Type.Union(
      ROLES.map((role) => Type.Literal(role)),
      { description: `one of ${ROLES.join(", ")}` },
    ),
    content: Type.Optional(
      Type.Union([Type.String(), Type.Array(ChatPart()), Type.Null()], {
        description: "a string, an array of content parts, or null",
      }),
    ),
    name: Maybe(text("the speaker's name")),
    tool_calls: Maybe(list(ChatToolCall(), "calls the assistant made")),
    tool_call_id: Maybe(text("on role tool: the call this is the result of")),
    refusal: Maybe(text("a refusal of the assistant")),
    reasoning_content: Maybe(text("the assistant's reasoning in an earlier turn")),
    function_call: Maybe(Called()),
  }),
);

const ChatFunction = late(() =>
  Open({
    name: Type.String({ minLength: 1, description: "the function's name" }),
    description: Maybe(text("what it does")),
    parameters: Maybe(Open({}, { description: "JSON Schema of its arguments" })),
    strict: Maybe(Type.Boolean({ description: "arguments follow the schema exactly" })),
  }),
);

const ChatTool = late(() =>
  Open({
    type: Maybe(text("function or custom")),
    function: Maybe(ChatFunction()),
    custom: Maybe(
      Open({
        name: Type.String({ minLength: 1, description: "the custom tool's name" }),
        description: Maybe(text("what it does")),
      }),
    ),
  }),
);

/** Body of `POST /v1/chat/completions` (interface 4.7, dialects.md 1.1). Fields that are not named pass. */
export const ChatRequest = late(() =>
  Open(
    {
      model: text("a model ID, <vendor>/<model_name>"),
      messages: Type.Array(ChatMessage(), { minItems: 1, description: "the conversation, at least one message" }),
      stream: Maybe(Type.Boolean({ description: "answer as server-sent events" })),
      stream_options: Maybe(
        Open({ include_usage: Maybe(Type.Boolean({ description: "close the stream with a usage record" })) }),
      ),
      max_completion_tokens: Maybe(
        Type.Integer({ minimum: 1, description: "most tokens to generate, reasoning included" }),
      ),
      max_tokens: Maybe(Type.Integer({ minimum: 1, description: "the older name of max_completion_tokens" })),
      reasoning_effort: Type.Optional(
        Type.Unknown({ description: "none, minimal, low, medium, high, xhigh or max; other values are ignored" }),
      ),
      temperature: Maybe(number("0 to 2; dropped while reasoning is active")),
      top_p: Maybe(number("0 to 1; dropped while reasoning is active")),
      top_k: Maybe(number("not part of the dialect; passed where the vendor knows it")),
      n: Maybe(Type.Integer({ minimum: 1, description: "answers wanted; more than 1 only where the vendor can" })),
      stop: Maybe(
        Type.Union([Type.String(), Type.Array(Type.String())], { description: "a string or an array of strings" }),
      ),
      seed: Maybe(number("for repeatable sampling, where the vendor can")),
      frequency_penalty: Maybe(number("-2 to 2")),
      presence_penalty: Maybe(number("-2 to 2")),
      tools: Maybe(list(ChatTool(), "tools the model may call")),
      tool_choice: Maybe(
        Type.Union([Type.String(), Open({})], { description: "none, auto, required, or an object naming a tool" }),
      ),
      parallel_tool_calls: Maybe(Type.Boolean({ description: "several tool calls in one answer" })),
      functions: Maybe(list(ChatFunction(), "the older form of tools")),
      function_call: Maybe(Type.Union([Type.String(), Open({})], { description: "the older form of tool_choice" })),
      response_format: Maybe(Open({ type: text("text, json_object or json_schema") })),
      user: Maybe(text("the caller's name for its end user")),
    },
    {
      description: "A chat completion request",
      examples: [{ model: "sluice/echo", messages: [{ role: "user", content: "Hello" }], stream: true }],
    },
  ),
);

/** Counts that some vendors tell and others do not. */
const counts = (...names: readonly string[]) =>
  Open(Object.fromEntries(names.map((name) => [name, Maybe(Type.Integer())])));

const ChatUsage = late(() =>
  Open(
    {
      prompt_tokens: Type.Integer({ description: "all input, cached included" }),
      completion_tokens: Type.Integer({ description: "all output, reasoning included" }),
      total_tokens: Type.Integer(),
      prompt_tokens_details: Maybe(counts("cached_tokens", "cache_write_tokens", "audio_tokens")),
      completion_tokens_details: Maybe(
        counts("reasoning_tokens", "audio_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens"),
      ),
    },
    { description: "Token counts" },
  ),
);

const finishReason = late(() =>
  Nullable(Type.String(), "stop, length, tool_calls, content_filter; null while the answer goes on"),
);

/** An image in a reply: not OpenAI's own, but what clients and resellers agree on (OpenRouter). */
const ChatPicture = late(() =>
  Open({ type: Maybe(text("image_url")), image_url: Maybe(Open({ url: text("a data URL, or an address") })) }),
);

/** A page that the answer rests on. */
const ChatAnnotation = late(() =>
  Open({
    type: Type.String({ examples: ["url_citation"] }),
    url_citation: Maybe(
      Open({
        url: Type.String(),
        title: Maybe(Type.String()),
        start_index: Maybe(Type.Integer()),
        end_index: Maybe(Type.Integer()),
      }),
    ),
  }),
);

/** A whole answer of `POST /v1/chat/completions` (dialects.md 1.3). */
export const ChatCompletion = late(() =>
  Open(
    {
      id: Type.String(),
      object: Type.Literal("chat.completion"),
      created: Type.Integer({ description: "Unix seconds" }),
      model: text("the model ID that was asked for"),
      choices: Type.Array(
        Open({
          index: Type.Integer(),
          finish_reason: finishReason(),
          logprobs: Maybe(
            Open({}, { description: "likelihoods, where they were asked for and the vendor tells them" }),
          ),
          stop_reason: Type.Optional(
            Type.Unknown({ description: "the stop sequence that matched, where the vendor tells it (vLLM's word)" }),
          ),
          message: Open({
            role: Type.Literal("assistant"),
            content: Nullable(Type.String()),
            refusal: Maybe(Type.String()),
            reasoning_content: Maybe(text("the model's reasoning, where it shows it")),
            annotations: Maybe(list(ChatAnnotation(), "pages that the answer rests on")),
            images: Maybe(list(ChatPicture(), "images that the model made")),
            tool_calls: Maybe(Type.Array(ChatToolCall())),
            function_call: Maybe(Called()),
          }),
        }),
      ),
      service_tier: Maybe(text("how the vendor served it, where it tells")),
      usage: Type.Optional(ChatUsage()),
    },
    { description: "A chat completion" },
  ),
);
