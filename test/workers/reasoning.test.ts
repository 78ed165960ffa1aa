import { afterEach, expect, test } from "bun:test";
import { join } from "node:path";
import { silentLog } from "../../src/observe/log.ts";
import type { Link } from "../../src/workers/link.ts";
import { RemoteReasoning } from "../../src/workers/remote-reasoning.ts";
import { temporaryFolders } from "../db/temp-folder.ts";
import { Client, type Lab, startLab } from "../relay/reasoning-lab.ts";
import { THOUGHTS } from "../relay/reasoning-vendors.ts";
import { settle } from "../support/clock.ts";
import { gate } from "../support/wait.ts";
import { type Pair, startPair } from "./pair.ts";

const folders = temporaryFolders();
let lab: Lab;
const pairs: Pair[] = [];

afterEach(async () => {
  for (const { worker } of pairs.splice(0)) await worker.close();
  await lab.stop();
});

/** The lab, each of whose requests goes to another process than the one before: the first worker, the second, the gateway itself. */
async function startTurning(): Promise<Lab> {
  const folder = folders();
  lab = await startLab(folder);
  const path = join(folder, "sluice.db");
  const first = startPair(lab.app, path, lab.clock);
  const second = startPair(lab.app, path, lab.clock, [first]);
  pairs.push(first, second);
  const { post } = lab;
  let turn = 0;
  const through = (pair: Pair) => (to: string, body: unknown, key: string) =>
    pair.call(to, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
    });
  const ways = [through(first), through(second), post];
  return {
    ...lab,
    app: lab.app,
    store: lab.store,
    post: (to, body, key = lab.keys.own) => ways[turn++ % 3]!(to, body, key),
  };
}

test.each([
  ["chat", "whole", "lab/claude-budget", "anthropic"],
  ["chat", "stream", "lab/gemini", "google"],
  ["chat", "stream", "lab/gpt", "openai"],
  ["chat", "whole", "lab/deepseek", "deepseek"],
  ["messages", "stream", "lab/kimi", "kimi"],
  ["messages", "stream", "lab/router-gemini", "router"],
  ["responses", "whole", "lab/claude-budget", "anthropic"],
] as const)(
  "a %s client's loop, %s, of %s, each turn at another process: nothing refused, nothing lost",
  async (dialect, mode, model, name) => {
    const turning = await startTurning();
    const heard = await new Client(turning, dialect, model, mode).loop();
    const vendor = turning.vendors[name];
    expect(vendor.refusals).toEqual([]);
    expect(heard.map(({ status, error }) => [status, error])).toEqual(Array(4).fill([200, ""]));
    expect(vendor.returned()).toEqual(dialect === "chat" ? THOUGHTS : THOUGHTS.slice(0, 2));
  },
);

test("a process that found nothing kept for an account asks anew: another one may have kept something since", async () => {
  const turning = await startTurning();
  const called = { id: "call_1", type: "function", function: { name: "get_weather", arguments: "{}" } };
  const messages = [
    { role: "user", content: "What is the weather?" },
    { role: "assistant", content: null, tool_calls: [called] },
    { role: "tool", tool_call_id: "call_1", content: "Rain." },
  ];
  // Said elsewhere, before this account had anything here: at each of the three processes.
  for (let at = 0; at < 3; at++) {
    const asked = { model: "lab/claude-budget", messages, reasoning_effort: "low" };
    expect((await turning.post("/v1/chat/completions", asked, turning.keys.own)).status).toBe(200);
  }
  await new Client(turning, "chat", "lab/claude-budget", "whole").loop();
  expect(turning.vendors.anthropic.refusals).toEqual([]);
  expect(turning.vendors.anthropic.returned()).toEqual(THOUGHTS);
});

test("what a worker has kept by the gateway is kept when it goes on: the next turn may come to another process at once", async () => {
  lab = await startLab(folders());
  const written = gate();
  const link = { call: () => written.opened } as unknown as Link;
  const shelf = new RemoteReasoning(join(lab.folder, "sluice.db"), link, lab.clock, silentLog);
  let isKept = false;
  const kept = shelf.put("acct_1", ["key"], []).then(() => {
    isKept = true;
  });
  await settle(2);
  expect(isKept).toBe(false);
  written.open();
  await kept;
  expect(isKept).toBe(true);
});

test("a worker that is started later knows who made the thinking that an earlier one brought", async () => {
  lab = await startLab(folders());
  const ask = async (model: string, messages: unknown[]) => {
    const pair = startPair(lab.app, join(lab.folder, "sluice.db"), lab.clock);
    pairs.push(pair);
    const thinking = { type: "enabled", budget_tokens: 2000 };
    const response = await pair.call("/v1/messages", {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${lab.keys.own}` },
      body: JSON.stringify({ model, max_tokens: 50_000, messages, thinking }),
    });
    expect(response.status).toBe(200);
    return (await response.json()) as { content: { type: string; id?: string }[] };
  };
  const question = { role: "user", content: "What is the weather?" };
  const { content } = await ask("lab/claude-budget", [question]);
  const results = content.flatMap(({ type, id }) =>
    type === "tool_use" ? [{ type: "tool_result", tool_use_id: id, content: "Rain." }] : [],
  );
  expect(content[0]).toMatchObject({ type: "thinking" });
  const messages = [question, { role: "assistant", content }, { role: "user", content: results }];
  await ask("lab/claude-budget-2", messages);
  expect(lab.vendors.anthropic.refusals).toEqual([]);
  expect(JSON.stringify(lab.vendors.anthropic.bodies.at(-1))).not.toContain("signature");
});
