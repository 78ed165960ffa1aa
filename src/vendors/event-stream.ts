import { EventStreamCodec } from "@smithy/eventstream-codec";
import { record } from "../dialects/messages/records.ts";
import { addPiece, joinPieces } from "../lib/http1/pieces.ts";
import { entryOf, isObject } from "../lib/json.ts";

/** One message larger than this breaks the stream: the framing's own limit, with room for its headers. */
const MAX_MESSAGE_BYTES = 24 * 1024 * 1024;
/** Total length, length of the headers, their checksum, the message's checksum. */
const MIN_MESSAGE_BYTES = 16;

/** Thrown for bytes that are no message of this framing: whatever follows on the connection cannot be read either. */
export class BrokenFrame extends Error {
  override readonly name = "BrokenFrame";
}

const utf8 = new TextDecoder();
const encoder = new TextEncoder();
const codec = new EventStreamCodec(
  (input) => (typeof input === "string" ? input : utf8.decode(input)),
  (input) => encoder.encode(input),
);

/** What each kind of exception in a stream is called in the messages dialect; others are the vendor's own failure. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  throttlingException: "rate_limit_error",
  serviceUnavailableException: "overloaded_error",
  modelNotReadyException: "overloaded_error",
  validationException: "invalid_request_error",
  accessDeniedException: "permission_error",
};

function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch {
    // Told below: what is not JSON is no message of this framing's service.
  }
  throw new BrokenFrame("a message of the event stream holds no JSON object");
}

/** The event inside a message: base64 of its JSON, in a wrapper. Exceptions become the dialect's own error record. */
function toRecord(bytes: Uint8Array): string {
  const { headers, body } = codec.decode(bytes);
  const kind = headers[":message-type"]?.value;
  const payload = utf8.decode(body);
  if (kind === "event") {
    const wrapped = parse(payload)["bytes"];
    if (typeof wrapped !== "string") return "";
    const json = Buffer.from(wrapped, "base64").toString();
    const { type } = parse(json);
    return record(typeof type === "string" ? type : "message", json);
  }
  const name = String(headers[":exception-type"]?.value ?? headers[":error-code"]?.value ?? "");
  const told = kind === "exception" ? parse(payload)["message"] : headers[":error-message"]?.value;
  const error = { type: entryOf(EXCEPTIONS, name) ?? "api_error", message: typeof told === "string" ? told : name };
  return record("error", JSON.stringify({ type: "error", error }));
}

/** Bytes of a message's first field, its total length. */
const LENGTH_BYTES = 4;

/** The length of the message that begins these bytes; undefined while its field is not all there. Throws {@link BrokenFrame}. */
function messageLength(bytes: Uint8Array): number | undefined {
  if (bytes.length < LENGTH_BYTES) return undefined;
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0);
  if (length >= MIN_MESSAGE_BYTES && length <= MAX_MESSAGE_BYTES) return length;
  throw new BrokenFrame("a message of an impossible length");
}

/**
 * Cuts bytes of AWS event-stream framing into messages, whatever the chunk borders, and gives each as an SSE record of the dialect that
 * the vendor speaks inside.
 */
export class EventStreamReader {
  /** What has come of a message that is not whole, and how many bytes of it there have to be before it is looked at again. */
  #pieces: Uint8Array[] = [];
  #held = 0;
  #needed = LENGTH_BYTES;
  #fault: unknown;

  /**
   * The SSE text of the messages that these bytes complete, which belong to this reader from now on. What is whole before a fault is still given; then, and for
   * ever after, it throws {@link BrokenFrame}, or the codec's error for a wrong checksum.
   */
  push(bytes: Uint8Array): string {
    if (this.#fault !== undefined) throw this.#fault;
    addPiece(this.#pieces, bytes);
    this.#held += bytes.length;
    // A large message comes in many pieces: joined with each of them anew, they would be copied as many times.
    if (this.#held < this.#needed) return "";
    let rest = joinPieces(this.#pieces);
    let length: number | undefined;
    let text = "";
    try {
      for (length = messageLength(rest); length !== undefined && length <= rest.length; length = messageLength(rest)) {
        text += toRecord(rest.subarray(0, length));
        rest = rest.subarray(length);
      }
    } catch (fault) {
      this.#fault = fault;
      if (text === "") throw fault;
    }
    // It may lie in memory that is lent.
    this.#pieces = rest.length > 0 ? [new Uint8Array(rest)] : [];
    this.#held = rest.length;
    this.#needed = length ?? LENGTH_BYTES;
    return text;
  }

  /** Bytes were pushed that are no frames: reading on is of no use. */
  get broken(): boolean {
    return this.#fault !== undefined;
  }
}

const NO_BYTES = new Uint8Array(0);

/** Bytes of the framing as SSE bytes, read only as fast as they are asked for. */
function toSse(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  const source = body.getReader();
  const reader = new EventStreamReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      for (;;) {
        const { done, value } = reader.broken ? { done: false, value: NO_BYTES } : await source.read();
        if (done) return controller.close();
        try {
          const text = reader.push(value);
          if (text !== "") return controller.enqueue(encoder.encode(text));
        } catch (fault) {
          await source.cancel(fault);
          throw fault;
        }
      }
    },
    cancel: (reason) => source.cancel(reason),
  });
}

/** An answer with its stream as SSE; one that is not framed this way, such as an error or a whole reply, comes back as it is. */
export function unframe(response: Response): Response {
  const type = response.headers.get("content-type") ?? "";
  if (!type.startsWith("application/vnd.amazon.eventstream") || !response.body) return response;
  const headers = new Headers(response.headers);
  headers.set("content-type", "text/event-stream");
  headers.delete("content-length");
  headers.delete("content-encoding");
  return new Response(toSse(response.body), { status: response.status, headers });
}
