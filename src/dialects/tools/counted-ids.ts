import { hashLetters } from "../../lib/id.ts";
import { DistinctNames } from "./distinct-names.ts";

/** An id that numbers the calls of its own turn, so that later turns repeat it: `Bash:0`, `functions.Bash:0`. Other vendors' ids have no colon. */
const COUNTED = /^[\w.-]+:\d{1,4}$/;

const NONE: ReadonlySet<string> = new Set();

/**
 * A vendor's id of a call, made different from those of other replies where it may be repeated. Kimi's models count within a turn (vllm-project/vllm #50295,
 * fw-ai/fireconnect #16): clients that identify calls by their ids took later ones for earlier ones, left them out, or ended.
 */
const distinctCallId = (id: string, replySeed: string, used: ReadonlySet<string>): string =>
  COUNTED.test(id) || used.has(id) ? `${id}_${hashLetters(replySeed, 8)}` : id;

/**
 * The ids of one reply's calls, each {@link distinctCallId} and no two the same: some give one id to several calls of a turn (openclaw/openclaw #40996,
 * HKUDS/nanobot #4473), or to every call that they ever make (llama.cpp, NousResearch/hermes-agent #70724; `call_0`, NVIDIA-NeMo/Switchyard #502).
 */
export class ReplyCallIds {
  readonly #names: DistinctNames;

  /** `used`: ids of the conversation's earlier calls, as the client knows them. */
  constructor(private readonly used: ReadonlySet<string> = NONE) {
    this.#names = new DistinctNames(used);
  }

  /** The id of the next call, from the vendor's, which is not empty. Without a seed it differs only from those of this reply and from the used ones. */
  take(given: string, replySeed: string | undefined): string {
    const id = replySeed === undefined ? given : distinctCallId(given, replySeed, this.used);
    return this.#names.take(id, (count) => (count === 1 ? id : `${id}_${count}`));
  }
}

/** What {@link distinctCallId} writes. */
const DISTINCT = /^([\w.-]+:\d{1,4})_[0-9A-Za-z]{8}$/;

/** The model's own id for a call whose id {@link distinctCallId} wrote; any other id as it is. */
export const ownCallId = (id: string): string => DISTINCT.exec(id)?.[1] ?? id;
