import { isObject, listOf } from "../../lib/json.ts";
import type { Quirks } from "../dialect.ts";
import { SAMPLING } from "../going-fields.ts";

/** The version of every vendor's row, in which all that follows is taken. */
const OLDER = "2023-06-01";
/** Text stands in a search result at the deepest, and that in a tool's result. */
const DEEPEST = 3;

const isDocument = (block: unknown): boolean => isObject(block) && block["type"] === "document";

/** Whether a text cites, be it that it stands inside a block. */
const cites = (block: unknown, depth = DEEPEST): boolean =>
  isObject(block) &&
  (listOf(block["citations"]).length > 0 ||
    (depth > 1 && listOf(block["content"]).some((part) => cites(part, depth - 1))));

function isRefused(turn: unknown): boolean {
  if (!isObject(turn)) return false;
  const blocks = listOf(turn["content"]);
  return turn["role"] === "assistant" ? blocks.some(isDocument) : blocks.some((block) => cites(block));
}

const isRefusedNewly = (body: Record<string, unknown>): boolean =>
  SAMPLING.some((field) => field in body) || listOf(body["messages"]).some(isRefused);

/**
 * Whether the client's header may go on beside this body. Version 2026-10-21, which Anthropic's SDKs say by themselves since 1.0, refuses what interface
 * 4.5 keeps and its models still take: sampling, a document in the assistant's turn, citations of a user's text (dialects.md 2.0). Such a body goes in the
 * version of its vendor's row. Nor may a version that the vendor's row has in the body be said otherwise in a header.
 */
export const passesHeader = (
  name: string,
  value: string,
  body: Record<string, unknown>,
  { versionInBody }: Quirks,
): boolean =>
  name !== "anthropic-version" || (versionInBody === undefined && (value === OLDER || !isRefusedNewly(body)));
