import type { Fields } from "../lib/http1/fields.ts";

/** What one read of a body gives. */
export type Read = { done: boolean; value?: Uint8Array | undefined };

/** Told of what one read of a body came to. What is told must not throw. */
export type ReadTaker = {
  /** The next piece: these bytes `from` one place `to` another. */
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
  /** Lets the memory of a piece go that {@link read} gave, and that nobody looks at any more. */
  release?(piece: Uint8Array): void;
  /** Nobody wants the rest: the upstream is told by the end of its connection. */
  cancel(): void;
  /** Reads the rest unseen, so that the connection can be used again; cancels it when it has not ended after `ms`. */
  finish(ms: number): void;
}

/** Has the next piece told to `taker`, by the way that the source has. */
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

/** An answer of which `first` has been asked for already, by somebody who had to look at it: to its reader it is as it came. */
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

/** The length is told, and is that of the body itself: reading it in one piece costs half of reading it piece by piece. */
function isSurelyWithin(headers: Fields, maxBytes: number): boolean {
  const length = headers.get("content-length");
  return length !== null && Number(length) <= maxBytes && !headers.has("content-encoding");
}

/** The body was already aborted or broken: there is nothing left to give back. */
function ignoreBroken(): void {}
