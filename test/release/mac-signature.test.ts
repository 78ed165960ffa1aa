import { describe, expect, test } from "bun:test";
import { hasSoundSignature, signForMac } from "../../.release/mac-signature.ts";

const PAGE = 4096;

/** A Mach-O file with the segments and the stale signature that Bun leaves: 3 pages and a bit of code, then 64 bytes of signature. */
function makeExecutable(): Buffer {
  const limit = 3 * PAGE + 160;
  const file = Buffer.alloc(limit + 64, 0x5a);
  const segment = (name: string, fileOffset: number, fileSize: number) => {
    const command = Buffer.alloc(72);
    command.writeUInt32LE(0x19, 0);
    command.writeUInt32LE(72, 4);
    command.write(name, 8);
    command.writeBigUInt64LE(BigInt(2 * PAGE), 32);
    command.writeBigUInt64LE(BigInt(fileOffset), 40);
    command.writeBigUInt64LE(BigInt(fileSize), 48);
    return command;
  };
  const signature = Buffer.alloc(16);
  for (const [at, word] of [0x1d, 16, limit, 64].entries()) signature.writeUInt32LE(word, at * 4);
  const commands = [segment("__TEXT", 0, PAGE), segment("__LINKEDIT", 2 * PAGE, PAGE + 160 + 64), signature];
  const header = Buffer.alloc(32);
  header.writeUInt32LE(0xfeedfacf, 0);
  header.writeUInt32LE(commands.length, 16);
  Buffer.concat([header, ...commands]).copy(file);
  return file;
}

describe("the signature for macOS", () => {
  const stale = makeExecutable();
  const signed = signForMac(stale, "sluice");

  test("fits what was signed, and not what was not", () => {
    expect(hasSoundSignature(stale)).toBe(false);
    expect(hasSoundSignature(signed)).toBe(true);
    expect(signForMac(stale, "sluice").equals(signed)).toBe(true);
    expect(signForMac(signed, "sluice").equals(signed)).toBe(true);
  });

  test("notices every changed byte of the code", () => {
    for (const at of [200, PAGE - 1, PAGE, 2 * PAGE + 7, 3 * PAGE + 159]) {
      const changed = Buffer.from(signed);
      changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
      expect([at, hasSoundSignature(changed)]).toEqual([at, false]);
    }
  });

  test("has the fields that the system reads, and the file's own sizes agree with it", () => {
    const limit = 3 * PAGE + 160;
    const size = signed.readUInt32LE(32 + 72 + 72 + 12);
    expect(signed.length).toBe(limit + size);
    expect(signed.readBigUInt64LE(32 + 72 + 48)).toBe(BigInt(PAGE + 160 + size));
    expect(signed.readBigUInt64LE(32 + 72 + 32)).toBe(BigInt(2 * PAGE));
    // Nothing else of the code was touched.
    expect(signed.subarray(32 + 72 + 72 + 16, limit).equals(stale.subarray(32 + 72 + 72 + 16, limit))).toBe(true);
    const directory = signed.subarray(limit + 20);
    const words = Array.from({ length: 9 }, (_, at) => directory.readUInt32BE(at * 4));
    // magic, length, version, flags, hashes, name, special slots, code slots, limit
    expect(words).toEqual([0xfade0c02, 88 + 7 + 4 * 32, 0x20400, 0x20002, 95, 88, 0, 4, limit]);
    expect([...directory.subarray(36, 40)]).toEqual([32, 2, 0, 12]);
    expect(directory.toString("latin1", 88, 95)).toBe("sluice\0");
    expect([64, 72, 80].map((at) => directory.readBigUInt64BE(at))).toEqual([0n, BigInt(PAGE), 1n]);
    const last = new Bun.CryptoHasher("sha256").update(signed.subarray(3 * PAGE, limit)).digest("hex");
    expect(directory.toString("hex", 95 + 3 * 32, 95 + 4 * 32)).toBe(last);
  });

  test("is for executables of macOS alone, and goes nowhere but to the end", () => {
    expect(() => signForMac(Buffer.from("\x7fELF and no more of it, but long enough"), "sluice")).toThrow(
      "not an executable",
    );
    expect(() => signForMac(Buffer.concat([stale, Buffer.alloc(4096)]), "sluice")).toThrow("not at the end");
    const bare = Buffer.from(stale);
    bare.writeUInt32LE(2, 16);
    expect(() => hasSoundSignature(bare)).toThrow("no place for a signature");
  });
});
