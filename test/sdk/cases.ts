import type { ClientName, DialectName, ModelKind } from "./lab.ts";
import type { Outcome, Requests } from "./outcomes.ts";
import {
  AS_JSON,
  CUT,
  FILTERED,
  GREETING,
  ONE_CALL,
  REASONED,
  REPORT,
  type Reply,
  STOPPED,
  TWO_CALLS,
} from "./replies.ts";

type Value = Record<string, unknown>;

/** One conversation, asked in every dialect through its SDK and answered by a vendor of every dialect. */
export type Case = {
  name: string;
  model: ModelKind;
  requests: Requests;
  reply: Reply;
  /** What must reach the vendor, per dialect: fields that are there, and fields that are not. */
  upstream: Record<DialectName, Value> & { never?: readonly string[] };
  /** What every client sees. */
  outcome: Partial<Pick<Outcome, "text" | "reasoning">> & { tools?: { name: string; input: unknown }[] };
  /** The finish in each client's words. */
  finish: Record<ClientName, string>;
  /** Vendors that cannot be asked this. */
  without?: readonly DialectName[];
};

const MAX_TOKENS = 256;
export const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const PIXEL_URL = `data:image/png;base64,${PIXEL}`;
const PICTURE = "https://pictures.example.com/cat.png";
export const PDF = Buffer.from("%PDF-1.4\n% a page of the lab\n%%EOF\n").toString("base64");
const PDF_URL = `data:application/pdf;base64,${PDF}`;

const WEATHER = {
  type: "object" as const,
  properties: { city: { type: "string" }, unit: { type: "string" } },
  required: ["city"],
};
const HEAD = { name: "get_weather", description: "The weather of a city." };
export const TOOLS = {
  chat: [{ type: "function" as const, function: { ...HEAD, parameters: WEATHER } }],
  messages: [{ ...HEAD, input_schema: WEATHER }],
  responses: [{ type: "function" as const, ...HEAD, parameters: WEATHER, strict: false }],
};
const TOOLS_UPSTREAM = {
  chat: { tools: [{ type: "function", function: { name: "get_weather", parameters: WEATHER } }] },
  messages: { tools: [{ name: "get_weather", input_schema: WEATHER }] },
  responses: { tools: [{ type: "function", name: "get_weather", parameters: WEATHER, strict: false }] },
  gemini: { tools: [{ functionDeclarations: [{ name: "get_weather", parametersJsonSchema: WEATHER }] }] },
};
const functionCalling = (config: Value) => ({ toolConfig: { functionCallingConfig: config } });

const FINISH = {
  stop: { chat: "stop", messages: "end_turn", responses: "completed" },
  calls: { chat: "tool_calls", messages: "tool_use", responses: "completed" },
  length: { chat: "length", messages: "max_tokens", responses: "incomplete max_output_tokens" },
  filter: { chat: "content_filter", messages: "refusal", responses: "incomplete content_filter" },
};

const user = (content: string) => ({ role: "user" as const, content });
const says = (content: string) => ({ role: "assistant" as const, content });

const text: Case = {
  name: "text, with a system prompt and an earlier turn",
  model: "plain",
  requests: {
    chat: {
      messages: [
        { role: "system", content: "Answer in German." },
        user("Hello"),
        says("Hallo."),
        user('Where from? \u{1F600} "\\ \u2028'),
      ],
      temperature: 0.5,
    },
    messages: {
      max_tokens: MAX_TOKENS,
      system: "Answer in German.",
      messages: [user("Hello"), says("Hallo."), user('Where from? \u{1F600} "\\ \u2028')],
      temperature: 0.5,
    },
    responses: {
      instructions: "Answer in German.",
      input: [user("Hello"), says("Hallo."), user('Where from? \u{1F600} "\\ \u2028')],
      temperature: 0.5,
    },
  },
  reply: GREETING,
  upstream: {
    chat: {
      temperature: 0.5,
      messages: [{ role: "system" }, { role: "user" }, { role: "assistant" }, { role: "user" }],
    },
    messages: { temperature: 0.5, messages: [{ role: "user" }, { role: "assistant" }, { role: "user" }] },
    responses: { temperature: 0.5, instructions: "Answer in German.", input: [{ role: "user" }, {}, {}] },
    gemini: {
      systemInstruction: { parts: [{ text: "Answer in German." }] },
      contents: [
        { role: "user", parts: [{ text: "Hello" }] },
        { role: "model", parts: [{ text: "Hallo." }] },
        { role: "user", parts: [{ text: 'Where from? \u{1F600} "\\ \u2028' }] },
      ],
      generationConfig: { temperature: 0.5 },
    },
    never: ["tools", "tool_choice", "toolConfig", "thinking", "reasoning_effort", "reasoning", "include"],
  },
  outcome: { text: "Grüße aus dem Labor 🙂!", tools: [] },
  finish: FINISH.stop,
};

const maxTokens: Case = {
  name: "an answer cut at the ceiling",
  model: "plain",
  requests: {
    chat: { messages: [user("Count.")], max_tokens: 27 },
    messages: { messages: [user("Count.")], max_tokens: 27 },
    responses: { input: "Count.", max_output_tokens: 27 },
  },
  reply: CUT,
  upstream: {
    chat: { max_tokens: 27 },
    messages: { max_tokens: 27 },
    responses: { max_output_tokens: 27 },
    gemini: { generationConfig: { maxOutputTokens: 27 } },
  },
  outcome: { text: "One, two, thr" },
  finish: FINISH.length,
};

const filtered: Case = {
  name: "an answer that the vendor's filter ended",
  model: "plain",
  requests: {
    chat: { messages: [user("Tell me.")] },
    messages: { messages: [user("Tell me.")], max_tokens: MAX_TOKENS },
    responses: { input: "Tell me." },
  },
  reply: FILTERED,
  upstream: { chat: {}, messages: {}, responses: {}, gemini: {} },
  outcome: { text: "I cannot go on", tools: [] },
  finish: FINISH.filter,
};

const stopSequences: Case = {
  name: "a stop sequence",
  model: "plain",
  requests: {
    chat: { messages: [user("List.")], stop: ["END", "FIN"] },
    messages: { messages: [user("List.")], max_tokens: MAX_TOKENS, stop_sequences: ["END", "FIN"] },
    // This dialect has no word for it.
    responses: { input: "List." },
  },
  reply: STOPPED,
  upstream: { chat: {}, messages: {}, responses: {}, gemini: {} },
  outcome: { text: "The list is " },
  finish: FINISH.stop,
};

/** Where each dialect says a stop sequence, for the two clients that can. */
export const STOP_UPSTREAM: Record<DialectName, Value> = {
  chat: { stop: ["END", "FIN"] },
  messages: { stop_sequences: ["END", "FIN"] },
  responses: {},
  gemini: { generationConfig: { stopSequences: ["END", "FIN"] } },
};
export const STOP_CASE = stopSequences.name;

const WARM = "How warm is it in Paris?";
const forcedTool: Case = {
  name: "a forced tool",
  model: "plain",
  requests: {
    chat: {
      messages: [user(WARM)],
      tools: TOOLS.chat,
      tool_choice: { type: "function", function: { name: "get_weather" } },
    },
    messages: {
      max_tokens: MAX_TOKENS,
      messages: [user(WARM)],
      tools: TOOLS.messages,
      tool_choice: { type: "tool", name: "get_weather" },
    },
    responses: { input: WARM, tools: TOOLS.responses, tool_choice: { type: "function", name: "get_weather" } },
  },
  reply: ONE_CALL,
  upstream: {
    chat: { ...TOOLS_UPSTREAM.chat, tool_choice: { type: "function", function: { name: "get_weather" } } },
    messages: { ...TOOLS_UPSTREAM.messages, tool_choice: { type: "tool", name: "get_weather" } },
    responses: { ...TOOLS_UPSTREAM.responses, tool_choice: { type: "function", name: "get_weather" } },
    gemini: {
      ...TOOLS_UPSTREAM.gemini,
      ...functionCalling({ mode: "ANY", allowedFunctionNames: ["get_weather"] }),
    },
  },
  outcome: { text: "", tools: [{ name: "get_weather", input: { city: "Paris", unit: "°C" } }] },
  finish: FINISH.calls,
};

const WARM_BOTH = "How warm is it in Paris and in Oslo?";
const parallelTools: Case = {
  name: "two tools called at once, any of them required",
  model: "plain",
  requests: {
    chat: { messages: [user(WARM_BOTH)], tools: TOOLS.chat, tool_choice: "required" },
    messages: {
      max_tokens: MAX_TOKENS,
      messages: [user(WARM_BOTH)],
      tools: TOOLS.messages,
      tool_choice: { type: "any" },
    },
    responses: { input: WARM_BOTH, tools: TOOLS.responses, tool_choice: "required" },
  },
  reply: TWO_CALLS,
  upstream: {
    chat: { tool_choice: "required" },
    messages: { tool_choice: { type: "any" } },
    responses: { tool_choice: "required" },
    gemini: functionCalling({ mode: "ANY" }),
  },
  outcome: {
    text: "",
    tools: [
      { name: "get_weather", input: { city: "Paris", unit: "°C" } },
      { name: "get_weather", input: { city: "Oslo" } },
    ],
  },
  finish: FINISH.calls,
};

const noParallelTools: Case = {
  name: "at most one tool at a time",
  model: "plain",
  requests: {
    chat: { messages: [user(WARM_BOTH)], tools: TOOLS.chat, parallel_tool_calls: false },
    messages: {
      max_tokens: MAX_TOKENS,
      messages: [user(WARM_BOTH)],
      tools: TOOLS.messages,
      tool_choice: { type: "auto", disable_parallel_tool_use: true },
    },
    responses: { input: WARM_BOTH, tools: TOOLS.responses, parallel_tool_calls: false },
  },
  reply: ONE_CALL,
  upstream: {
    chat: { parallel_tool_calls: false },
    messages: { tool_choice: { type: "auto", disable_parallel_tool_use: true } },
    responses: { parallel_tool_calls: false },
    gemini: TOOLS_UPSTREAM.gemini,
  },
  outcome: { text: "", tools: [{ name: "get_weather", input: { city: "Paris", unit: "°C" } }] },
  finish: FINISH.calls,
};

const noTool: Case = {
  name: "tools that must not be called",
  model: "plain",
  requests: {
    chat: { messages: [user("Hello")], tools: TOOLS.chat, tool_choice: "none" },
    messages: { max_tokens: 9, messages: [user("Hello")], tools: TOOLS.messages, tool_choice: { type: "none" } },
    responses: { input: "Hello", tools: TOOLS.responses, tool_choice: "none" },
  },
  reply: GREETING,
  upstream: {
    chat: { ...TOOLS_UPSTREAM.chat, tool_choice: "none" },
    messages: { ...TOOLS_UPSTREAM.messages, tool_choice: { type: "none" } },
    responses: { ...TOOLS_UPSTREAM.responses, tool_choice: "none" },
    gemini: { ...TOOLS_UPSTREAM.gemini, ...functionCalling({ mode: "NONE" }) },
  },
  outcome: { text: "Grüße aus dem Labor 🙂!", tools: [] },
  finish: FINISH.stop,
};

const called = (id: string, city: string) => ({
  chat: {
    id,
    type: "function" as const,
    function: { name: "get_weather", arguments: JSON.stringify({ city }) },
  },
  messages: { type: "tool_use" as const, id, name: "get_weather", input: { city } },
  responses: {
    type: "function_call" as const,
    call_id: id,
    name: "get_weather",
    arguments: JSON.stringify({ city }),
  },
});
const [paris, oslo] = [called("call_1", "Paris"), called("call_2", "Oslo")];

const toolResults: Case = {
  name: "the results of two tools, and what the user says to them",
  model: "plain",
  requests: {
    chat: {
      tools: TOOLS.chat,
      messages: [
        user(WARM_BOTH),
        { role: "assistant", content: "I will look.", tool_calls: [paris.chat, oslo.chat] },
        { role: "tool", tool_call_id: "call_1", content: "18 °C" },
        { role: "tool", tool_call_id: "call_2", content: "3 °C" },
        user("In words?"),
      ],
    },
    messages: {
      max_tokens: MAX_TOKENS,
      tools: TOOLS.messages,
      messages: [
        user(WARM_BOTH),
        { role: "assistant", content: [{ type: "text", text: "I will look." }, paris.messages, oslo.messages] },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "call_1", content: "18 °C" },
            { type: "tool_result", tool_use_id: "call_2", content: [{ type: "text", text: "3 °C" }] },
            { type: "text", text: "In words?" },
          ],
        },
      ],
    },
    responses: {
      tools: TOOLS.responses,
      input: [
        user(WARM_BOTH),
        says("I will look."),
        paris.responses,
        oslo.responses,
        { type: "function_call_output", call_id: "call_1", output: "18 °C" },
        { type: "function_call_output", call_id: "call_2", output: "3 °C" },
        user("In words?"),
      ],
    },
  },
  reply: REPORT,
  upstream: {
    chat: {
      messages: [
        { role: "user" },
        { role: "assistant", tool_calls: [{ id: "call_1" }, { id: "call_2" }] },
        { role: "tool", tool_call_id: "call_1" },
        { role: "tool", tool_call_id: "call_2" },
        { role: "user" },
      ],
    },
    messages: {
      messages: [
        { role: "user" },
        { role: "assistant", content: [{ type: "text" }, { type: "tool_use" }, { type: "tool_use" }] },
        { role: "user", content: [{ tool_use_id: "call_1" }, { tool_use_id: "call_2" }, { text: "In words?" }] },
      ],
    },
    responses: {
      input: [
        { role: "user" },
        { role: "assistant" },
        { type: "function_call", call_id: "call_1" },
        { type: "function_call", call_id: "call_2" },
        { type: "function_call_output", call_id: "call_1", output: "18 °C" },
        { type: "function_call_output", call_id: "call_2", output: "3 °C" },
        { role: "user" },
      ],
    },
    gemini: {
      contents: [
        { role: "user" },
        {
          role: "model",
          parts: [
            { text: "I will look." },
            { functionCall: { name: "get_weather", args: { city: "Paris" } } },
            { functionCall: { name: "get_weather", args: { city: "Oslo" } } },
          ],
        },
        {
          role: "user",
          parts: [
            { functionResponse: { name: "get_weather", response: { output: "18 °C" } } },
            { functionResponse: { name: "get_weather", response: { output: "3 °C" } } },
            { text: "In words?" },
          ],
        },
      ],
    },
  },
  outcome: { text: "Paris has 18 °C, Oslo 3 °C.", tools: [] },
  finish: FINISH.stop,
};

const WHAT = "What is this?";
const images: Case = {
  name: "images as data",
  model: "plain",
  requests: {
    chat: {
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: WHAT },
            { type: "image_url", image_url: { url: PIXEL_URL } },
          ],
        },
      ],
    },
    messages: {
      max_tokens: MAX_TOKENS,
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: WHAT },
            { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } },
          ],
        },
      ],
    },
    responses: {
      input: [
        {
          role: "user",
          content: [
            { type: "input_text", text: WHAT },
            { type: "input_image", image_url: PIXEL_URL, detail: "auto" },
          ],
        },
      ],
    },
  },
  reply: GREETING,
  upstream: {
    chat: { messages: [{ content: [{ type: "text", text: WHAT }, { image_url: { url: PIXEL_URL } }] }] },
    messages: { messages: [{ content: [{ text: WHAT }, { source: { media_type: "image/png", data: PIXEL } }] }] },
    responses: { input: [{ content: [{ text: WHAT }, { type: "input_image", image_url: PIXEL_URL }] }] },
    gemini: { contents: [{ parts: [{ text: WHAT }, { inlineData: { mimeType: "image/png", data: PIXEL } }] }] },
  },
  outcome: { text: "Grüße aus dem Labor 🙂!" },
  finish: FINISH.stop,
};

const imageUrls: Case = {
  ...images,
  name: "images by address",
  requests: {
    chat: { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: PICTURE } }] }] },
    messages: {
      max_tokens: MAX_TOKENS,
      messages: [{ role: "user", content: [{ type: "image", source: { type: "url", url: PICTURE } }] }],
    },
    responses: {
      input: [{ role: "user", content: [{ type: "input_image", image_url: PICTURE, detail: "auto" }] }],
    },
  },
  upstream: {
    chat: { messages: [{ content: [{ type: "image_url", image_url: { url: PICTURE } }] }] },
    messages: { messages: [{ content: [{ type: "image", source: { type: "url", url: PICTURE } }] }] },
    responses: { input: [{ content: [{ type: "input_image", image_url: PICTURE }] }] },
    gemini: {},
  },
  // That vendor fetches nothing, and this address is nobody's: what the gateway fetches for it is tested by itself.
  without: ["gemini"],
};

const documents: Case = {
  name: "a document",
  model: "plain",
  requests: {
    chat: {
      messages: [
        {
          role: "user",
          content: [
            { type: "file", file: { filename: "page.pdf", file_data: PDF_URL } },
            { type: "text", text: WHAT },
          ],
        },
      ],
    },
    messages: {
      max_tokens: MAX_TOKENS,
      messages: [
        {
          role: "user",
          content: [
            {
              type: "document",
              source: { type: "base64", media_type: "application/pdf", data: PDF },
              title: "page.pdf",
            },
            { type: "text", text: WHAT },
          ],
        },
      ],
    },
    responses: {
      input: [
        {
          role: "user",
          content: [
            { type: "input_file", filename: "page.pdf", file_data: PDF_URL },
            { type: "input_text", text: WHAT },
          ],
        },
      ],
    },
  },
  reply: GREETING,
  upstream: {
    chat: { messages: [{ content: [{ file: { filename: "page.pdf", file_data: PDF_URL } }, { text: WHAT }] }] },
    messages: {
      messages: [
        { content: [{ type: "document", source: { media_type: "application/pdf", data: PDF } }, { text: WHAT }] },
      ],
    },
    responses: { input: [{ content: [{ filename: "page.pdf", file_data: PDF_URL }, { text: WHAT }] }] },
    gemini: {
      contents: [
        { parts: [{ text: "page.pdf" }, { inlineData: { mimeType: "application/pdf", data: PDF } }, { text: WHAT }] },
      ],
    },
  },
  outcome: { text: "Grüße aus dem Labor 🙂!" },
  finish: FINISH.stop,
};

const PLACE = {
  type: "object" as const,
  properties: { city: { type: "string" }, degrees: { type: "number" } },
  required: ["city", "degrees"],
  additionalProperties: false as const,
};
const structured: Case = {
  name: "an answer of a given shape",
  model: "plain",
  requests: {
    chat: {
      messages: [user(WARM)],
      response_format: { type: "json_schema", json_schema: { name: "place", schema: PLACE, strict: true } },
    },
    messages: {
      max_tokens: MAX_TOKENS,
      messages: [user(WARM)],
      output_config: { format: { type: "json_schema", schema: PLACE } },
    },
    responses: { input: WARM, text: { format: { type: "json_schema", name: "place", schema: PLACE, strict: true } } },
  },
  reply: AS_JSON,
  upstream: {
    chat: { response_format: { type: "json_schema", json_schema: { schema: PLACE } } },
    messages: { output_config: { format: { type: "json_schema", schema: PLACE } } },
    responses: { text: { format: { type: "json_schema", schema: PLACE } } },
    gemini: { generationConfig: { responseMimeType: "application/json", responseJsonSchema: PLACE } },
  },
  outcome: { text: '{"city":"Paris","degrees":18}', tools: [] },
  finish: FINISH.stop,
};

/** 8,192 tokens of thinking are the level medium (interface 4.8); what is sampled with while reasoning is not sent. */
const reasoning: Case = {
  name: "reasoning",
  model: "thinker",
  requests: {
    chat: { messages: [user("Two and two?")], reasoning_effort: "medium", temperature: 0.3, top_p: 0.9 },
    messages: {
      max_tokens: 16_000,
      messages: [user("Two and two?")],
      thinking: { type: "enabled", budget_tokens: 8_192 },
      temperature: 1,
    },
    responses: { input: "Two and two?", reasoning: { effort: "medium" }, temperature: 0.3, top_p: 0.9 },
  },
  reply: REASONED,
  upstream: {
    chat: { reasoning_effort: "medium" },
    messages: { thinking: { type: "adaptive" }, output_config: { effort: "medium" } },
    responses: { reasoning: { effort: "medium" }, include: ["reasoning.encrypted_content"] },
    gemini: { generationConfig: { thinkingConfig: { thinkingLevel: "medium", includeThoughts: true } } },
    never: ["temperature", "top_p", "top_k"],
  },
  outcome: { text: "Four.", reasoning: "Two and two make four." },
  finish: FINISH.stop,
};

/** A level above the model's scale is served at its highest (interface 4.8 rule 1). */
const deepReasoning: Case = {
  ...reasoning,
  name: "reasoning deeper than the model can",
  requests: {
    chat: { messages: [user("Two and two?")], reasoning_effort: "xhigh" },
    messages: {
      ...reasoning.requests.messages,
      max_tokens: 64_000,
      thinking: { type: "enabled", budget_tokens: 32_000 },
    },
    responses: { input: "Two and two?", reasoning: { effort: "xhigh" } },
  },
  upstream: {
    chat: { reasoning_effort: "high" },
    messages: { thinking: { type: "adaptive" }, output_config: { effort: "high" } },
    responses: { reasoning: { effort: "high" } },
    gemini: { generationConfig: { thinkingConfig: { thinkingLevel: "high" } } },
    never: ["temperature", "top_p", "top_k"],
  },
};

export const CASES: readonly Case[] = [
  text,
  maxTokens,
  filtered,
  stopSequences,
  forcedTool,
  parallelTools,
  noParallelTools,
  noTool,
  toolResults,
  images,
  imageUrls,
  documents,
  structured,
  reasoning,
  deepReasoning,
];
