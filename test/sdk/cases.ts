import type { AnthropicRequest, OpenAIRequest, Outcome } from "./outcomes.ts";
import { CUT, GREETING, ONE_CALL, REASONED, REPORT, type Reply, STOPPED, TWO_CALLS } from "./replies.ts";

/** One conversation, asked through both SDKs and answered by both vendors. */
export type Case = {
  name: string;
  model: "plain" | "thinker";
  openai: OpenAIRequest;
  anthropic: AnthropicRequest;
  reply: Reply;
  /** What must reach the vendor, per dialect: fields that are there, and fields that are not. */
  upstream: { chat: Record<string, unknown>; messages: Record<string, unknown>; never?: readonly string[] };
  /** What both clients see. */
  outcome: Partial<Pick<Outcome, "text" | "reasoning">> & { tools?: { name: string; input: unknown }[] };
  /** The finish in the client's dialect; where a stop sequence cannot be told from a natural end, by vendor. */
  finish: { openai: string; anthropic: { chat: string; messages: string } };
};

const MAX_TOKENS = 256;
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const PICTURE = "https://pictures.example.com/cat.png";

const WEATHER = {
  type: "object" as const,
  properties: { city: { type: "string" }, unit: { type: "string" } },
  required: ["city"],
};
const OPENAI_TOOLS: OpenAIRequest["tools"] = [
  { type: "function", function: { name: "get_weather", description: "The weather of a city.", parameters: WEATHER } },
];
const ANTHROPIC_TOOLS: AnthropicRequest["tools"] = [
  { name: "get_weather", description: "The weather of a city.", input_schema: WEATHER },
];
const WEATHER_OF_BOTH = "How warm is it in Paris and in Oslo?";

const same = (openai: string, anthropic: string): Case["finish"] => ({
  openai,
  anthropic: { chat: anthropic, messages: anthropic },
});
const user = (content: string) => ({ role: "user" as const, content });

const text: Case = {
  name: "text, with a system prompt and an earlier turn",
  model: "plain",
  openai: {
    messages: [
      { role: "system", content: "Answer in German." },
      user("Hello"),
      { role: "assistant", content: "Hallo." },
      user("Where from?"),
    ],
    temperature: 0.5,
  },
  anthropic: {
    max_tokens: MAX_TOKENS,
    system: "Answer in German.",
    messages: [user("Hello"), { role: "assistant", content: "Hallo." }, user("Where from?")],
    temperature: 0.5,
  },
  reply: GREETING,
  upstream: {
    chat: {
      temperature: 0.5,
      messages: [{ role: "system" }, { role: "user" }, { role: "assistant" }, { role: "user" }],
    },
    messages: { temperature: 0.5, messages: [{ role: "user" }, { role: "assistant" }, { role: "user" }] },
    never: ["tools", "tool_choice", "thinking", "reasoning_effort"],
  },
  outcome: { text: "Grüße aus dem Labor 🙂!", tools: [] },
  finish: same("stop", "end_turn"),
};

const maxTokens: Case = {
  name: "an answer cut at the ceiling",
  model: "plain",
  openai: { messages: [user("Count.")], max_completion_tokens: 7 },
  anthropic: { messages: [user("Count.")], max_tokens: 7 },
  reply: CUT,
  upstream: { chat: { max_completion_tokens: 7 }, messages: { max_tokens: 7 } },
  outcome: { text: "One, two, thr" },
  finish: same("length", "max_tokens"),
};

const stopSequences: Case = {
  name: "a stop sequence",
  model: "plain",
  openai: { messages: [user("List.")], stop: ["END", "FIN"] },
  anthropic: { messages: [user("List.")], max_tokens: MAX_TOKENS, stop_sequences: ["END", "FIN"] },
  reply: STOPPED,
  upstream: { chat: { stop: ["END", "FIN"] }, messages: { stop_sequences: ["END", "FIN"] } },
  outcome: { text: "The list is " },
  // A chat vendor does not say that it was a stop sequence that ended the answer.
  finish: { openai: "stop", anthropic: { chat: "end_turn", messages: "stop_sequence" } },
};

const forcedTool: Case = {
  name: "a forced tool",
  model: "plain",
  openai: {
    messages: [user("How warm is it in Paris?")],
    tools: OPENAI_TOOLS,
    tool_choice: { type: "function", function: { name: "get_weather" } },
  },
  anthropic: {
    max_tokens: MAX_TOKENS,
    messages: [user("How warm is it in Paris?")],
    tools: ANTHROPIC_TOOLS,
    tool_choice: { type: "tool", name: "get_weather" },
  },
  reply: ONE_CALL,
  upstream: {
    chat: {
      tools: [{ type: "function", function: { name: "get_weather", parameters: WEATHER } }],
      tool_choice: { type: "function", function: { name: "get_weather" } },
    },
    messages: {
      tools: [{ name: "get_weather", input_schema: WEATHER }],
      tool_choice: { type: "tool", name: "get_weather" },
    },
  },
  outcome: { text: "", tools: [{ name: "get_weather", input: { city: "Paris", unit: "°C" } }] },
  finish: same("tool_calls", "tool_use"),
};

const parallelTools: Case = {
  name: "two tools called at once, any of them required",
  model: "plain",
  openai: { messages: [user(WEATHER_OF_BOTH)], tools: OPENAI_TOOLS, tool_choice: "required" },
  anthropic: {
    max_tokens: MAX_TOKENS,
    messages: [user(WEATHER_OF_BOTH)],
    tools: ANTHROPIC_TOOLS,
    tool_choice: { type: "any" },
  },
  reply: TWO_CALLS,
  upstream: { chat: { tool_choice: "required" }, messages: { tool_choice: { type: "any" } } },
  outcome: {
    text: "",
    tools: [
      { name: "get_weather", input: { city: "Paris", unit: "°C" } },
      { name: "get_weather", input: { city: "Oslo" } },
    ],
  },
  finish: same("tool_calls", "tool_use"),
};

const noParallelTools: Case = {
  name: "at most one tool at a time",
  model: "plain",
  openai: { messages: [user(WEATHER_OF_BOTH)], tools: OPENAI_TOOLS, parallel_tool_calls: false },
  anthropic: {
    max_tokens: MAX_TOKENS,
    messages: [user(WEATHER_OF_BOTH)],
    tools: ANTHROPIC_TOOLS,
    tool_choice: { type: "auto", disable_parallel_tool_use: true },
  },
  reply: ONE_CALL,
  upstream: {
    chat: { parallel_tool_calls: false },
    messages: { tool_choice: { type: "auto", disable_parallel_tool_use: true } },
  },
  outcome: { text: "", tools: [{ name: "get_weather", input: { city: "Paris", unit: "°C" } }] },
  finish: same("tool_calls", "tool_use"),
};

const toolResults: Case = {
  name: "the results of two tools",
  model: "plain",
  openai: {
    tools: OPENAI_TOOLS,
    messages: [
      user(WEATHER_OF_BOTH),
      {
        role: "assistant",
        content: "I will look.",
        tool_calls: [
          { id: "call_1", type: "function", function: { name: "get_weather", arguments: '{"city":"Paris"}' } },
          { id: "call_2", type: "function", function: { name: "get_weather", arguments: '{"city":"Oslo"}' } },
        ],
      },
      { role: "tool", tool_call_id: "call_1", content: "18 °C" },
      { role: "tool", tool_call_id: "call_2", content: "3 °C" },
    ],
  },
  anthropic: {
    max_tokens: MAX_TOKENS,
    tools: ANTHROPIC_TOOLS,
    messages: [
      user(WEATHER_OF_BOTH),
      {
        role: "assistant",
        content: [
          { type: "text", text: "I will look." },
          { type: "tool_use", id: "call_1", name: "get_weather", input: { city: "Paris" } },
          { type: "tool_use", id: "call_2", name: "get_weather", input: { city: "Oslo" } },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "call_1", content: "18 °C" },
          { type: "tool_result", tool_use_id: "call_2", content: [{ type: "text", text: "3 °C" }] },
        ],
      },
    ],
  },
  reply: REPORT,
  upstream: {
    chat: {
      messages: [
        { role: "user" },
        { role: "assistant", tool_calls: [{ id: "call_1" }, { id: "call_2" }] },
        { role: "tool", tool_call_id: "call_1" },
        { role: "tool", tool_call_id: "call_2" },
      ],
    },
    messages: {
      messages: [
        { role: "user" },
        { role: "assistant", content: [{ type: "text" }, { type: "tool_use" }, { type: "tool_use" }] },
        { role: "user", content: [{ tool_use_id: "call_1" }, { tool_use_id: "call_2" }] },
      ],
    },
  },
  outcome: { text: "Paris has 18 °C, Oslo 3 °C.", tools: [] },
  finish: same("stop", "end_turn"),
};

const images: Case = {
  name: "images, as data and by address",
  model: "plain",
  openai: {
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "What is this?" },
          { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } },
          { type: "image_url", image_url: { url: PICTURE } },
        ],
      },
    ],
  },
  anthropic: {
    max_tokens: MAX_TOKENS,
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "What is this?" },
          { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } },
          { type: "image", source: { type: "url", url: PICTURE } },
        ],
      },
    ],
  },
  reply: GREETING,
  upstream: {
    chat: {
      messages: [
        {
          content: [
            { type: "text", text: "What is this?" },
            { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } },
            { type: "image_url", image_url: { url: PICTURE } },
          ],
        },
      ],
    },
    messages: {
      messages: [
        {
          content: [
            { type: "text", text: "What is this?" },
            { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } },
            { type: "image", source: { type: "url", url: PICTURE } },
          ],
        },
      ],
    },
  },
  outcome: { text: "Grüße aus dem Labor 🙂!" },
  finish: same("stop", "end_turn"),
};

/** 8,192 tokens of thinking are the level medium (interface 4.8); what is sampled with while reasoning is not sent. */
const reasoning: Case = {
  name: "reasoning",
  model: "thinker",
  openai: { messages: [user("Two and two?")], reasoning_effort: "medium", temperature: 0.3, top_p: 0.9 },
  anthropic: {
    max_tokens: 16_000,
    messages: [user("Two and two?")],
    thinking: { type: "enabled", budget_tokens: 8_192 },
    temperature: 1,
  },
  reply: REASONED,
  upstream: {
    chat: { reasoning_effort: "medium" },
    messages: { thinking: { type: "adaptive" }, output_config: { effort: "medium" } },
    never: ["temperature", "top_p", "top_k"],
  },
  outcome: { text: "Four.", reasoning: "Two and two make four." },
  finish: same("stop", "end_turn"),
};

/** A level above the model's scale is served at its highest (interface 4.8 rule 1). */
const deepReasoning: Case = {
  ...reasoning,
  name: "reasoning deeper than the model can",
  openai: { messages: [user("Two and two?")], reasoning_effort: "xhigh" },
  anthropic: { ...reasoning.anthropic, max_tokens: 64_000, thinking: { type: "enabled", budget_tokens: 32_000 } },
  upstream: {
    chat: { reasoning_effort: "high" },
    messages: { thinking: { type: "adaptive" }, output_config: { effort: "high" } },
    never: ["temperature", "top_p", "top_k"],
  },
};

export const CASES: readonly Case[] = [
  text,
  maxTokens,
  stopSequences,
  forcedTool,
  parallelTools,
  noParallelTools,
  toolResults,
  images,
  reasoning,
  deepReasoning,
];
