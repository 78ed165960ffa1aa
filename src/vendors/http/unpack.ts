import { type Answer, type Read, ResponseAnswer } from "../answer.ts";
import { ConnectionLost } from "./faults.ts";

/** Codings that can be undone, as the runtime calls them (RFC 9110, 8.4.1). */
const FORMATS: Readonly<Record<string, string>> = {
  gzip: "gzip",
  "x-gzip": "gzip",
  deflate: "deflate",
  br: "brotli",
  zstd: "zstd",
};

/** Bytes of an answer as they are asked for. */
function toStream(answer: Answer): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await answer.read();
      if (done || !value) controller.close();
      else controller.enqueue(value as Uint8Array<ArrayBuffer>);
    },
    cancel: () => answer.cancel(),
  });
}

/**
 * An answer that is packed though it was asked not to be, unpacked while it is read: no more of it is in memory than is read of it. Throws
 * {@link ConnectionLost} for a coding that nobody knows.
 */
export function unpack(answer: Answer): Answer {
  const coding = answer.headers.get("content-encoding")?.trim().toLowerCase() ?? "";
  if (coding === "" || coding === "identity") return answer;
  const format = FORMATS[coding];
  if (!format) {
    answer.cancel();
    throw new ConnectionLost("The answer is packed in a way that nobody asked for.");
  }
  const type = answer.headers.get("content-type");
  const after = answer.headers.get("retry-after");
  const headers = { ...(type !== null && { "content-type": type }), ...(after !== null && { "retry-after": after }) };
  const body = toStream(answer).pipeThrough(
    new DecompressionStream(format as ConstructorParameters<typeof DecompressionStream>[0]),
  );
  return new UnpackedAnswer(new Response(body, { status: answer.status, headers }));
}

/** What cannot be unpacked is told as what it is to whoever reads: an answer that broke under way. */
class UnpackedAnswer extends ResponseAnswer {
  override async read(): Promise<Read> {
    try {
      return await super.read();
    } catch (thrown) {
      if (thrown instanceof TypeError) throw new ConnectionLost("The answer could not be unpacked.", { cause: thrown });
      throw thrown;
    }
  }
}
