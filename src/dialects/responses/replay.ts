import type { Memories } from "../../canon/memory.ts";
import { isObject, objectsOf, stringOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { carriedIn, unpackReasoning } from "../reasoning/proof.ts";
import { Anchor, type Conversation, type Loom, type ReplayHalf, type SpokenTurn, weave } from "../reasoning/replay.ts";
import { callIdIn, isClientCall, isClientOutput } from "./client-tools.ts";
import {
  agentText,
  type Item,
  isAgentMessage,
  isCallType,
  isMessage,
  isReasoning,
  messageText,
  reasoningText,
} from "./items.ts";
import { summaryPart } from "./output-items.ts";

type Speaker = "assistant" | "user" | "system";

/** Who said an item; undefined for one that makes no turn. */
function speakerOf(item: Item, isFirst: boolean): Speaker | undefined {
  if (isClientCall(item)) return "assistant";
  if (isClientOutput(item)) return "user";
  if (isAgentMessage(item)) return agentText(item).text === "" ? undefined : "user";
  if (isReasoning(item))
    return reasoningText(item) === "" && stringOf(item["encrypted_content"]) === "" ? undefined : "assistant";
  if (!isMessage(item)) return undefined;
  const { role } = item;
  if (role === "assistant") return "assistant";
  if (role !== "system" && role !== "developer") return "user";
  return isFirst || messageText(item) === "" ? undefined : "system";
}

/** The input's items in the runs that one side said without a break; those that nobody said lie where they stood. */
function runsOf(input: unknown): { speaker: Speaker | undefined; items: Item[] }[] {
  const runs: { speaker: Speaker | undefined; items: Item[] }[] = [];
  let last: { speaker: Speaker | undefined; items: Item[] } | undefined;
  for (const item of objectsOf(input)) {
    const speaker = speakerOf(item, last === undefined);
    if (speaker === undefined) {
      // An unknown item between two of one turn does not part them.
      if (last) last.items.push(item);
      else runs.push({ speaker, items: [item] });
      continue;
    }
    if (last?.speaker === speaker) last.items.push(item);
    else {
      last = { speaker, items: [item] };
      runs.push(last);
    }
  }
  return runs;
}

function callIdOf(item: Item): string | undefined {
  return isClientCall(item) ? callIdIn(item) : undefined;
}

/** What came back of one item. `half`: another vendor's word, without the text that it belongs to. */
function carriedBy(item: Item): SpokenTurn["carries"] | "half" {
  const encrypted = stringOf(item["encrypted_content"]);
  const carried = carriedIn(encrypted);
  if (carried && carried.kind !== "redacted" && reasoningText(item) === "") return "half";
  if (encrypted !== "" && carried?.kind !== "unsigned") return "proof";
  return reasoningText(item) === "" ? "nothing" : "text";
}

/**
 * What came back of a turn. Encrypted content is all that this dialect's own vendor wants, and some clients (rust-genai) keep nothing else: a turn
 * of another vendor's, which wants its text too, brings nothing then.
 */
function carries(items: readonly Item[]): SpokenTurn["carries"] {
  const carried = items.filter(isReasoning).map(carriedBy);
  if (carried.includes("half")) return "nothing";
  return carried.includes("proof") ? "proof" : carried.includes("text") ? "text" : "nothing";
}

const textIn = (item: Item): string =>
  isMessage(item) ? messageText(item) : isAgentMessage(item) ? agentText(item).text : "";

const textOf = (items: readonly Item[]): string => items.map(textIn).join("");

function read(body: Item, texts: boolean): Conversation {
  const turns: SpokenTurn[] = [];
  const anchor = new Anchor(texts);
  if (typeof body["input"] === "string") anchor.add(body["input"]);
  for (const { speaker, items } of runsOf(body["input"])) {
    if (speaker === "assistant") {
      const callIds = items.flatMap((item) => callIdOf(item) || []);
      turns.push({ callIds, text: texts ? textOf(items) : "", carries: carries(items), anchor: anchor.value });
    } else if (speaker === "user" && texts) anchor.add(textOf(items));
  }
  return { turns, anchor: anchor.value };
}

const ITEMS: Loom<Item> = {
  isText: (item) => isMessage(item),
  isReasoning,
  callIdOf,
  make(block) {
    // Only this dialect's own proof is taken back (dialects.md 4.8 #6).
    const proof = block.kind === "reasoning" && block.signature ? unpackReasoning(block.signature) : undefined;
    if (!proof || block.kind !== "reasoning") return undefined;
    const summary = block.text === "" ? [] : [summaryPart(block.text)];
    return { type: "reasoning", ...(proof.id !== "" && { id: proof.id }), summary, encrypted_content: proof.encrypted };
  },
  sign: (item) => item,
};

function restore(body: Item, memories: Memories): Edits {
  let number = -1;
  const input = runsOf(body["input"]).flatMap(({ speaker, items }) => {
    if (speaker !== "assistant") return items;
    number++;
    const memory = memories.get(number);
    return memory ? weave(memory, items, ITEMS) : items;
  });
  return { input };
}

/**
 * The input without the ids of calls and answers whose reasoning does not stand with them: the vendor asks for the item that belongs to such an
 * id, which it knows though it stores nothing (continuedev/continue #12620, NousResearch/hermes-agent #97442). The same value where there is none.
 */
export function withoutLoneIds(input: unknown): unknown {
  if (!Array.isArray(input) || !input.some((item) => isObject(item) && isNamed(item))) return input;
  let changed = false;
  const items = runsOf(input).flatMap(({ speaker, items }) => {
    if (speaker !== "assistant" || items.some(isReasoning) || !items.some(isNamed)) return items;
    changed = true;
    return items.map(({ id: _id, ...item }) => item);
  });
  return changed ? items : input;
}

/** A call, or an answer, under the id that the vendor gave it. */
const isNamed = (item: Item): boolean =>
  item["id"] != null && (isCallType(item["type"]) || (isMessage(item) && item["role"] === "assistant"));

/** Clients of this dialect send its items back as they came; some keep the calls alone. */
export const replay: ReplayHalf = { forgets: false, read, restore };
