import fc from "fast-check";
import { PDF, PIXEL } from "./cases.ts";
import type { ClientName } from "./lab.ts";
import { proofOf } from "./vendors/gemini.ts";
import { signatureOf } from "./vendors/messages.ts";
import { encryptedOf } from "./vendors/responses.ts";

type Body = Record<string, unknown>;

const text = fc.constantFrom("hi", "Ünï 🙂", " ", "", "\n", "a\u0000b", "a\ud800", "long ".repeat(50));
const id = fc.constantFrom("c1", "c2", "c3", "toolu_x-1", "call:odd/1");
const name = fc.constantFrom("f", "g");
const argumentsText = fc.constantFrom("{}", '{"a":1}', "", "null");
const list = <T>(items: fc.Arbitrary<T>, maxLength: number) => fc.array(items, { minLength: 1, maxLength });
const PARAMETERS = { type: "object", properties: { a: { type: "number" } } };

/** Reasoning that a messages client holds: its own vendor's, nobody's, and what other vendors' came as. */
const thinking = fc
  .constantFrom(
    signatureOf("x"),
    "",
    `gm:call:${proofOf("x")}`,
    `rs:${Buffer.from(JSON.stringify(["rs_1", encryptedOf("x")])).toString("base64url")}`,
  )
  .map((signature) => ({ type: "thinking", thinking: "hm", signature }));

const block = text.map((words) => ({ type: "text", text: words }));
const image = fc.constant({ type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } });
const document = fc.constantFrom(
  { type: "document", source: { type: "base64", media_type: "application/pdf", data: PDF }, title: "T.pdf" },
  { type: "document", source: { type: "text", media_type: "text/plain", data: "words" } },
);
const toolUse = fc.record({ type: fc.constant("tool_use"), id, name, input: fc.constantFrom({}, { a: 1 }) });
const toolResult = fc.record({
  type: fc.constant("tool_result"),
  tool_use_id: id,
  content: fc.oneof(text, fc.array(fc.oneof(block, image, document), { maxLength: 2 })),
  is_error: fc.boolean(),
});
const userContent = fc.oneof(text, list(fc.oneof(toolResult, toolResult, block, image, document), 4));
const assistantContent = fc.oneof(text, list(fc.oneof(block, toolUse, toolUse, thinking), 4));
const turn = fc.oneof(
  { weight: 5, arbitrary: fc.record({ role: fc.constant("user"), content: userContent }) },
  { weight: 5, arbitrary: fc.record({ role: fc.constant("assistant"), content: assistantContent }) },
  { weight: 1, arbitrary: fc.record({ role: fc.constant("system"), content: text }) },
);
const messagesBody = fc.record(
  {
    messages: list(turn, 7),
    max_tokens: fc.constantFrom(5, 100),
    system: fc.constantFrom<unknown>("s", "", [{ type: "text", text: "a" }]),
    tools: fc.constant(["f", "g"].map((each) => ({ name: each, input_schema: PARAMETERS }))),
    thinking: fc.constantFrom<unknown>(
      { type: "disabled" },
      { type: "adaptive" },
      { type: "enabled", budget_tokens: 2_000 },
    ),
  },
  { requiredKeys: ["messages", "max_tokens"] },
);

const chatParts = list(
  fc.oneof(
    block,
    fc.constant({ type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } }),
    fc.constant({ type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` } }),
  ),
  3,
);
const chatCall = fc.record({
  id,
  type: fc.constant("function"),
  function: fc.record({ name, arguments: argumentsText }),
});
const chatAssistant = fc.record(
  {
    role: fc.constant("assistant"),
    content: fc.oneof(text, fc.constant(null)),
    tool_calls: list(chatCall, 3),
    reasoning_content: fc.constant("hm"),
  },
  { requiredKeys: ["role", "content"] },
);
const chatMessage = fc.oneof(
  { weight: 3, arbitrary: fc.record({ role: fc.constant("user"), content: fc.oneof(text, chatParts) }) },
  { weight: 4, arbitrary: chatAssistant },
  {
    weight: 5,
    arbitrary: fc.record({ role: fc.constant("tool"), tool_call_id: id, content: fc.oneof(text, list(block, 2)) }),
  },
  { weight: 2, arbitrary: fc.record({ role: fc.constantFrom("system", "developer"), content: text }) },
);
const chatBody = fc.record(
  {
    messages: list(chatMessage, 8),
    tools: fc.constant(
      ["f", "g"].map((each) => ({ type: "function", function: { name: each, parameters: PARAMETERS } })),
    ),
    reasoning_effort: fc.constantFrom("none", "minimal", "low", "max"),
    temperature: fc.constant(0.5),
    max_tokens: fc.constant(50),
  },
  { requiredKeys: ["messages"] },
);

const inputParts = list(
  fc.oneof(
    text.map((words) => ({ type: "input_text", text: words })),
    fc.constant({ type: "input_image", image_url: `data:image/png;base64,${PIXEL}`, detail: "auto" }),
    fc.constant({ type: "input_file", filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` }),
  ),
  3,
);
const functionCall = fc.record(
  {
    type: fc.constant("function_call"),
    call_id: id,
    name,
    arguments: argumentsText,
    id: fc.constant("fc_1"),
  },
  { requiredKeys: ["type", "call_id", "name", "arguments"] },
);
const reasoningItem = fc.constantFrom<Body>(
  { type: "reasoning", id: "rs_1", summary: [], encrypted_content: encryptedOf("x") },
  { type: "reasoning", id: "rs_2", summary: [{ type: "summary_text", text: "hm" }] },
  { type: "reasoning", id: "rs_3", summary: [], encrypted_content: `sluice-signature:${signatureOf("x")}` },
);
const inputItem = fc.oneof(
  { weight: 3, arbitrary: fc.record({ role: fc.constant("user"), content: fc.oneof(text, inputParts) }) },
  {
    weight: 2,
    arbitrary: text.map((words) => ({
      type: "message",
      id: "msg_1",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: words, annotations: [] }],
    })),
  },
  { weight: 4, arbitrary: functionCall },
  {
    weight: 4,
    arbitrary: fc.record({
      type: fc.constant("function_call_output"),
      call_id: id,
      output: fc.oneof(text, inputParts),
    }),
  },
  { weight: 2, arbitrary: reasoningItem },
  { weight: 1, arbitrary: fc.record({ role: fc.constant("developer"), content: text }) },
);
const responsesBody = fc.record(
  {
    input: list(inputItem, 8),
    instructions: fc.constant("s"),
    tools: fc.constant(
      ["f", "g"].map((each) => ({ type: "function", name: each, parameters: PARAMETERS, strict: false })),
    ),
    reasoning: fc.constantFrom({ effort: "low", summary: "auto" }, { effort: "none" }),
    temperature: fc.constant(0.5),
  },
  { requiredKeys: ["input"] },
);

/** Conversations of each dialect without their model: calls and results in any order, empty words, foreign reasoning. */
export const CONVERSATIONS: Record<ClientName, fc.Arbitrary<Body>> = {
  chat: chatBody,
  messages: messagesBody,
  responses: responsesBody,
};
