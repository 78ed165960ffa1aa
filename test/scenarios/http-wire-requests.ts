import { MODEL } from "./http-wire-lab.ts";

/** In a request `PORT` and `KEY` stand for those of the gateway that it is sent to. */
export const HOST = "Host: 127.0.0.1:PORT";
export const KEY = "Authorization: Bearer KEY";
export const JSON_TYPE = "Content-Type: application/json";
export const CHUNKED = "Transfer-Encoding: chunked";
export const CHAT = "POST /v1/chat/completions HTTP/1.1";
/** The last chunk, without trailers. */
export const LAST = "0\r\n\r\n";

/** The body of a generation that asks for `text`. */
export const bodyOf = (text: string, more: object = {}): string =>
  JSON.stringify({ model: MODEL, messages: [{ role: "user", content: text }], ...more });

/** A body that is ASCII, as one that declares its length. */
export const lengthOf = (body: string): string => `Content-Length: ${body.length}`;

/** One chunk; `more` stands behind its size. */
export const chunk = (text: string, more = ""): string => `${text.length.toString(16)}${more}\r\n${text}\r\n`;

/** The head of a request: these lines, whatever they are. */
export const lines = (...all: string[]): string => `${all.join("\r\n")}\r\n\r\n`;

/** A chat request whose framing is given, and the bytes behind its head. */
export const chat = (framing: readonly string[], sent: string, start = CHAT): string =>
  lines(start, HOST, KEY, JSON_TYPE, ...framing) + sent;

/** A chat request as it should be. */
export function sound(text: string, more: object = {}, ...extra: string[]): string {
  const body = bodyOf(text, more);
  return chat([lengthOf(body), ...extra], body);
}

/** A small request by which one sees whether a connection still serves. */
export const PROBE = lines("GET /healthz HTTP/1.1", HOST, KEY);
