import type { Event } from "../../src/canon/events.ts";
import { dialects } from "../../src/dialects/index.ts";
import { objectsOf } from "../../src/lib/json.ts";
import { replyContext, type Strictness } from "./reasoning-vendors.ts";

type Wire = Record<string, unknown>;
type Detail = Wire & { type: string };

/** A thought as each family's details spell it: a text that is signed, one with what is encrypted beside it, or the text alone. */
function toDetails(text: string, proof: string, model: string, index: number): Detail[] {
  if (model.startsWith("anthropic/")) {
    return [{ type: "reasoning.text", text, signature: proof, format: "anthropic-claude-v1", index }];
  }
  const plain = { type: "reasoning.text", text, signature: null, id: null, format: "unknown", index };
  if (!model.startsWith("google/")) return [plain];
  const format = "google-gemini-v1";
  return [
    { ...plain, format },
    { type: "reasoning.encrypted", data: proof, id: `tool_${proof}`, format, index },
  ];
}

/** The pieces in which a detail comes: its text in threes, then its signature, as the vendor of Claude sends it. */
function toPieces(detail: Detail): Wire[] {
  if (detail.type !== "reasoning.text") return [detail];
  const { signature, text, ...rest } = detail;
  const texts = String(text).match(/.{1,3}/gsu) ?? [];
  const pieces: Wire[] = texts.map((piece) => ({ ...rest, text: piece, ...(signature === null && { signature }) }));
  return signature === null ? pieces : [...pieces, { ...rest, signature }];
}

/** A reply's thoughts with their proofs, in order. */
function thoughtsOf(events: readonly Event[]): { text: string; proof: string }[] {
  const thoughts: { text: string; proof: string }[] = [];
  let isOpen = false;
  for (const event of events) {
    if (event.type === "block-start") {
      isOpen = event.block.kind === "reasoning";
      if (isOpen) thoughts.push({ text: "", proof: "" });
    } else if (isOpen && event.type === "block-delta") thoughts.at(-1)!.text += event.text;
    else if (isOpen && event.type === "block-signature") thoughts.at(-1)!.proof = event.signature;
  }
  return thoughts;
}

const isThought = (event: Event, open: { reasoning: boolean }): boolean => {
  if (event.type === "block-start") open.reasoning = event.block.kind === "reasoning";
  return open.reasoning && event.type.startsWith("block-");
};

/**
 * A reseller as OpenRouter is one: it wants a reply's `reasoning_details` back as they were, from the model that they are of, and hands what it is
 * shown otherwise to a vendor that refuses it. A text that came without them is told as `plain:`.
 */
export function router(): Strictness {
  const given: { details: Detail[]; model: string; texts: string[] }[] = [];
  return {
    dialect: "chat",
    turns: (body) => objectsOf(body["messages"]).filter((message) => message["role"] === "assistant").length,
    proof: (seed) => `enc${seed}`,
    check({ model, messages }) {
      const texts: string[] = [];
      for (const { role, reasoning, reasoning_details: details } of objectsOf(messages)) {
        if (role !== "assistant") continue;
        if (details !== undefined) {
          const known = given.find((one) => Bun.deepEquals(one.details, details, true));
          if (known?.model !== model) throw new Error("Corrupted thought signature.");
          texts.push(...(known?.texts ?? []));
        } else if (reasoning !== undefined) {
          if (String(model).startsWith("anthropic/")) throw new Error("Invalid `signature` in `thinking` block");
          texts.push(`plain:${String(reasoning)}`);
        }
      }
      return texts;
    },
    answer(events, body) {
      const model = String(body["model"]);
      const thoughts = thoughtsOf(events);
      const details = thoughts.flatMap(({ text, proof }, at) => toDetails(text, proof, model, at));
      if (details.length > 0) given.push({ details, model, texts: thoughts.map(({ text }) => text) });
      const open = { reasoning: false };
      const rest = events.filter((event) => !isThought(event, open));
      if (body["stream"] !== true) {
        const reply = dialects.chat.encodeReply(rest, replyContext());
        const [choice] = objectsOf(reply["choices"]);
        const shown = { reasoning: thoughts.map(({ text }) => text).join(""), reasoning_details: details };
        if (details.length > 0) Object.assign(choice?.["message"] as Wire, shown);
        return Response.json(reply);
      }
      const encoder = dialects.chat.encoder(replyContext());
      const pieces = details.flatMap(toPieces).map((piece) => {
        const choices = [{ index: 0, delta: { content: "", reasoning_details: [piece] }, finish_reason: null }];
        return `data: ${JSON.stringify({ id: "gen", object: "chat.completion.chunk", created: 1, model, choices })}\n\n`;
      });
      const text = pieces.join("") + rest.map((event) => encoder.push(event)).join("") + encoder.end();
      return new Response(text, { headers: { "content-type": "text/event-stream" } });
    },
  };
}
