import type { S3Client } from "bun";
import { systemClock } from "../lib/clock.ts";
import { errorCode } from "../lib/error-code.ts";
import { deadline, until } from "../lib/signals.ts";
import { BEHIND, FILE_NAME, type ImageFiles, type NameBatch, typeOfFile } from "./files.ts";

/** A bucket of an S3-compatible service. */
export type BucketSettings = {
  bucket: string;
  accessKeyId: string;
  secretAccessKey: string;
  /** Absent: Amazon's own of the region. */
  endpoint?: string;
  region?: string;
  /** In front of every name: `sluice/`. */
  prefix?: string;
  /** Where the bucket's objects can be read without a signature, without a slash at its end. Absent: addresses are signed for a day. */
  publicUrl?: string;
};

/** How long a signed address opens a file, seconds. Each poll gives a new one. */
const SIGNED_SECONDS = 24 * 60 * 60;
/** Names of one listing. */
const PAGE = 1_000;

/** How long one call is waited for, ms: an image of 32 MiB over a slow line takes less, and a job has five minutes. */
const CALL_MS = 120_000;
/** How often a file is written at the most, and the first pause in between, ms: services fail for a moment, and the image may have been paid for. */
const SAVES = 3;
const SAVE_PAUSE_MS = 500;

/** Images in a bucket. What is written is durable when the service has answered; one that does not answer rejects with an error in time. */
export class BucketFiles implements ImageFiles {
  readonly #client: S3Client;
  readonly #prefix: string;
  readonly #publicUrl: string | undefined;

  /** `callMs`: for one call, ms. */
  constructor(
    { prefix = "", publicUrl, ...settings }: BucketSettings,
    private readonly callMs = CALL_MS,
  ) {
    const region = settings.region ?? regionOf(settings.endpoint);
    this.#client = new Bun.S3Client({ ...settings, ...(region !== undefined && { region }) });
    this.#prefix = prefix;
    this.#publicUrl = publicUrl;
  }

  hasRoom(): Promise<boolean> {
    return Promise.resolve(true);
  }

  #file(name: string) {
    return this.#client.file(this.#prefix + name);
  }

  /** The client has no bound of its own. Throws Error once the time is over. */
  async #within<T>(call: Promise<T>): Promise<T> {
    const limit = deadline(systemClock, this.callMs, () => new Error("The bucket does not answer."));
    try {
      return await until(limit.signal, () => call);
    } finally {
      limit.end();
    }
  }

  async save(name: string, bytes: Uint8Array): Promise<void> {
    const write = () => this.#file(name).write(bytes, { type: typeOfFile(name) });
    await this.#within(tryAgain(write));
  }

  async open(name: string): Promise<Blob | undefined> {
    const bytes = await this.read(name);
    return bytes && new Blob([bytes.slice()], { type: typeOfFile(name) });
  }

  async read(name: string): Promise<Uint8Array | undefined> {
    try {
      return await this.#within(this.#file(name).bytes());
    } catch (thrown) {
      if (isMissing(thrown)) return undefined;
      throw thrown;
    }
  }

  has(name: string): Promise<boolean> {
    return this.#within(this.#file(name).exists());
  }

  async remove(name: string): Promise<void> {
    await this.#within(this.#file(name).delete());
  }

  link(name: string): string {
    if (this.#publicUrl !== undefined) {
      const path = `${this.#prefix}${name}`.split("/").map(encodeURIComponent).join("/");
      return `${this.#publicUrl}/${path}`;
    }
    return this.#file(name).presign({ method: "GET", expiresIn: SIGNED_SECONDS });
  }

  async age(name: string): Promise<number | undefined> {
    try {
      const { lastModified } = await this.#within(this.#file(name).stat());
      return Date.now() - lastModified.getTime();
    } catch (thrown) {
      if (isMissing(thrown)) return undefined;
      throw thrown;
    }
  }

  async *batches(): AsyncGenerator<NameBatch> {
    let from = "";
    let last: string | undefined;
    for (;;) {
      const page = { prefix: this.#prefix, maxKeys: PAGE, ...(last && { startAfter: this.#prefix + last }) };
      const { contents = [], isTruncated } = await this.#within(this.#client.list(page));
      const names = contents.map(({ key }) => key.slice(this.#prefix.length));
      last = isTruncated ? names.at(-1) : undefined;
      // Just behind the last name, so that no two batches share one.
      const to = last === undefined ? BEHIND : `${last}${BEHIND}`;
      // Whatever else lies in the bucket is somebody else's.
      yield { from, to, names: names.filter((name) => FILE_NAME.test(name)) };
      if (last === undefined) return;
      from = to;
    }
  }
}

/** Amazon's own endpoints, perhaps with a bucket's name before them: the usual ones, those for IPv6, for FIPS and inside a private network. */
const AMAZON = /[./]s3(?:-fips)?(?:\.dualstack)?(?:[.-]([a-z]{2}(?:-[a-z]+)+-\d))?(?:\.vpce)?\.amazonaws\.com/;

/** Endpoints of other services that name their region as Amazon's do (Backblaze, IBM, OVH, Scaleway, Wasabi): most refuse what is signed for another. */
const NAMED = /^https?:\/\/(?:[^/]+\.)?s3\.([a-z][a-z\d-]+)\.[^./]+\.[^/]+/;

/**
 * The region that is signed for at an endpoint, where nobody names one: without it the client takes AWS_REGION of the environment, which is there for
 * Bedrock. Undefined without an endpoint: Amazon's own is where that variable says.
 */
function regionOf(endpoint: string | undefined): string | undefined {
  if (endpoint === undefined) return undefined;
  const amazon = AMAZON.exec(endpoint);
  if (amazon) return amazon[1] ?? "us-east-1";
  return NAMED.exec(endpoint)?.[1] ?? "auto";
}

async function tryAgain<T>(write: () => Promise<T>): Promise<T> {
  for (let pause = SAVE_PAUSE_MS, left = SAVES; ; pause *= 4) {
    try {
      return await write();
    } catch (thrown) {
      if (--left === 0) throw thrown;
      await Bun.sleep(pause);
    }
  }
}

const MISSING = new Set(["NoSuchKey", "NotFound", "ENOENT"]);
const isMissing = (thrown: unknown) => MISSING.has(errorCode(thrown));
