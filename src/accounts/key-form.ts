import type { KeyKind } from "../db/schema.ts";
import { fromBase62, randomBase62, toBase62 } from "../lib/id.ts";

/** How the keys of each kind begin (contract 4). */
const PREFIXES: Readonly<Record<KeyKind, string>> = { api: "sk-sluice-", admin: "sk-sluice-admin-", token: "slt-" };
const SECRET_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
/** Random characters of a key that are shown in lists; the other 28 keep 166 bits. */
const SHOWN_LENGTH = 4;

const FORM = /^(?:sk-sluice-|sk-sluice-admin-|slt-)[0-9A-Za-z]{32}[0-9A-Za-z]{6}$/;
const LONGEST = PREFIXES.admin.length + SECRET_LENGTH + CHECKSUM_LENGTH;

/** CRC32 of a key's text before its checksum, as six base62 characters: it shows every mistake in a single character. */
function checksum(text: string): string {
  return toBase62(Bun.hash.crc32(text), CHECKSUM_LENGTH);
}

/** A fresh key of a kind: prefix, 190 random bits, checksum (contract 4). It is shown once and never kept. */
export function makeKey(kind: KeyKind): string {
  const text = PREFIXES[kind] + randomBase62(SECRET_LENGTH);
  return text + checksum(text);
}

/**
 * The kind of a key when `text` has the form of one and the right checksum; undefined for anything else. The work is bounded whatever
 * the length of `text`, and nothing is looked up: junk is refused here (reliability 7.2).
 */
export function parseKey(text: string): KeyKind | undefined {
  if (text.length > LONGEST || !FORM.test(text)) return undefined;
  const end = text.length - CHECKSUM_LENGTH;
  if (Bun.hash.crc32(text.slice(0, end)) !== fromBase62(text, end)) return undefined;
  if (text.startsWith(PREFIXES.token)) return "token";
  return text.startsWith(PREFIXES.admin) ? "admin" : "api";
}

/**
 * SHA-256 of a key as 64 lower-case hex digits: all that is kept of it. No slow derivation: 190 random bits cannot be guessed
 * (reliability 7.2).
 */
export function hashKey(key: string): string {
  return Bun.SHA256.hash(key, "hex");
}

/** The beginning and the end of a key, by which people recognise it in lists. */
export function shownParts(key: string): { prefix: string; last4: string } {
  const secretAt = key.length - SECRET_LENGTH - CHECKSUM_LENGTH;
  return { prefix: key.slice(0, secretAt + SHOWN_LENGTH), last4: key.slice(-SHOWN_LENGTH) };
}
