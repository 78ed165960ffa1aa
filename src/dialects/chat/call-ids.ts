import { BASE62 } from "../../lib/id.ts";
import type { Quirks } from "../dialect.ts";
import { DistinctNames } from "../distinct-names.ts";

const LENGTH = 9;
/** Longest id of a call that OpenAI takes, characters (dialects.md 4.3 "ids"), and the bound for others: some read their own long ids. */
const LONGEST = 40;
const LONGEST_ELSEWHERE = 256;

/** The first `length` of 62 letters and digits that a text's hash gives. */
function hashLetters(text: string, length: number): string {
  let rest = BigInt(Bun.hash(text)) + (BigInt(Bun.hash(text, 1)) << 64n);
  let letters = "";
  for (let at = 0; at < length; at++) {
    letters += BASE62[Number(rest % 62n)];
    rest /= 62n;
  }
  return letters;
}

/**
 * A tool-call id as exactly nine alphanumeric characters (Mistral, dialects.md 4.3 "ids"). The same id gives the same result, so that
 * a call and its result still fit together; an id that is in order already stays.
 */
export const shortCallId = (id: string): string => (/^[0-9A-Za-z]{9}$/.test(id) ? id : hashLetters(id, LENGTH));

/** A tool-call id of bounded length: one that is missing or too long becomes its hash (dialects.md 4.3 "ids"). */
export const boundedCallId = (id: string, longest = LONGEST): string =>
  id !== "" && id.length <= longest ? id : `call_${hashLetters(id, 20)}`;

/** Hands out the ids of one assistant turn's calls: two calls of one id become two ids, the same ones in every request. */
export class CallIds {
  readonly #names = new DistinctNames();

  constructor(readonly quirks: Quirks) {}

  take(id: string): string {
    return this.#names.take(id, (count) => this.#fit(count === 1 ? id : `${id}_${count}`));
  }

  #fit(id: string): string {
    if (this.quirks.nineCharacterToolIds) return shortCallId(id);
    // OpenAI's own rows, and those nobody knows, are not marked as another vendor's.
    return boundedCallId(id, this.quirks.customTools === false ? LONGEST_ELSEWHERE : LONGEST);
  }
}
