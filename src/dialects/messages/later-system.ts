import { isObject, listOf } from "../../lib/json.ts";
import { unknownPaths } from "../loss/unknown-fields.ts";
import { asReminderPart, CONTINUE_TEXT } from "../refusals/own-words.ts";
import { traitsOf } from "./model-traits.ts";
import { isCleared, isSystem, lastUserTurn } from "./turn-settings.ts";

type Wire = Record<string, unknown>;

/** What of such a turn is lifted, as long as it is to be seen: not how the model answers from there on. */
const LIFTED: ReadonlySet<string> = new Set(["role", "content", "clear_at"]);

const isText = (block: unknown): boolean => isObject(block) && block["type"] === "text";

/** A prompt or a turn as blocks: a text of its own is one, an empty one none. */
function blocksOf(content: unknown): readonly unknown[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  return listOf(content);
}

/** Puts `blocks` behind what the user has said last, or says them for a user who has not spoken since. */
function sayAsUser(blocks: readonly unknown[], turns: unknown[]): void {
  if (blocks.length === 0) return;
  const last = turns.at(-1);
  if (!isObject(last) || last["role"] !== "user") turns.push({ role: "user", content: blocks });
  else turns[turns.length - 1] = { ...last, content: [...blocksOf(last["content"]), ...blocks] };
}

/**
 * System turns inside a conversation, for models that know no such turn and refuse the whole request. Claude Code writes them for every model that it does
 * not know by name. For Claude's they are lifted up to the system prompt in their order (dialects.md 2.1, 4.1), for others those before the model's first
 * answer. What is said to these later is the user's text in its place, as Claude Code itself tells it where such turns are refused: it writes one for each
 * word of a hook, and were that lifted, nothing of the conversation would be as the vendor has cached it. Both take text alone: changes of the tools stay
 * behind.
 * @returns The fields that change; undefined where no such turn stands in the way.
 */
export function liftSystem(body: Wire, upstreamModel: string): { messages: unknown[]; system?: unknown[] } | undefined {
  const messages = listOf(body["messages"]);
  const { claude, laterSystem } = traitsOf(upstreamModel);
  if (laterSystem || !messages.some(isSystem)) return undefined;
  const lifted: unknown[] = [];
  const spoken: unknown[] = [];
  let held: unknown[] = [];
  let hasAnswered = false;
  const lastUser = lastUserTurn(messages);
  for (const [at, message] of messages.entries()) {
    if (isSystem(message)) {
      const said = isCleared(message, at, lastUser) ? [] : blocksOf(message["content"]).filter(isText);
      if (hasAnswered && !claude) held.push(...said.map(asReminderPart));
      else lifted.push(...said);
      continue;
    }
    if (isObject(message) && message["role"] === "assistant") {
      sayAsUser(held, spoken);
      held = [];
      hasAnswered = true;
    }
    spoken.push(message);
  }
  sayAsUser(held, spoken);
  return {
    messages: spoken.length > 0 ? spoken : [{ role: "user", content: CONTINUE_TEXT }],
    // A list without any block is refused by who checks a body.
    ...(lifted.length > 0 && { system: [...blocksOf(body["system"]), ...lifted] }),
  };
}

/** Names, in `lost`, what {@link liftSystem} has left behind of a client's own messages. */
export function nameUnlifted(body: Wire, upstreamModel: string, lost: string[]): void {
  if (traitsOf(upstreamModel).laterSystem) return;
  const messages = listOf(body["messages"]);
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at];
    if (!isSystem(message)) continue;
    lost.push(...unknownPaths(message, LIFTED, `messages[${at}]`));
    for (const [index, block] of listOf(message["content"]).entries()) {
      if (!isText(block)) lost.push(`messages[${at}].content[${index}]`);
    }
  }
}
