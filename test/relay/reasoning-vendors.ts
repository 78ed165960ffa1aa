import type { Event } from "../../src/canon/events.ts";
import type { UpstreamDialectName } from "../../src/dialects/dialect.ts";
import { dialects } from "../../src/dialects/index.ts";
import { packReasoning, unpackReasoning } from "../../src/dialects/reasoning/proof.ts";
import { isObject, objectsOf } from "../../src/lib/json.ts";
import type { UpstreamRequest, Vendor } from "../../src/vendors/vendor.ts";

/** What a vendor says in one reply. */
export type Said =
  | { kind: "think"; text: string; redacted?: boolean }
  | { kind: "text"; text: string; signed?: boolean }
  | { kind: "call"; name: string; input: Record<string, unknown> };

type Wire = Record<string, unknown>;

/** The three replies of a tool loop, and the one to what the user says afterwards. */
export const LOOP: readonly (readonly Said[])[] = [
  [
    { kind: "think", text: "First Ulm and Bonn, \u00e9\u{1F600}." },
    { kind: "text", text: "Looking. " },
    { kind: "call", name: "weather", input: { city: "Ulm" } },
    { kind: "call", name: "weather", input: { city: "Bonn" } },
  ],
  [
    { kind: "think", text: "Now the clock." },
    { kind: "call", name: "clock", input: {} },
  ],
  [
    { kind: "think", text: "I know it all." },
    { kind: "text", text: "It rains in Ulm.\n\nNot in Bonn." },
  ],
  [{ kind: "text", text: "You are welcome." }],
];
/** What the model thinks in them. */
export const THOUGHTS = LOOP.flatMap((said) => said.flatMap((block) => (block.kind === "think" ? [block.text] : [])));

/** A vendor inside this process that refuses what the real one refuses. */
export type StrictVendor = {
  vendor: Vendor;
  /** Bodies that arrived, oldest first. */
  bodies: Wire[];
  /** What was refused, and why. */
  refusals: string[];
  /** Reasoning texts that came back with the newest request, in order. */
  returned(): string[];
  /** Says these replies instead of {@link LOOP}. */
  script: readonly (readonly Said[])[];
};

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** How one wire is read by a strict vendor, and what proof it gives. */
export type Strictness = {
  dialect: UpstreamDialectName;
  /** How many replies of the model the request holds. */
  turns(body: Wire): number;
  /** Reasoning in the request: texts in order. Throws what the vendor answers 400 with. */
  check(body: Wire, issued: ReadonlyMap<string, string>): string[];
  /** Proof of the thought number `at`. */
  proof(seed: string): string;
  /** The reply to a request, where the dialect's own writer does not show what this vendor shows. */
  answer?(events: readonly Event[], body: Wire): Response;
};

const anthropicLoop = (messages: Wire[]): Wire[] => {
  let start = messages.length;
  for (let at = messages.length - 1; at > 0; at -= 2) {
    if (!objectsOf(messages[at]?.["content"]).some((block) => block["type"] === "tool_result")) break;
    start = at - 1;
  }
  return messages.slice(start).filter((message) => message["role"] === "assistant");
};

const isThinking = (block: Wire | undefined) =>
  block?.["type"] === "thinking" || block?.["type"] === "redacted_thinking";

/** `final`: every assistant turn of the loop must open with thinking, not the first alone. */
export const anthropic = (final = false): Strictness => ({
  dialect: "messages",
  turns: (body) => objectsOf(body["messages"]).filter((message) => message["role"] === "assistant").length,
  proof: (seed) => `EqQB${seed}==`,
  check(body, issued) {
    const messages = objectsOf(body["messages"]);
    const texts: string[] = [];
    for (const [at, message] of messages.entries()) {
      const blocks = objectsOf(message["content"]);
      const calls = blocks.flatMap((block) => (block["type"] === "tool_use" ? [block["id"]] : []));
      const answers = objectsOf(messages[at + 1]?.["content"]).map((block) => block["tool_use_id"]);
      if (calls.some((id) => !answers.includes(id)))
        throw new Error(`messages.${at}: tool_use ids without tool_result`);
      for (const block of blocks) {
        if (!isThinking(block)) continue;
        const proof = textOf(block["signature"] ?? block["data"]);
        const known = issued.get(proof);
        if (known === undefined || (block["type"] === "thinking" && known !== block["thinking"])) {
          throw new Error(`messages.${at}.content: Invalid \`signature\` in \`thinking\` block`);
        }
        texts.push(known);
      }
      if (message["role"] === "assistant" && isThinking(blocks.at(-1))) throw new Error("final block is thinking");
    }
    const loop = anthropicLoop(messages);
    const mode = isObject(body["thinking"]) ? body["thinking"]["type"] : undefined;
    const demanded = final ? loop : loop.slice(0, 1);
    if (mode === "enabled" && demanded.some((turn) => !isThinking(objectsOf(turn["content"])[0]))) {
      throw new Error("Expected `thinking` or `redacted_thinking`, but found `tool_use`");
    }
    if (
      mode !== "enabled" &&
      mode !== "adaptive" &&
      mode !== "between_tools" &&
      loop.some((turn) => objectsOf(turn["content"]).some(isThinking))
    ) {
      throw new Error("When `thinking` is disabled, an `assistant` message cannot contain `thinking`");
    }
    return texts;
  },
});

export const google: Strictness = {
  dialect: "gemini",
  turns: (body) => objectsOf(body["contents"]).filter((content) => content["role"] === "model").length,
  proof: (seed) => `sig${seed}=`,
  check(body, issued) {
    const contents = objectsOf(body["contents"]);
    const texts: string[] = [];
    const isQuestion = (content: Wire) =>
      content["role"] === "user" && objectsOf(content["parts"]).some((part) => typeof part["text"] === "string");
    const current = contents.findLastIndex(isQuestion);
    for (const [at, content] of contents.entries()) {
      const parts = objectsOf(content["parts"]);
      if (parts.length === 0) throw new Error("contents.parts must not be empty");
      for (const part of parts) {
        const signature = textOf(part["thoughtSignature"]);
        if (signature === "" || signature === "skip_thought_signature_validator") continue;
        const known = issued.get(signature);
        if (known === undefined) throw new Error("Thought signature is not valid");
        texts.push(known);
      }
      const first = parts.find((part) => isObject(part["functionCall"]));
      if (at > current && first && textOf(first["thoughtSignature"]) === "") {
        throw new Error("Function call is missing a thought_signature in functionCall parts");
      }
    }
    return texts;
  },
};

export const openai: Strictness = {
  dialect: "responses",
  turns(body) {
    let turns = 0;
    let spoke = false;
    for (const item of objectsOf(body["input"])) {
      const own = item["role"] === "assistant" || ["function_call", "reasoning"].includes(textOf(item["type"]));
      if (own && !spoke) turns++;
      spoke = own;
    }
    return turns;
  },
  proof: (seed) => packReasoning({ id: `rs_${seed}`, encrypted: `gAAA${seed}` }),
  check(body, issued) {
    if (body["store"] !== false) throw new Error("this vendor stores nothing");
    const texts: string[] = [];
    const items = objectsOf(body["input"]);
    const seen = new Set<string>();
    for (const [at, item] of items.entries()) {
      if (item["type"] === "reasoning") {
        const [known] = [...issued].flatMap(([proof, text]) =>
          unpackReasoning(proof)?.encrypted === item["encrypted_content"] ? [text] : [],
        );
        if (known === undefined) throw new Error("The encrypted content could not be verified");
        if (seen.has(textOf(item["id"]))) throw new Error(`Duplicate item found with id ${textOf(item["id"])}`);
        seen.add(textOf(item["id"]));
        const next = items[at + 1];
        if (!next || (next["type"] !== "function_call" && next["role"] !== "assistant")) {
          throw new Error("Item of type 'reasoning' was provided without its required following item");
        }
        texts.push(known);
      }
      const before = items
        .slice(0, at)
        .findLast((one) => one["type"] !== "function_call" && one["role"] !== "assistant");
      if (item["type"] === "function_call" && item["id"] !== undefined && before?.["type"] !== "reasoning") {
        throw new Error("'function_call' was provided without its required 'reasoning' item");
      }
    }
    return texts;
  },
};

/** `empty`: an empty text does for reasoning (DeepSeek); else it must say something beside calls (Kimi). */
export const plain = (empty: boolean): Strictness => ({
  dialect: "chat",
  turns: (body) => objectsOf(body["messages"]).filter((message) => message["role"] === "assistant").length,
  proof: () => "",
  check(body) {
    const texts: string[] = [];
    for (const [at, message] of objectsOf(body["messages"]).entries()) {
      if (message["role"] !== "assistant") continue;
      const text = message["reasoning_content"];
      const isRefused = empty ? typeof text !== "string" : message["tool_calls"] !== undefined && !text;
      if (isRefused) throw new Error(`reasoning_content is missing in assistant message at index ${at}`);
      if (typeof text === "string" && text.trim() !== "") texts.push(text);
    }
    return texts;
  },
});

let made = 0;

function toEvents(
  said: readonly Said[],
  strictness: Strictness,
  issued: Map<string, string>,
  ids: () => string,
): Event[] {
  const out: Event[] = [{ type: "start", id: "reply", model: "hidden", created: 1 }];
  for (const block of said) {
    if (block.kind === "call") {
      out.push({ type: "block-start", block: { kind: "tool-call", id: ids(), name: block.name } });
      if (Object.keys(block.input).length > 0) out.push({ type: "block-delta", text: JSON.stringify(block.input) });
      out.push({ type: "block-end" });
      continue;
    }
    const isProved = block.kind === "think" || block.signed === true;
    const proof = isProved ? strictness.proof(`${++made}abc`) : "";
    if (isProved) issued.set(proof === "" ? block.text : proof, block.text);
    if (block.kind === "think" && block.redacted) {
      out.push({ type: "block-start", block: { kind: "redacted-reasoning", data: proof } }, { type: "block-end" });
      continue;
    }
    out.push({ type: "block-start", block: { kind: block.kind === "think" ? "reasoning" : "text" } });
    const half = Math.ceil(block.text.length / 3);
    for (const text of [block.text.slice(0, half), block.text.slice(half)]) {
      if (text !== "") out.push({ type: "block-delta", text });
    }
    if (proof !== "") out.push({ type: "block-signature", signature: proof });
    out.push({ type: "block-end" });
  }
  const calls = said.some((block) => block.kind === "call");
  const usage = { input: 10, cacheRead: 0, cacheWrite: 0, output: 5, reasoning: 2 };
  out.push({ type: "usage", usage }, { type: "finish", finish: { reason: calls ? "tool-calls" : "stop" } });
  return out;
}

/** A reply of Google's wire: the signature stands on the first call, or on the text where there is no call. */
function geminiReply(events: readonly Event[]): Wire[] {
  const parts: Wire[] = [];
  let waiting = "";
  let open: Wire | undefined;
  let args = "";
  for (const event of events) {
    if (event.type === "block-start") {
      args = "";
      const { block } = event;
      if (block.kind === "tool-call") open = { functionCall: { name: block.name, args: {} } };
      else open = { text: "", ...(block.kind === "reasoning" && { thought: true }) };
    } else if (event.type === "block-delta" && open) {
      if ("functionCall" in open) args += event.text;
      else open["text"] = textOf(open["text"]) + event.text;
    } else if (event.type === "block-signature") waiting = event.signature;
    else if (event.type === "block-end" && open) {
      const call = open["functionCall"];
      if (isObject(call) && args !== "") call["args"] = JSON.parse(args) as Wire;
      if (waiting !== "" && (call || !open["thought"])) {
        open["thoughtSignature"] = waiting;
        waiting = "";
      }
      parts.push(open);
      open = undefined;
    }
  }
  // A text keeps the signature for a call behind it.
  const text = parts.find((part) => part["thoughtSignature"] && !part["functionCall"]);
  const call = parts.find((part) => part["functionCall"]);
  if (text && call) {
    call["thoughtSignature"] = text["thoughtSignature"];
    delete text["thoughtSignature"];
  }
  return parts;
}

const GEMINI_USAGE = { promptTokenCount: 10, candidatesTokenCount: 3, thoughtsTokenCount: 2, totalTokenCount: 15 };

function geminiBody(parts: readonly Wire[], finish: boolean): Wire {
  const candidate = { index: 0, content: { role: "model", parts }, ...(finish && { finishReason: "STOP" }) };
  return { candidates: [candidate], usageMetadata: GEMINI_USAGE, responseId: "r", modelVersion: "hidden" };
}

export const replyContext = () => ({
  model: "hidden",
  replyId: `v${++made}`,
  created: 1,
  wantsUsage: true,
  estimatedInputTokens: 1,
});

function answer(dialect: UpstreamDialectName, events: readonly Event[], stream: boolean): Response {
  const sse = { headers: { "content-type": "text/event-stream" } };
  if (dialect === "gemini") {
    const parts = geminiReply(events);
    if (!stream) return Response.json(geminiBody(parts, true));
    const records = parts.map((part, at) => geminiBody([part], at === parts.length - 1));
    return new Response(records.map((record) => `data: ${JSON.stringify(record)}\r\n\r\n`).join(""), sse);
  }
  const wire = dialects[dialect];
  if (!stream) return Response.json(wire.encodeReply(events, replyContext()));
  const encoder = wire.encoder(replyContext());
  return new Response(events.map((event) => encoder.push(event)).join("") + encoder.end(), sse);
}

/** Starts a strict vendor under `id`; its models have any name. */
export function strictVendor(id: string, strictness: Strictness, quirks: Vendor["quirks"] = {}): StrictVendor {
  const issued = new Map<string, string>();
  let returned: string[] = [];
  const weak = strictness.dialect === "chat" && !quirks.reasoningReplayAlways;
  const serve = (request: UpstreamRequest): Promise<Response> => {
    const body = JSON.parse(request.body) as Wire;
    self.bodies.push(body);
    try {
      returned = strictness.check(body, issued);
    } catch (thrown) {
      const message = (thrown as Error).message;
      self.refusals.push(message);
      const error = { message, type: "invalid_request_error", code: 400, status: "INVALID_ARGUMENT" };
      return Promise.resolve(Response.json({ type: "error", error }, { status: 400 }));
    }
    const step = strictness.turns(body);
    // Some vendors count their calls anew in every conversation.
    let calls = 0;
    const ids = () => (weak ? `call_${step * 2 + calls++}` : `call_${++made}x${Math.random().toString(36).slice(2)}`);
    const events = toEvents(self.script[step] ?? [{ kind: "text", text: "No more." }], strictness, issued, ids);
    const stream = body["stream"] === true || request.url.includes("alt=sse");
    return Promise.resolve(strictness.answer?.(events, body) ?? answer(strictness.dialect, events, stream));
  };
  const vendor: Vendor = {
    id,
    name: id,
    dialect: strictness.dialect,
    baseUrl: "http://strict.test/v1",
    auth: "none",
    models: "any",
    quirks,
    serve,
  };
  const self: StrictVendor = { vendor, bodies: [], refusals: [], returned: () => returned, script: LOOP };
  return self;
}
