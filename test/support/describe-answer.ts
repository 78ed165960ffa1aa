import { expect } from "bun:test";

/** Headers that differ from answer to answer. */
const OWN = new Set(["date", "content-length", "connection", "x-request-id", "request-id", "transfer-encoding"]);

/** The parts of an answer that must be equal whichever server gives it; its request ID is replaced by `req`. */
export async function describeAnswer(response: Response) {
  const { headers, status } = response;
  const kept = [...headers].filter(([name]) => !OWN.has(name)).toSorted();
  const id = headers.get("x-request-id") ?? "";
  expect(id).toMatch(/^req_/);
  const body = (await response.text()).replaceAll(id, "req");
  return { status, headers: Object.fromEntries(kept), body };
}
