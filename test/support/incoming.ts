import { Incoming } from "../../src/http/server/incoming.ts";
import { parseRequestHead } from "../../src/http/server/request-head.ts";

const NO_LINE = { peer: undefined, pause() {}, resume() {}, sendContinue() {}, close() {} };

/** A request as our own server would make it, without a connection; its client leaves when the request's signal is aborted. */
export async function toIncoming(request: Request): Promise<Incoming> {
  const { host, pathname, search } = new URL(request.url);
  const body = await request.bytes();
  const fields = [...request.headers].filter(([name]) => name !== "host" && name !== "content-length");
  const lines = [["host", host], ...fields, ["content-length", String(body.length)]];
  const head = lines.map(([name, value]) => `\r\n${name}: ${value}`).join("");
  const incoming = new Incoming(parseRequestHead(`${request.method} ${pathname}${search} HTTP/1.1${head}`), NO_LINE);
  if (body.length > 0) incoming.take(body);
  request.signal.addEventListener("abort", () => incoming.leave(request.signal.reason), { once: true });
  return incoming;
}
