import type { Fields } from "../lib/http1/fields.ts";

/** What one read of a body gives. */
export type Read = { done: boolean; value?: Uint8Array | undefined };

/** Is told the result of one read of a body: one of these is called, once. None of them may throw. */
export type ReadTaker = {
  /** The next piece: the bytes at the indices `from` to before `to`. */
  onBytes(bytes: Uint8Array, from: number, to: number): void;
  /** There is nothing more. */
  onEnd(): void;
  onBroken(reason: unknown): void;
};

/** An upstream's answer whose body is still to be read, by whatever way it came. */
export interface Answer {
  readonly status: number;
  readonly headers: Fields;
  /** The next piece of the body, one call at a time. Rejects with what aborted the call, or with what broke the connection. */
  read(): Promise<Read>;
  /**
   * {@link read} without a promise, which thousands of streams would each make anew for every piece, and which a collection that comes while they
   * wait would take for lasting. `taker` is told later, never by this call itself.
   */
  readTo?(taker: ReadTaker): void;
  /**
   * The whole body as text, at most about `maxBytes` of it: the rest is cancelled unread, so that neither a decompression bomb nor a chatty
   * error page fills the memory (reliability 2 #18). Rejects as {@link read} does.
   */
  text(maxBytes: number): string | Promise<string>;
  /** Frees the memory of a piece that {@link read} gave. Nobody may look at the piece any more. */
  release?(piece: Uint8Array): void;
  /** Gives up the rest of the body: the connection ends, by which the upstream learns of it. */
  cancel(): void;
  /** Reads the rest of the body and throws it away, so that the connection can be used again; cancels it when it has not ended after `ms`. */
  finish(ms: number): void;
}

/** Tells `taker` the next piece: by the source's own `readTo` where it has one, else by `read`. */
export function readTo(source: Pick<Answer, "read" | "readTo">, taker: ReadTaker): void {
  if (source.readTo) source.readTo(taker);
  else
    source.read().then(
      ({ done, value }) => (done || !value ? taker.onEnd() : taker.onBytes(value, 0, value.length)),
      (reason: unknown) => taker.onBroken(reason),
    );
}

/** A status of success. */
export const isOk = ({ status }: { status: number }): boolean => status >= 200 && status <= 299;

const NO_BODY: Promise<Read> = Promise.resolve({ done: true });

/** The text of an answer read piece by piece, cut off behind `maxBytes`. */
export async function readText(answer: Pick<Answer, "read" | "cancel">, maxBytes: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let left = maxBytes;
  for (;;) {
    const { done, value } = await answer.read();
    if (done || !value) return text + decoder.decode();
    text += decoder.decode(value.subarray(0, left), { stream: true });
    left -= value.byteLength;
    if (left >= 0) continue;
    answer.cancel();
    return text;
  }
}

/** What `fetch` or an upstream inside this process gave, as an {@link Answer}. */
export class ResponseAnswer implements Answer {
  readonly status: number;
  readonly headers: Headers;
  #reader: Pick<ReadableStreamDefaultReader<Uint8Array>, "read" | "cancel"> | undefined;

  constructor(private readonly response: Response) {
    this.status = response.status;
    this.headers = response.headers;
  }

  read(): Promise<Read> {
    const { body } = this.response;
    if (!body) return NO_BODY;
    const reader = this.#reader ?? body.getReader();
    this.#reader = reader;
    return reader.read();
  }

  text(maxBytes: number): Promise<string> {
    return isSurelyWithin(this.headers, maxBytes) ? this.response.text() : readText(this, maxBytes);
  }

  cancel(): void {
    const { body } = this.response;
    const cancelled = this.#reader ? this.#reader.cancel() : body && !body.locked ? body.cancel() : undefined;
    cancelled?.catch(ignoreBroken);
  }

  finish(ms: number): void {
    const timer = setTimeout(() => this.cancel(), ms);
    const drain = async () => {
      while (!(await this.read()).done);
    };
    drain()
      .catch(ignoreBroken)
      .finally(() => clearTimeout(timer));
  }
}

/** An answer whose first read, `first`, was made already by somebody who had to look at it: its reader is given that read first, and then the rest. */
export class BegunAnswer implements Answer {
  readonly status: number;
  readonly headers: Fields;
  #first: Promise<Read> | undefined;

  constructor(
    private readonly answer: Answer,
    first: Promise<Read>,
  ) {
    this.status = answer.status;
    this.headers = answer.headers;
    this.#first = first;
  }

  read(): Promise<Read> {
    const first = this.#first;
    this.#first = undefined;
    return first ?? this.answer.read();
  }

  text(maxBytes: number): Promise<string> {
    return readText(this, maxBytes);
  }

  release(piece: Uint8Array): void {
    this.answer.release?.(piece);
  }

  cancel(): void {
    this.answer.cancel();
  }

  finish(ms: number): void {
    this.answer.finish(ms);
  }
}

/** Whether a length of the body's own says that it is no longer than `maxBytes`. To read it in one piece costs half of reading it piece by piece. */
function isSurelyWithin(headers: Fields, maxBytes: number): boolean {
  const length = headers.get("content-length");
  return length !== null && Number(length) <= maxBytes && !headers.has("content-encoding");
}

/** The body was aborted or broken before: there is nothing left to cancel. */
function ignoreBroken(): void {}
