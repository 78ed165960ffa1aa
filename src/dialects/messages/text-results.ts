import { isObject, listOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { mapChanged } from "../../lib/map-changed.ts";
import type { Quirks } from "../dialect.ts";
import { textOfUnknown } from "../text.ts";
import { attachedBelow, ofResultAbove } from "../tools/attached-media.ts";
import { isResult } from "./blocks.ts";
import { decodeContent } from "./decode-turns.ts";

type Wire = Record<string, unknown>;

/** What a result may hold beside text that a turn may hold as well, and what each is called towards the model. */
const MEDIA: ReadonlySet<unknown> = new Set(["image", "document"]);

const isText = (block: unknown): boolean => !isObject(block) || block["type"] === "text";
const showsMore = (block: unknown): block is Wire =>
  isResult(block) && !listOf((block as Wire)["content"]).every(isText);

/** What is no medium, such as a tool that was found, in words. */
function inWords(block: unknown): unknown[] {
  return decodeContent([block], "", []).flatMap((part) => {
    const said = textOfUnknown(part);
    return said.type === "text" ? [{ type: "text", text: said.text }] : [];
  });
}

/** A turn whose results are text alone: the media of them stand at its end, with a word on both sides of where they went. */
function withTextResults(message: unknown): unknown {
  if (!isObject(message) || !listOf(message["content"]).some(showsMore)) return message;
  const behind: unknown[] = [];
  let count = 0;
  const told = (block: unknown): unknown[] => {
    if (isText(block)) return [block];
    if (!isObject(block) || !MEDIA.has(block["type"])) return inWords(block);
    const label = `${block["type"]} ${++count}`;
    behind.push({ type: "text", text: ofResultAbove(label) }, block);
    return [{ type: "text", text: attachedBelow(label) }];
  };
  const content = listOf(message["content"]).map((block) =>
    showsMore(block) ? { ...block, content: listOf(block["content"]).flatMap(told) } : block,
  );
  return { ...message, content: [...content, ...behind] };
}

/** Edits of a body for a server at which a tool's result is text alone (LM Studio); undefined for a body without anything else in one, and for every other server. */
export function textResultEdits({ messages }: Wire, { textResults }: Quirks): Edits | undefined {
  if (textResults !== true || !Array.isArray(messages)) return undefined;
  const told = mapChanged<unknown>(messages, withTextResults);
  return told === messages ? undefined : { messages: told };
}
