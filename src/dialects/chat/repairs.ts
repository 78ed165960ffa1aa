import type { Orders } from "../../canon/intent.ts";
import { isObject, listOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import type { Quirks } from "../dialect.ts";
import { namesLoosened } from "../schema/loose-schemas.ts";
import { asksForNothing } from "./decode-request.ts";
import { evenStrict } from "./even-strict.ts";
import { saidBesideReasoning } from "./intent.ts";
import { lostMessageFields } from "./message-fields.ts";
import { lostGrammars } from "./older-tools.ts";
import { losesStrict } from "./output-format.ts";
import { picturePaths, refusesPictures } from "./pictures.ts";
import { isLoneThought, lacksReasoning } from "./replay.ts";
import { nameLostStops } from "./stops.ts";

type Wire = Record<string, unknown>;

/** Whether this vendor demands the reasoning of a turn with calls, and a blank had to stand for it. */
function losesReasoning(body: Wire, edits: Edits, { reasoning }: Orders, quirks: Quirks): boolean {
  const demanded = quirks.reasoningReplayAlways || quirks.reasoningReplayCalls;
  if (!demanded || reasoning.kind === "off") return false;
  return listOf(edits["messages"] ?? body["messages"]).some((message) => isObject(message) && lacksReasoning(message));
}

/** Whether a turn that held nothing but reasoning is left out. */
const losesThoughts = ({ messages }: Wire, { noEmptyTurns }: Quirks): boolean =>
  noEmptyTurns === true && listOf(messages).some((message) => isObject(message) && isLoneThought(message));

const roleOfLast = (messages: unknown): unknown => {
  const last = listOf(messages).at(-1);
  return isObject(last) ? last["role"] : undefined;
};

/** Whether the user had to answer a turn that the client asked to be continued. */
const isAnswered = (body: Wire, edits: Edits, { prefill }: Quirks): boolean =>
  prefill === "refused" && roleOfLast(body["messages"]) === "assistant" && roleOfLast(edits["messages"]) === "user";

/** What `edits` of a chat client's body lose of it for this vendor, by name. */
export function repairs(body: Wire, edits: Edits, orders: Orders, quirks: Quirks): string[] {
  const isTaken = (field: string) => Object.hasOwn(edits, field) && edits[field] === undefined;
  const unknown = quirks.unknownFields ?? [];
  const isThoughtLost = losesReasoning(body, edits, orders, quirks) || losesThoughts(body, quirks);
  const lost = isThoughtLost ? ["reasoning_content"] : [];
  if (isAnswered(body, edits, quirks)) lost.push("prefill");
  lost.push(...lostGrammars(body, quirks));
  for (const at of evenStrict(body["tools"], quirks).loosened) lost.push(`tools[${at}].function.strict`);
  lost.push(...namesLoosened(body["tools"], quirks));
  lost.push(...unknown.filter((field) => isTaken(field) && !asksForNothing(field, body[field])));
  nameLostStops(body, quirks, lost);
  lost.push(...saidBesideReasoning(body, isTaken));
  if (losesStrict(body, quirks)) lost.push("response_format.strict");
  if (refusesPictures(quirks) && Object.hasOwn(edits, "messages")) lost.push(...picturePaths(body["messages"]));
  lost.push(...lostMessageFields(body["messages"], quirks.messageFields));
  return lost;
}
