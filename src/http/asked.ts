import { Abort, type Leaving } from "../lib/abort.ts";
import type { Fields } from "../lib/http1/fields.ts";

/** What comes before a request's body. */
export type AskedHead = {
  readonly method: string;
  readonly url: string;
  readonly headers: Fields;
  /** The address of its connection, where the request knows it. */
  readonly peer?: string | undefined;
};

/** The body of a request, to be read once, in one way or the other. Rejects when the client leaves before all of it has come. */
export type AskedBody = {
  readonly headers: Fields;
  bytes(): Promise<Uint8Array>;
  /**
   * What `use` makes of {@link bytes}, which are lent for that call alone, or are its `own` from then on: at once where they have come whole, and then
   * with what it throws. They are as long as the head says.
   */
  lend?<T>(use: (bytes: Uint8Array, isOwn: boolean) => T, own?: boolean): T | Promise<T>;
  /** In pieces; null where there is none. */
  readonly body: ReadableStream<Uint8Array> | null;
  /** Ends when the client goes away, where that is known. */
  readonly left?: Leaving;
};

/** A request as the generating endpoints see it, whoever listens. */
export interface Asked extends AskedHead, AskedBody {
  /** Ends when the client goes away. */
  readonly left: Leaving;
  /** From now on its connection may be quiet for as long as it likes: there are other bounds. */
  bearSilence(): void;
  /** Ends its connection, whatever still waits to be sent on it. */
  close(): void;
}

/** What is asked of whoever listens: Bun's own server, or ours. */
export type Listener = {
  /** The address of a request's client; null where it is not known. */
  requestIP(request: Request): { address: string } | null;
  /** For how many seconds a request's connection may be quiet from now on; 0: for as long as it likes. */
  timeout(request: Request, seconds: number): void;
  readonly port?: number | undefined;
};

/** The listener by which requests come; null when the app is called without one, as tests do. */
export type RequestServer = Listener | null;

/** A request that came by way of Bun's own server, or of none. */
export class AskedRequest implements Asked {
  #left: Abort | undefined;

  constructor(
    private readonly request: Request,
    private readonly server: RequestServer,
  ) {}

  get method(): string {
    return this.request.method;
  }

  get url(): string {
    return this.request.url;
  }

  get peer(): string | undefined {
    return this.server?.requestIP(this.request)?.address;
  }

  get headers(): Headers {
    return this.request.headers;
  }

  get body(): ReadableStream<Uint8Array> | null {
    return this.request.body;
  }

  get left(): Leaving {
    this.#left ??= Abort.of(this.request.signal);
    return this.#left;
  }

  bytes(): Promise<Uint8Array> {
    return this.request.bytes();
  }

  bearSilence(): void {
    this.server?.timeout(this.request, 0);
  }

  close(): void {
    this.server?.timeout(this.request, 1);
  }
}
