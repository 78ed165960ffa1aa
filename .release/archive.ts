/** Tar archives that are the same bytes whenever they are made of the same files: without owners and the time of making, in the given order. */

export type ArchivedFile = {
  /** With slashes, at most 100 bytes. */
  name: string;
  /** Permission bits. */
  mode: number;
  bytes: Uint8Array;
};

const BLOCK = 512;
/** The largest size that a header can hold, bytes: eleven octal digits. */
const MAX_FILE_BYTES = 0o77777777777;

const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, "0")}\0`;

/** The header of one file (POSIX.1-1988, ustar). */
function writeHeader({ name, mode, bytes }: ArchivedFile, madeAt: number): Buffer {
  if (Buffer.byteLength(name) > 100) throw new Error(`the name ${name} is too long for the archive`);
  if (bytes.length > MAX_FILE_BYTES) throw new Error(`${name} is too large for the archive`);
  const header = Buffer.alloc(BLOCK);
  header.write(name, 0, "utf8");
  header.write(octal(mode, 7), 100);
  header.write(octal(0, 7), 108);
  header.write(octal(0, 7), 116);
  header.write(octal(bytes.length, 11), 124);
  header.write(octal(madeAt, 11), 136);
  header.write(" ".repeat(8), 148);
  header.write("0", 156);
  header.write("ustar\x0000", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${octal(sum, 6)} `, 148);
  return header;
}

/** A tar file. `madeAt` is when every file in it was last changed, Unix s. Throws Error for a name or a file that does not fit. */
export function writeTar(files: readonly ArchivedFile[], madeAt: number): Buffer {
  const blocks: Uint8Array[] = [];
  for (const file of files) {
    blocks.push(writeHeader(file, madeAt), file.bytes, Buffer.alloc((BLOCK - (file.bytes.length % BLOCK)) % BLOCK));
  }
  blocks.push(Buffer.alloc(2 * BLOCK));
  return Buffer.concat(blocks);
}
