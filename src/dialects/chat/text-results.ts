import { isObject } from "../../lib/json.ts";
import { attachedBelow, ofResultAbove } from "../tools/attached-media.ts";

type Wire = Record<string, unknown>;

/** What a result may hold beside text at other servers, and what each is called towards the model. */
const MEDIA: ReadonlyMap<unknown, string> = new Map([
  ["image_url", "image"],
  ["file", "document"],
  ["input_audio", "audio"],
]);

const nameOf = (part: unknown): string | undefined => (isObject(part) ? MEDIA.get(part["type"]) : undefined);

const isResult = (message: unknown): message is Wire => isObject(message) && message["role"] === "tool";
const showsMedia = (message: unknown): message is Wire & { content: unknown[] } =>
  isResult(message) && Array.isArray(message["content"]) && message["content"].some(nameOf);

/**
 * The messages for a server at which a tool's result is text alone (OpenAI, dialects.md 1.2): what else one holds stands behind the results of its turn, as the
 * user's, with a word on both sides of where it went. The same array where there is nothing such.
 */
export function withTextResults(messages: readonly unknown[]): readonly unknown[] {
  if (!messages.some(showsMedia)) return messages;
  const told: unknown[] = [];
  let behind: unknown[] = [];
  let count = 0;
  const show = () => {
    if (behind.length > 0) told.push({ role: "user", content: behind });
    behind = [];
    count = 0;
  };
  for (const message of messages) {
    if (!isResult(message)) show();
    if (!showsMedia(message)) {
      told.push(message);
      continue;
    }
    const content = message.content.map((part) => {
      const name = nameOf(part);
      if (name === undefined) return part;
      const label = `${name} ${++count}`;
      behind.push({ type: "text", text: ofResultAbove(label) }, part);
      return { type: "text", text: attachedBelow(label) };
    });
    told.push({ ...message, content });
  }
  show();
  return told;
}
