import type { Origin } from "./connection.ts";

/** Addresses that are remembered; a vendor has a few, one for each model at the most. */
const MAX_REMEMBERED = 1_000;
/** What may stand in a field's value (RFC 9110, 5.5); the rest would begin a field of its own, or be cut in two. */
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

/** A URL taken apart: whom to connect to, and what the request says. */
export type Address = { origin: Origin; host: string; path: string };

const remembered = new Map<string, Address | undefined>();

/** An http or https URL, taken apart once; undefined for one with a name and password in it. The URL must be valid. */
export function addressOf(url: string): Address | undefined {
  if (remembered.has(url)) return remembered.get(url);
  if (remembered.size >= MAX_REMEMBERED) remembered.clear();
  const address = readAddress(new URL(url));
  remembered.set(url, address);
  return address;
}

function readAddress({ protocol, hostname, port, host, pathname, search, username, password, origin }: URL) {
  if (username !== "" || password !== "") return undefined;
  const secure = protocol === "https:";
  const bare = hostname.replace(/^\[|\]$/g, "");
  const own: Origin = { name: origin, hostname: bare, port: Number(port) || (secure ? 443 : 80), secure };
  return { origin: own, host, path: pathname + search };
}

/** A POST request, ready to be sent. Throws TypeError for a header value that cannot be written, without repeating it. */
export function writePost(
  { host, path }: Address,
  headers: Readonly<Record<string, string>>,
  body: string,
): Uint8Array {
  let head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\n`;
  for (const name in headers) {
    const value = headers[name] as string;
    if (NO_VALUE.test(value)) throw new TypeError(`The header ${name} holds characters that a header cannot carry.`);
    head += `${name}: ${value}\r\n`;
  }
  const length = Buffer.byteLength(body);
  head += `content-length: ${length}\r\n\r\n`;
  const bytes = Buffer.allocUnsafe(head.length + length);
  bytes.write(head, 0, "latin1");
  bytes.write(body, head.length, "utf8");
  return bytes;
}
