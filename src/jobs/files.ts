import { constants } from "node:fs";
import { lstat, mkdir, open, readdir, rename, rm, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { errorCode } from "../lib/error-code.ts";
import { HOUR_MS } from "../lib/spans.ts";
import { type ImageType, MAX_IMAGE_BYTES } from "../vendors/image-upstream.ts";
import { EXTENSIONS } from "./inspect-image.ts";

/** Names of files: 128 random bits apart from the job's id, which stands in logs and addresses (reliability 5.5). */
export const FILE_NAME = /^[0-9a-f]{32}\.(png|jpg|webp)$/;

/** The media type by the end of a name: it is fixed, whatever is in the file. */
const TYPES: Readonly<Record<string, ImageType>> = Object.fromEntries(
  Object.entries(EXTENSIONS).map(([type, extension]) => [extension, type as ImageType]),
);

/** A fresh name for an image of this type. */
export const newFileName = (type: ImageType): string =>
  `${crypto.getRandomValues(new Uint8Array(16)).toHex()}.${EXTENSIONS[type]}`;

/** The type of a file by its name; the name must fit {@link FILE_NAME}. */
export const typeOfFile = (name: string): ImageType => TYPES[name.slice(name.indexOf(".") + 1)] ?? "image/png";

/** Some of the names that are kept: all of those from `from` up to, not including, `to`. */
export type NameBatch = { from: string; to: string; names: string[] };

/** Where images are kept. Names fit {@link FILE_NAME}. */
export interface ImageFiles {
  /** Whether one more image could be saved, however large it is; also true where nobody can tell before. Never rejects. */
  hasRoom(): Promise<boolean>;
  /** Durable when it resolves: a power cut after it takes nothing away. Rejects as the disk or the network does. */
  save(name: string, bytes: Uint8Array): Promise<void>;
  /** The file's bytes; undefined when there is none. */
  read(name: string): Promise<Uint8Array | undefined>;
  /** For answers that give parts of it; undefined when there is none. */
  open(name: string): Promise<Blob | undefined>;
  has(name: string): Promise<boolean>;
  remove(name: string): Promise<void>;
  /** The address under which clients get it without this gateway; undefined where there is none. */
  link(name: string): string | undefined;
  /** Every name, in order, some at a time; and what an earlier process left half written is removed on the way. */
  batches(): AsyncGenerator<NameBatch>;
  /** How long ago it was written, ms by this machine's clock; undefined when it is gone. */
  age(name: string): Promise<number | undefined>;
}

const isMissing = (thrown: unknown) => errorCode(thrown) === "ENOENT";

/** Half-written files older than this belong to nobody any more, ms (reliability 5.5). */
export const PART_MS = HOUR_MS;
/** What may have to be made for an image: its file, and the folders on its way. */
const NEW_FILES = 4;
/** First folders below the root: two hexadecimal digits. */
const FOLDERS = Array.from({ length: 256 }, (_, at) => at.toString(16).padStart(2, "0"));
/** What comes behind every name, and behind every name that begins as a given one does, in the order of names. */
export const BEHIND = "~";

/** The folder of images in a data folder, where no bucket is configured for them. */
export const imagesFolder = (dataFolder: string): string => join(dataFolder, "images");

/** The file of an image in a folder of images. */
export const pathOfImage = (folder: string, name: string): string => join(folder, name.slice(0, 2), name);

/** Images in a folder of this machine: `<2 hex>/<name>`, files 0600, folders 0700. */
export class FolderFiles implements ImageFiles {
  readonly #known = new Set<string>();

  constructor(private readonly folder: string) {}

  #path(name: string): string {
    if (!FILE_NAME.test(name)) throw new RangeError("This is no name of an image file.");
    return pathOfImage(this.folder, name);
  }

  /** Makes a folder below the root once, and sees to it that it is there after a power cut. */
  async #make(name: string): Promise<void> {
    if (this.#known.has(name)) return;
    await mkdir(join(this.folder, name), { recursive: true, mode: 0o700 });
    await syncFolder(this.folder);
    this.#known.add(name);
  }

  async hasRoom(): Promise<boolean> {
    try {
      // Before the first image the folder is not there.
      const told = await statfs(this.folder).catch(() => statfs(dirname(this.folder)));
      const { blocks, bsize, bfree, bavail, files, ffree } = told;
      // One that has no bound for files says 0 of them.
      if (files > 0 && ffree < NEW_FILES) return false;
      // What a file system keeps back is for the superuser; one that knows no size says 0 of everything.
      const free = process.getuid?.() === 0 ? bfree : bavail;
      return blocks === 0 || free * bsize >= MAX_IMAGE_BYTES;
    } catch {
      return true;
    }
  }

  async save(name: string, bytes: Uint8Array): Promise<void> {
    try {
      await this.#write(name, bytes);
    } catch (thrown) {
      if (!isMissing(thrown)) throw thrown;
      // Somebody may have removed the folders under the running server, to have room: the image may have been paid for, so they are made anew.
      this.#known.clear();
      await this.#write(name, bytes);
    }
  }

  async #write(name: string, bytes: Uint8Array): Promise<void> {
    const path = this.#path(name);
    await Promise.all([this.#make("tmp"), this.#make(name.slice(0, 2))]);
    const part = join(this.folder, "tmp", `${crypto.randomUUID()}.part`);
    try {
      await writeWhole(part, bytes);
      await rename(part, path);
    } catch (thrown) {
      // On a full disk it would hold the last free space, which the store needs.
      await rm(part, { force: true }).catch(() => {});
      throw thrown;
    }
    await syncFolder(join(this.folder, name.slice(0, 2)));
  }

  async open(name: string): Promise<Blob | undefined> {
    const path = this.#path(name);
    return (await this.has(name)) ? Bun.file(path, { type: typeOfFile(name) }) : undefined;
  }

  async read(name: string): Promise<Uint8Array | undefined> {
    const path = this.#path(name);
    return (await this.has(name)) ? Bun.file(path).bytes() : undefined;
  }

  /** A link in place of a file is not followed. */
  async has(name: string): Promise<boolean> {
    return (await statOf(this.#path(name))) !== undefined;
  }

  remove(name: string): Promise<void> {
    return rm(this.#path(name), { force: true });
  }

  link(): undefined {
    return undefined;
  }

  async age(name: string): Promise<number | undefined> {
    const stat = await statOf(this.#path(name));
    return stat && Date.now() - stat.mtimeMs;
  }

  async *batches(): AsyncGenerator<NameBatch> {
    await this.#removeParts();
    for (const folder of FOLDERS) {
      const names = await namesIn(join(this.folder, folder));
      yield { from: folder, to: `${folder}${BEHIND}`, names: names.filter((name) => FILE_NAME.test(name)) };
    }
  }

  async #removeParts(): Promise<void> {
    const folder = join(this.folder, "tmp");
    for (const name of await namesIn(folder)) {
      const path = join(folder, name);
      const stat = await statOf(path);
      if (stat && Date.now() - stat.mtimeMs > PART_MS) await rm(path, { force: true });
    }
  }
}

/** What the system knows of a plain file; undefined for anything else and for nothing. */
async function statOf(path: string) {
  try {
    const stat = await lstat(path);
    return stat.isFile() ? stat : undefined;
  } catch (thrown) {
    if (isMissing(thrown)) return undefined;
    throw thrown;
  }
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (thrown) {
    if (isMissing(thrown)) return [];
    throw thrown;
  }
}

/** A new file of the user's own, on the disk when it resolves. */
async function writeWhole(path: string, bytes: Uint8Array): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** A rename is on the disk only when its folder is; Windows knows no such thing. */
async function syncFolder(path: string): Promise<void> {
  if (process.platform === "win32") return;
  const folder = await open(path, constants.O_RDONLY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Images of a store that is in memory itself: they live and die with it. */
export class MemoryFiles implements ImageFiles {
  readonly #files = new Map<string, { bytes: Uint8Array; at: number }>();

  hasRoom(): Promise<boolean> {
    return Promise.resolve(true);
  }

  save(name: string, bytes: Uint8Array): Promise<void> {
    this.#files.set(name, { bytes, at: Date.now() });
    return Promise.resolve();
  }

  read(name: string): Promise<Uint8Array | undefined> {
    return Promise.resolve(this.#files.get(name)?.bytes);
  }

  open(name: string): Promise<Blob | undefined> {
    const file = this.#files.get(name);
    return Promise.resolve(file && new Blob([file.bytes.slice()], { type: typeOfFile(name) }));
  }

  has(name: string): Promise<boolean> {
    return Promise.resolve(this.#files.has(name));
  }

  remove(name: string): Promise<void> {
    this.#files.delete(name);
    return Promise.resolve();
  }

  link(): undefined {
    return undefined;
  }

  age(name: string): Promise<number | undefined> {
    const file = this.#files.get(name);
    return Promise.resolve(file && Date.now() - file.at);
  }

  async *batches(): AsyncGenerator<NameBatch> {
    yield { from: "", to: BEHIND, names: [...this.#files.keys()].sort() };
  }
}
