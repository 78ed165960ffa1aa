import { fingerprint } from "../fingerprint.ts";
import { DistinctNames } from "./distinct-names.ts";

const ALLOWED = /^[a-zA-Z0-9_-]+$/;
/** Most characters that are kept of an id that is rewritten. */
const MAX_HEAD = 55;

/** Whether the messages dialect takes an id of a tool call as it is (dialects.md 2.2). */
export const isLegalId = (id: string): boolean => ALLOWED.test(id);

/**
 * Hands out the ids of tool calls in one request: as the client wrote them where they are legal, else rewritten to that
 * alphabet with a hash of the original; an id that was used before gets a number behind it (dialects.md 2.2, 4.3).
 */
export class ToolIds {
  readonly #names = new DistinctNames();

  /** The id to write for a call that the client calls `id`. Deterministic within one request. */
  take(id: string): string {
    const base = isLegalId(id) ? id : rewrite(id);
    return this.#names.take(base, (count) => (count === 1 ? base : `${base}_${count}`));
  }
}

const rewrite = (id: string): string =>
  `${id.replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, MAX_HEAD) || "toolu"}_${fingerprint(id)}`;
