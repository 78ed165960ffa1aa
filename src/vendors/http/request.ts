/** Addresses that are remembered; a vendor has a few, one for each model at the most. */
const MAX_REMEMBERED = 1_000;
/** What may stand in a field's value (RFC 9110, 5.5); the rest would begin a field of its own, or be cut in two. */
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
/** Requests up to this size are written by way of the same piece of memory, bytes. */
const SCRATCH_BYTES = 64 * 1024;

/** Where requests go: one for all addresses of a scheme, a name and a port. */
export type Origin = { name: string; hostname: string; port: number; secure: boolean };

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

function readAddress(url: URL): Address | undefined {
  const { protocol, hostname, port, host, pathname, search, username, password } = url;
  if (username !== "" || password !== "") return undefined;
  const secure = protocol === "https:";
  const bare = hostname.replace(/^\[|\]$/g, "");
  const origin: Origin = { name: url.origin, hostname: bare, port: Number(port) || (secure ? 443 : 80), secure };
  return { origin, host, path: pathname + search };
}

/** Header fields as lines. Throws TypeError for a value that cannot be written, without repeating it. */
export function writeFields(fields: Readonly<Record<string, string>>): string {
  let lines = "";
  for (const name in fields) {
    const value = fields[name] as string;
    if (NO_VALUE.test(value)) throw new TypeError(`The header ${name} holds characters that a header cannot carry.`);
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/** The head of a POST up to its length, which {@link writeBytes} adds. `fields`: lines as {@link writeFields} makes them. */
export function writeHead({ host, path }: Address, fields: string): string {
  return `POST ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\naccept-encoding: identity\r\n${fields}`;
}

/** A request that is still to be sent: its head, see {@link writeHead}, and its body. */
export type Outgoing = { head: string; body: string };

const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

/** The bytes of a request. They hold until the next call: whoever cannot send them at once copies the rest. */
export function writeBytes({ head, body }: Outgoing): Uint8Array {
  const length = Buffer.byteLength(body);
  const whole = `${head}content-length: ${length}\r\n\r\n`;
  const size = whole.length + length;
  const bytes = size <= SCRATCH_BYTES ? scratch : Buffer.allocUnsafe(size);
  bytes.write(whole, 0, "latin1");
  bytes.write(body, whole.length, "utf8");
  return bytes.subarray(0, size);
}
