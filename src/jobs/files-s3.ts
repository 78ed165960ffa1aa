import type { S3Client } from "bun";
import { FILE_NAME, type ImageFiles, type NameBatch, typeOfFile } from "./files.ts";

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
export const SIGNED_SECONDS = 24 * 60 * 60;
/** Names of one listing. */
const PAGE = 1_000;
/** Behind every name in order. */
const BEHIND = "~";

/** Images in a bucket. What is written is durable when the service has answered. */
export class BucketFiles implements ImageFiles {
  readonly #client: S3Client;
  readonly #prefix: string;
  readonly #publicUrl: string | undefined;

  constructor({ prefix = "", publicUrl, ...settings }: BucketSettings) {
    this.#client = new Bun.S3Client(settings);
    this.#prefix = prefix;
    this.#publicUrl = publicUrl;
  }

  #file(name: string) {
    return this.#client.file(this.#prefix + name);
  }

  async save(name: string, bytes: Uint8Array): Promise<void> {
    await this.#file(name).write(bytes, { type: typeOfFile(name) });
  }

  async open(name: string): Promise<Blob | undefined> {
    const bytes = await this.read(name);
    return bytes && new Blob([bytes.slice()], { type: typeOfFile(name) });
  }

  async read(name: string): Promise<Uint8Array | undefined> {
    try {
      return await this.#file(name).bytes();
    } catch (thrown) {
      if (isMissing(thrown)) return undefined;
      throw thrown;
    }
  }

  has(name: string): Promise<boolean> {
    return this.#file(name).exists();
  }

  async remove(name: string): Promise<void> {
    await this.#file(name).delete();
  }

  link(name: string): string {
    if (this.#publicUrl !== undefined) return `${this.#publicUrl}/${this.#prefix}${name}`;
    return this.#file(name).presign({ method: "GET", expiresIn: SIGNED_SECONDS });
  }

  async age(name: string): Promise<number | undefined> {
    try {
      const { lastModified } = await this.#file(name).stat();
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
      const { contents = [], isTruncated } = await this.#client.list(page);
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

const MISSING = new Set(["NoSuchKey", "NotFound", "ENOENT"]);
const isMissing = (thrown: unknown) => MISSING.has(String((thrown as { code?: unknown }).code));
