import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { givenExecutable } from "../support/binary.ts";
import { json } from "../support/upstream.ts";
import { type FaultLab, modelOf, startFaultLab } from "./fault-lab.ts";
import { FAULT_CASES, playFault } from "./fault-run.ts";
import { askAs, CLIENT_PATH, FAULT_WIRES, readErrorOf } from "./fault-wires.ts";
import { MODES } from "./wires.ts";

setDefaultTimeout(30_000);

let lab: FaultLab;
beforeAll(async () => {
  lab = await startFaultLab();
});
afterEach(() => lab.reset());
afterAll(async () => {
  const breaches = lab.gateway.app.book.verify();
  await lab.stop();
  expect(breaches).toEqual([]);
});

/** Waited for as long as this, a stream's head is sent before its answer. */
const LONG_WAIT = "retry-after 5:";
/** An executable really waits between two attempts: every seventh case, which meets every fault and every pair, is what there is time for. */
const CASES = givenExecutable()
  ? FAULT_CASES.filter(({ name }, at) => at % 7 === 0 && !name.includes(LONG_WAIT))
  : FAULT_CASES;

/** Reliability 8.3 and 6.2, each fault x client x streamed or not x one route or two. */
describe("the fault matrix", () => {
  test.each(CASES)("$name", (each) => playFault(lab, each));
});

describe("both routes fail", () => {
  test.each(MODES)("the second one's fault is told, and nothing is charged: %s", async (mode) => {
    const { chat } = FAULT_WIRES;
    lab.vendors.chat.answer(CLIENT_PATH.chat, json(chat.error("overloaded_error", "no"), { status: 529 }));
    lab.spare.answer(CLIENT_PATH.chat, json(chat.error("authentication_error", "no"), { status: 401 }));
    const before = lab.wallet();
    const response = await lab.gateway.post(CLIENT_PATH.chat, askAs("chat", modelOf("chat", 2), mode));
    expect([response.status, response.headers.get("x-should-retry")]).toEqual([502, "false"]);
    expect(readErrorOf("chat", await response.json()).code).toBe("upstream_auth");
    expect([lab.vendors.chat.calls.length, lab.spare.calls.length]).toEqual([1, 1]);
    expect(lab.wallet()).toEqual(before);
  });
});
