import { expect, test } from "bun:test";
import { Abort } from "../../src/lib/abort.ts";
import { Call } from "../../src/vendors/http/call.ts";

/** What a connection is told when these bytes come on it for one call: whether another request may follow. */
function endOf(wire: string): boolean[] {
  const ends: boolean[] = [];
  const call = new Call("", "", new Abort(), { accept: (answer) => answer, explain: (thrown) => thrown });
  void call.answered();
  call.attach({ pause() {}, resume() {}, abandon() {}, ended: (clean) => ends.push(clean) });
  call.take(Buffer.from(wire));
  return ends;
}

test.each([
  ["HTTP/1.1 204 No Content\r\n\r\n", [true]],
  ["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", [true]],
  ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab", [true]],
  ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", [true]],
  // What comes behind an answer was not asked for: the next request's answer must not be read from there.
  ["HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n", [false]],
  ["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nx", [false]],
  ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nabc", [false]],
  ["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nx", [false]],
  ["HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", [false]],
  ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\na", []],
] as [string, boolean[]][])("%p is told once, and clean only without a byte too many", (wire, told) => {
  expect(endOf(wire)).toEqual(told);
});
