import { hashLetters } from "../../lib/id.ts";
import { isObject } from "../../lib/json.ts";
import { mapChanged, mapListIn } from "../../lib/map-changed.ts";
import type { Quirks } from "../dialect.ts";
import { knowsAll, knowsLess } from "../knows-all.ts";
import { ownCallId } from "../tools/counted-ids.ts";
import { DistinctNames } from "../tools/distinct-names.ts";

const LENGTH = 9;
/** Longest id of a call that OpenAI takes, characters (dialects.md 4.3 "ids"), and the bound for others: some read their own long ids. */
const LONGEST = 40;
const LONGEST_ELSEWHERE = 256;

/**
 * A tool-call id as exactly nine alphanumeric characters (Mistral, dialects.md 4.3 "ids"). The same id gives the same result, so that
 * a call and its result still fit together; an id that is in order already stays.
 */
const shortCallId = (id: string): string => (/^[0-9A-Za-z]{9}$/.test(id) ? id : hashLetters(id, LENGTH));

/** A tool-call id of bounded length: one that is missing or too long becomes its hash (dialects.md 4.3 "ids"). */
export const boundedCallId = (id: string, longest = LONGEST): string =>
  id !== "" && id.length <= longest ? id : `call_${hashLetters(id, 20)}`;

/** What is made of each id that a client of the same dialect sends; undefined where every one is taken as it is. */
export function idRule(quirks: Quirks): ((id: string) => string) | undefined {
  if (quirks.nineCharacterToolIds) return shortCallId;
  return quirks.fortyCharacterToolIds || knowsAll(quirks) ? boundedCallId : undefined;
}

/** Kimi's models read the ids of earlier calls as part of the conversation, and falter where these are not of their own form (MoonshotAI/Kimi-K2 #128). */
const readsIds = (upstreamModel: string): boolean => /kimi/i.test(upstreamModel);

/** The messages with the calls of a model that reads ids under those that it gave; the same array where there are none. */
export function withOwnCallIds(messages: readonly unknown[], upstreamModel: string): readonly unknown[] {
  if (!readsIds(upstreamModel)) return messages;
  const own = (record: unknown, field: string): unknown => {
    if (!isObject(record)) return record;
    const given = record[field];
    const id = typeof given === "string" ? ownCallId(given) : given;
    return id === given ? record : { ...record, [field]: id };
  };
  return mapChanged(messages, (message) =>
    isObject(message) && Array.isArray(message["tool_calls"])
      ? mapListIn(message, "tool_calls", (call) => own(call, "id"))
      : own(message, "tool_call_id"),
  );
}

/** Hands out the ids of one assistant turn's calls: two calls of one id become two ids, the same ones in every request. */
export class CallIds {
  readonly #names = new DistinctNames();

  constructor(readonly quirks: Quirks) {}

  take(id: string): string {
    return this.#names.take(id, (count) => this.#fit(count === 1 ? id : `${id}_${count}`));
  }

  #fit(id: string): string {
    const rule = idRule(this.quirks);
    return rule ? rule(id) : boundedCallId(id, knowsLess(this.quirks) ? LONGEST_ELSEWHERE : LONGEST);
  }
}
