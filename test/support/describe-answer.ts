import { expect } from "bun:test";

/** What is of the one answer alone. */
const OWN = new Set(["date", "content-length", "connection", "x-request-id", "request-id", "transfer-encoding"]);

/** What of an answer has to be the same, whoever gives it. */
export async function describeAnswer(response: Response) {
  const { headers, status } = response;
  const kept = [...headers].filter(([name]) => !OWN.has(name)).toSorted();
  const id = headers.get("x-request-id") ?? "";
  expect(id).toMatch(/^req_/);
  const body = (await response.text()).replaceAll(id, "req");
  return { status, headers: Object.fromEntries(kept), body };
}
