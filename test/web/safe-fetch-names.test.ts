import { afterAll, beforeAll, expect, test } from "bun:test";
import { createSocket, type Socket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { resolveByDns, resolveBySystem } from "../../src/web/safe-fetch/names.ts";
import { within } from "../support/wait.ts";

const A = 1;
const AAAA = 28;
/** What the name server says of a name: its addresses of each kind, or nothing at all, perhaps of one kind only. */
const NAMES: Readonly<Record<string, { [A]?: string[] | "silence"; [AAAA]?: string[] | "silence" } | "silence">> = {
  both: { [A]: ["192.0.2.1", "192.0.2.2", "192.0.2.3"], [AAAA]: ["2001:db8::1"] },
  four: { [A]: ["192.0.2.4"] },
  six: { [AAAA]: ["2001:db8::6"] },
  none: {},
  "knows-no-six": { [A]: ["192.0.2.5"], [AAAA]: "silence" },
  "knows-no-four": { [A]: "silence", [AAAA]: ["2001:db8::5"] },
  dead: "silence",
};

let server: Socket;
let asked: string[] = [];

/** The bytes of an address in a record. */
const bytesOf = (address: string): number[] =>
  address.includes(":")
    ? [0x20, 0x01, 0x0d, 0xb8, ...Array<number>(11).fill(0), Number(address.at(-1))]
    : address.split(".").map(Number);

/** The answer to a question (RFC 1035, 4.1), or undefined for one that gets none. */
function answerTo(question: Buffer): Buffer | undefined {
  const labels: string[] = [];
  let at = 12;
  for (; question[at] !== 0; at += question[at]! + 1) {
    labels.push(question.toString("latin1", at + 1, at + 1 + question[at]!));
  }
  const kind = question.readUInt16BE(at + 1) as typeof A | typeof AAAA;
  asked.push(labels.join("."));
  const name = NAMES[labels.at(-2)!];
  if (name === "silence") return undefined;
  const addresses = name?.[kind] ?? [];
  if (addresses === "silence") return undefined;
  const records = addresses.flatMap((address) => {
    const bytes = bytesOf(address);
    return [0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, bytes.length, ...bytes];
  });
  const head = [0x81, 0x80, 0, 1, 0, addresses.length, 0, 0, 0, 0];
  return Buffer.from([...question.subarray(0, 2), ...head, ...question.subarray(12, at + 5), ...records]);
}

beforeAll(async () => {
  server = createSocket("udp4");
  server.on("message", (question, { port, address }) => {
    const answer = answerTo(question);
    if (answer) server.send(answer, port, address);
  });
  server.bind(0, "127.0.0.1");
  await once(server, "listening");
});
afterAll(() => server.close());

const resolve = (name: string) => resolveByDns([`127.0.0.1:${server.address().port}`])(name);

test.each([
  ["both", ["192.0.2.1", "2001:db8::1", "192.0.2.2", "192.0.2.3"]],
  ["four", ["192.0.2.4"]],
  ["six", ["2001:db8::6"]],
])("%s: every address of a name, the kinds in turn", async (name, addresses) => {
  expect(await resolve(`${name}.example`)).toEqual(addresses);
});

test.each([
  ["knows-no-six", ["192.0.2.5"]],
  ["knows-no-four", ["2001:db8::5"]],
])("%s: a server that says nothing of one kind keeps those of the other for a moment", async (name, addresses) => {
  expect(await within(resolve(`${name}.example`), "the addresses that are told")).toEqual(addresses);
});

test("a name without any is refused", async () => {
  await expect(resolve("none.example")).rejects.toThrow();
});

test("names whose servers are silent keep nobody else's from being found", async () => {
  asked = [];
  const count = 4 * availableParallelism();
  let ended = 0;
  for (let at = 0; at < count; at++) {
    resolve(`${at}.dead.example`)
      .catch(() => undefined)
      .finally(() => ended++);
  }
  // By the system, as a vendor's name is: in the threads that silent names would be waited for in.
  expect((await within(lookup("localhost"), "the system's resolver answered")).address).not.toBe("");
  expect(await within(resolve("four.example"), "another name was found")).toEqual(["192.0.2.4"]);
  expect([ended, new Set(asked.filter((name) => name.includes("dead"))).size]).toEqual([0, count]);
});

test("a name that the system knows by itself has the addresses that it has there", async () => {
  const found = await resolveBySystem("localhost");
  expect(found.length).toBeGreaterThan(0);
  for (const address of found) expect(["127.0.0.1", "::1"]).toContain(address);
});
