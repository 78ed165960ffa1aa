import { BASE62 } from "../lib/id.ts";

/** The first `length` of 62 letters and digits that a text's hash gives. */
export function hashLetters(text: string, length: number): string {
  let rest = BigInt(Bun.hash(text)) + (BigInt(Bun.hash(text, 1)) << 64n);
  let letters = "";
  for (let at = 0; at < length; at++) {
    letters += BASE62[Number(rest % 62n)];
    rest /= 62n;
  }
  return letters;
}

/** An id that says which call of its turn it is, and so stands in every turn anew: `Bash:0`, `functions.Bash:0`. Others' ids have no colon. */
const COUNTED = /^[\w.-]+:\d{1,4}$/;

/**
 * A vendor's id of a call as no other reply has it. Kimi's models count within a turn (vllm-project/vllm #50295, fw-ai/fireconnect #16): clients that
 * know calls by their ids took the later ones for those of before, left them out or ended.
 */
export const distinctCallId = (id: string, replySeed: string): string =>
  COUNTED.test(id) ? `${id}_${hashLetters(replySeed, 8)}` : id;
