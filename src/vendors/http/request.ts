import { writeMessage } from "../../lib/http1/fields.ts";
import { byteLength, type Text } from "../../lib/text-pieces.ts";

/** Most addresses that are remembered; with one more all are forgotten. A vendor has a few, one for each model at the most. */
const MAX_REMEMBERED = 1_000;

/** Where connections lead: all addresses of the same scheme, host and port have one. `name`: as a URL's origin. `hostname`: without brackets. */
export type Origin = { name: string; hostname: string; port: number; secure: boolean };

/** A URL taken apart: where to connect to, and what the request's head says of host and path. */
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

/** The head of a POST up to its length, which {@link writeBytes} adds. `fields`: lines as {@link writeFields} makes them. */
export function writeHead({ host, path }: Address, fields: string): string {
  return `POST ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\naccept-encoding: identity\r\n${fields}`;
}

/** A request that is still to be sent: its head, see {@link writeHead}, and its body. */
export type Outgoing = { head: string; body: Text };

/** The bytes of a request. They hold until the next call: whoever cannot send them at once copies the rest. */
export function writeBytes({ head, body }: Outgoing): Uint8Array {
  const length = byteLength(body);
  return writeMessage(`${head}content-length: ${length}\r\n\r\n`, body, length);
}
