import { MalformedMessage } from "../../lib/http1/fields.ts";
import { canBeginHead, type Head, MAX_HEAD_BYTES, parseHead } from "./head.ts";

/** Heads that tell of a later one, such as 103, before that one must come. */
const MAX_INTERIM = 16;

const HEAD_END = Buffer.from("\r\n\r\n");
const BARE_HEAD_END = Buffer.from("\n\n");

/** A head, and in which bytes its body begins at which place. `isFirst`: none stood before it that told of a later one. */
export type ReadHead = { head: Head; bytes: Buffer; bodyAt: number; isFirst: boolean };

/** Finds the head of an answer in the bytes of its connection. */
export class HeadReader {
  /** Bytes of a head that has not come whole. */
  #held: Buffer | undefined;
  #interim = 0;

  /** Reads on; undefined until the head is there. Throws {@link MalformedMessage}. */
  take(bytes: Buffer): ReadHead | undefined {
    const all = this.#held ? Buffer.concat([this.#held, bytes]) : bytes;
    let start = 0;
    for (;;) {
      let at = all.indexOf(HEAD_END, start);
      let length = HEAD_END.length;
      // Some small servers leave out the carriage returns, and may have them in the body that follows.
      const bare = all.subarray(0, at < 0 ? all.length : at).indexOf(BARE_HEAD_END, start);
      if (bare >= 0) {
        at = bare;
        length = BARE_HEAD_END.length;
      }
      if ((at < 0 ? all.length : at) - start > MAX_HEAD_BYTES) throw new MalformedMessage("a head that is too long");
      if (at < 0) {
        // At once: what speaks something else may wait for as long as anybody does.
        if (!canBeginHead(all, start)) throw new MalformedMessage("no status line");
        this.#held = start === 0 ? all : all.subarray(start);
        return undefined;
      }
      const head = parseHead(all.toString("latin1", start, at));
      start = at + length;
      if (head.status >= 200) {
        this.#held = undefined;
        return { head, bytes: all, bodyAt: start, isFirst: this.#interim === 0 };
      }
      if (head.status === 101 || ++this.#interim > MAX_INTERIM)
        throw new MalformedMessage("an answer that never comes");
    }
  }
}
