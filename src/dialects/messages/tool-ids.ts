import { fingerprint } from "../fingerprint.ts";

const ALLOWED = /^[a-zA-Z0-9_-]+$/;

/**
 * Hands out the ids of tool calls in one request: as the client wrote them where this dialect takes them, else rewritten to its
 * alphabet with a hash of the original; an id that was used before gets a number behind it (dialects.md 2.2, 4.3).
 */
export class ToolIds {
  #used = new Set<string>();

  /** The id to write for a call that the client calls `id`. Deterministic within one request. */
  take(id: string): string {
    const base = ALLOWED.test(id) ? id : `${id.replace(/[^a-zA-Z0-9_-]/g, "_") || "toolu"}_${fingerprint(id)}`;
    let mapped = base;
    for (let count = 2; this.#used.has(mapped); count++) mapped = `${base}_${count}`;
    this.#used.add(mapped);
    return mapped;
  }
}
