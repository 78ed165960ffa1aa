import { setImmediate } from "node:timers/promises";
import { codingOf } from "../../lib/http1/coding.ts";
import { entryOf } from "../../lib/json.ts";
import { type Answer, type Read, ResponseAnswer } from "../answer.ts";
import { ConnectionLost } from "./faults.ts";

/** Codings that can be undone, as the runtime calls them (RFC 9110, 8.4.1). */
const FORMATS: Readonly<Record<string, ConstructorParameters<typeof DecompressionStream>[0]>> = {
  gzip: "gzip",
  "x-gzip": "gzip",
  deflate: "deflate",
  br: "brotli",
  zstd: "zstd",
};

/** After about so many unpacked bytes the event loop gets its turn: 48 MiB out of 48 KB that came together would hold it for 0.3 s. */
const UNPACKED_AT_ONCE = 1024 * 1024;

/** The header fields of an answer that anybody reads. */
const FIELDS = ["content-type", "retry-after", "retry-after-ms"];

/** An answer as a `Response`, for code that takes nothing else: its status, the fields that are read, and `body`. */
export function toResponse(answer: Answer, body: ReadableStream<Uint8Array<ArrayBuffer>> = toStream(answer)): Response {
  const headers = new Headers();
  for (const name of FIELDS) {
    const value = answer.headers.get(name);
    if (value !== null) headers.set(name, value);
  }
  return new Response(body, { status: answer.status, headers });
}

/** The body of an answer as a stream, read only as it is asked for. */
function toStream(answer: Answer): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      async pull(controller) {
        const { done, value } = await answer.read();
        if (done || !value) controller.close();
        else controller.enqueue(value as Uint8Array<ArrayBuffer>);
      },
      cancel: () => answer.cancel(),
    },
    { highWaterMark: 0 },
  );
}

/**
 * An answer that is packed though it was asked not to be, unpacked while it is read: no more of it is in memory than is read of it. Throws
 * {@link ConnectionLost} for a coding that nobody knows.
 */
export function unpack(answer: Answer): Answer {
  const coding = codingOf(answer.headers.get("content-encoding"));
  if (coding === undefined) return answer;
  const format = entryOf(FORMATS, coding);
  if (!format) {
    answer.cancel();
    throw new ConnectionLost("The answer is packed in a way that nobody asked for.");
  }
  const body = toStream(answer).pipeThrough(new DecompressionStream(format));
  return new UnpackedAnswer(toResponse(answer, body));
}

/** An answer that is unpacked while it is read. Where it cannot be unpacked, reading rejects with {@link ConnectionLost}, as for one that broke under way. */
class UnpackedAnswer extends ResponseAnswer {
  /** Bytes unpacked since the event loop's last turn. */
  #unpacked = 0;

  override async read(): Promise<Read> {
    if (this.#unpacked >= UNPACKED_AT_ONCE) {
      this.#unpacked = 0;
      await setImmediate();
    }
    try {
      const read = await super.read();
      this.#unpacked += read.value?.length ?? 0;
      return read;
    } catch (thrown) {
      if (thrown instanceof TypeError) throw new ConnectionLost("The answer could not be unpacked.", { cause: thrown });
      throw thrown;
    }
  }
}
