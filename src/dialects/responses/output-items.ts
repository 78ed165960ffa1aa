import type { BlockStart, Citation } from "../../canon/events.ts";
import { isJson, stringOf } from "../../lib/json.ts";
import type { ReplyContext } from "../dialect.ts";
import { carryRedacted, carrySignature, carryUnsigned, makerOf, unpackReasoning } from "../reasoning/proof.ts";
import { finishClientCall, startClientCall } from "./client-tools.ts";
import { CUSTOM_CALL, type Item, PICTURE } from "./items.ts";
import { splitName } from "./namespaces.ts";
import { phaseField } from "./phase.ts";

type Answering = Pick<ReplyContext, "upstreamModel">;

/** The content part of a message. */
export const textPart = (text: string, annotations: readonly Item[] = []): Item => ({
  type: "output_text",
  annotations,
  logprobs: [],
  text,
});

/** The content part of a message that declines. */
export const refusalPart = (refusal: string): Item => ({ type: "refusal", refusal });

/** A citation as an annotation of its text (dialects.md 1.6). */
export const annotationOf = ({ url, title, start, end }: Citation): Item => ({
  type: "url_citation",
  start_index: start,
  end_index: end,
  title,
  url,
});

export const summaryPart = (text: string): Item => ({ type: "summary_text", text });

/** A signature as an item's encrypted content: the vendor's own goes back as it was, another's is only carried (dialects.md 4.8 #6). */
const encryptedOf = (signature: string, maker: string | undefined): string =>
  unpackReasoning(signature)?.encrypted ?? carrySignature(signature, maker);

/** The family of the model that answers, where its reply crosses dialects. */
const makerIn = ({ upstreamModel }: Answering): string | undefined =>
  upstreamModel === undefined ? undefined : makerOf(upstreamModel);

/** What proves the text of a reasoning item, or a word of whose it is where another dialect's vendor gave no proof; undefined for its own vendor's. */
function shownProof(item: Item, text: string, signature: string, maker: string | undefined): string | undefined {
  if (signature !== "") return encryptedOf(signature, maker);
  return text === "" || maker === undefined ? undefined : carryUnsigned(maker, stringOf(item["id"]));
}

/**
 * An id that {@link startItem} gave: the reply's name, behind which the number of a later round of served tools may stand, and its place there. OpenAI's own
 * are one run of hexadecimal digits.
 */
const GIVEN_HERE = /^rs_[0-9A-Za-z]{24,26}_\d+$/;

/** Whether a reasoning item's id is one of a reply that was written here, and so none that its vendor's proof was made for. */
export const isGivenHere = (id: unknown): boolean => typeof id === "string" && GIVEN_HERE.test(id);

/** The proof of a text, which has no place on a message: an item of its own behind it carries it back (dialects.md 3.3). */
export const proofItem = (id: string, signature: string, answering: Answering): Item => ({
  id: `rs_${id}`,
  type: "reasoning",
  summary: [],
  encrypted_content: encryptedOf(signature, makerIn(answering)),
});

/** An item as it is announced, or undefined for a block of another dialect, which is left out whole. */
export function startItem(block: BlockStart, id: string, answering: Answering): Item | undefined {
  if (block.kind === "text")
    return { id: `msg_${id}`, type: "message", status: "in_progress", content: [], role: "assistant" };
  if (block.kind === "reasoning") return { id: `rs_${id}`, type: "reasoning", summary: [] };
  if (block.kind === "redacted-reasoning") {
    return {
      id: `rs_${id}`,
      type: "reasoning",
      summary: [],
      encrypted_content: carryRedacted(block.data, makerIn(answering)),
    };
  }
  if (block.kind === "tool-call" && block.custom) {
    const call = { call_id: block.id, ...splitName(block.name), input: "" };
    return { id: `ctc_${id}`, type: CUSTOM_CALL, status: "in_progress", ...call };
  }
  if (block.kind === "tool-call" && block.form !== undefined) return startClientCall(block.form, id, block.id);
  if (block.kind === "tool-call") {
    return {
      id: `fc_${id}`,
      type: "function_call",
      status: "in_progress",
      arguments: "",
      call_id: block.id,
      ...splitName(block.name),
    };
  }
  if (block.kind === "image") return { id: `ig_${id}`, type: PICTURE, status: "in_progress", result: null };
  return block.dialect === "responses" ? { id: `item_${id}`, ...block.value } : undefined;
}

/**
 * Whether a block that has ended may still be cut off, which only the reply's finish tells: text, or a call whose arguments are no JSON. Clients run a call
 * that is `completed`.
 */
export const mayBeCut = (block: BlockStart, text: string): boolean =>
  block.kind === "text"
    ? block.refusal !== true
    : block.kind === "tool-call" && (block.custom === true || !isJson(text));

/** An announced item once it is whole. */
export function finishItem(
  item: Item,
  block: BlockStart,
  text: string,
  signature: string,
  answering: Answering,
  annotations: readonly Item[],
): Item {
  const { kind } = block;
  if (kind === "text") {
    const part = block.refusal ? refusalPart(text) : textPart(text, annotations);
    return { ...item, status: "completed", content: [part], ...phaseField(signature) };
  }
  if (item["type"] === CUSTOM_CALL) return { ...item, status: "completed", input: text };
  if (kind === "tool-call" && block.form !== undefined) return finishClientCall(item, text) ?? item;
  // Clients parse arguments as JSON: none at all are an empty object (dialects.md 4.8 #10).
  if (kind === "tool-call") return { ...item, status: "completed", arguments: text || "{}" };
  if (kind === "image") {
    const format = block.mediaType.slice("image/".length);
    return { ...item, status: "completed", output_format: format, result: block.data };
  }
  if (kind !== "reasoning") return item;
  const encrypted = shownProof(item, text, signature, makerIn(answering));
  // A server of this dialect that proves nothing takes the text itself back (vLLM, llama.cpp).
  const isPlain = text !== "" && encrypted === undefined;
  return {
    ...item,
    summary: text === "" ? [] : [summaryPart(text)],
    ...(isPlain && { content: [{ type: "reasoning_text", text }] }),
    ...(encrypted !== undefined && { encrypted_content: encrypted }),
  };
}
