import { hashLetters } from "../lib/id.ts";
import { DistinctNames } from "./distinct-names.ts";

/** An id that says which call of its turn it is, and so stands in every turn anew: `Bash:0`, `functions.Bash:0`. Others' ids have no colon. */
const COUNTED = /^[\w.-]+:\d{1,4}$/;

/**
 * A vendor's id of a call as no other reply has it. Kimi's models count within a turn (vllm-project/vllm #50295, fw-ai/fireconnect #16): clients that
 * know calls by their ids took the later ones for those of before, left them out or ended.
 */
const distinctCallId = (id: string, replySeed: string): string =>
  COUNTED.test(id) ? `${id}_${hashLetters(replySeed, 8)}` : id;

/**
 * The ids of one reply's calls, each {@link distinctCallId} and no two the same: some give one id to several calls of a turn (openclaw/openclaw #40996,
 * HKUDS/nanobot #4473), and clients that know calls by their ids lost all of these but one.
 */
export class ReplyCallIds {
  readonly #names = new DistinctNames();

  /** The id of the next call, from its vendor's, which is not empty. Without a seed what counts stays. */
  take(given: string, replySeed: string | undefined): string {
    const id = replySeed === undefined ? given : distinctCallId(given, replySeed);
    return this.#names.take(id, (count) => (count === 1 ? id : `${id}_${count}`));
  }
}

/** What {@link distinctCallId} writes. */
const DISTINCT = /^([\w.-]+:\d{1,4})_[0-9A-Za-z]{8}$/;

/** The id that a model itself gave to a call which {@link distinctCallId} wrote; any other as it is. */
export const ownCallId = (id: string): string => DISTINCT.exec(id)?.[1] ?? id;
