import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Store, withPrivateFiles } from "../../db/open.ts";
import { StoreError } from "../../db/store-error.ts";
import { errorCode } from "../../lib/error-code.ts";

/** Loaded with the first reasoning that is kept: at the start it would cost a good part of it. */
const nodeCrypto = () => process.getBuiltinModule("node:crypto");

/** The key's file, beside the store: a copy of the store alone tells nothing of anybody's reasoning. */
export const KEY_FILE = "reasoning.key";
const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;
/** First byte of what is sealed in this way. */
const VERSION = 1;

/** Keys of stores in memory, which have no folder: they live as long as the store does. */
const keysInMemory = new WeakMap<object, Buffer>();

function readKey(path: string): Buffer {
  const key = readFileSync(path);
  if (key.length !== KEY_BYTES) {
    throw new StoreError("damaged", `The key file ${path} is damaged; delete it, and kept reasoning is forgotten.`);
  }
  return key;
}

/** Makes the key, durably; the key of whoever was first when two do so at once. */
function makeKey(path: string): Buffer {
  const key = nodeCrypto().randomBytes(KEY_BYTES);
  try {
    const file = withPrivateFiles(() => openSync(path, "wx", 0o600));
    try {
      writeSync(file, key);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    return key;
  } catch (thrown) {
    if (errorCode(thrown) !== "EEXIST") throw thrown;
    return readKey(path);
  }
}

function loadKey(store: Store): Buffer {
  if (store.path === ":memory:") {
    const key = keysInMemory.get(store.database) ?? nodeCrypto().randomBytes(KEY_BYTES);
    keysInMemory.set(store.database, key);
    return key;
  }
  const path = join(dirname(store.path), KEY_FILE);
  try {
    return readKey(path);
  } catch (thrown) {
    if (errorCode(thrown) !== "ENOENT") throw thrown;
    return makeKey(path);
  }
}

/** A random seed for digests of proofs: without it nobody can make two proofs that share a digest. */
export const randomSeed = (): bigint => crypto.getRandomValues(new BigUint64Array(1))[0] ?? 0n;

/** The same derived from the store's key: the same as long as the key is, and known only to who has that. Throws as {@link Sealer} does. */
export function deriveSeed(store: Store): bigint {
  return new Bun.CryptoHasher("sha256", loadKey(store)).update("proof makers").digest().readBigUInt64LE();
}

/** Seals text with AES-256-GCM under a random key in the data folder, which is made when it is first needed (mode 0600). */
export class Sealer {
  #key: Buffer | undefined;

  constructor(private readonly store: Store) {}

  /** `text` for the store, bound to its owner. Throws StoreError or the system's error when the key cannot be read or made. */
  seal(text: string, owner: string): Buffer {
    this.#key ??= loadKey(this.store);
    const iv = nodeCrypto().randomBytes(IV_BYTES);
    const cipher = nodeCrypto().createCipheriv("aes-256-gcm", this.#key, iv).setAAD(Buffer.from(owner));
    const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
    return Buffer.concat([Buffer.from([VERSION]), iv, cipher.getAuthTag(), sealed]);
  }

  /** What {@link seal} sealed. Throws when it was changed, is another owner's, or another key's, and as `seal` does. */
  open(sealed: Uint8Array, owner: string): string {
    if (sealed[0] !== VERSION) throw new StoreError("damaged", "A kept reasoning state has an unknown form.");
    this.#key ??= loadKey(this.store);
    const iv = sealed.subarray(1, 1 + IV_BYTES);
    const tag = sealed.subarray(1 + IV_BYTES, 1 + IV_BYTES + TAG_BYTES);
    const decipher = nodeCrypto()
      .createDecipheriv("aes-256-gcm", this.#key, iv, { authTagLength: TAG_BYTES })
      .setAAD(Buffer.from(owner))
      .setAuthTag(tag);
    const body = sealed.subarray(1 + IV_BYTES + TAG_BYTES);
    return Buffer.concat([decipher.update(body), decipher.final()]).toString("utf8");
  }
}
