import { afterAll, afterEach, expect, test } from "bun:test";
import { registry } from "../../src/vendors/registry.ts";
import { startApp, type TestApp } from "../support/app.ts";
import { givenExecutable } from "../support/binary.ts";
import { chatReply, json, startUpstream } from "../support/upstream.ts";
import { until } from "../support/wait.ts";

const upstream = startUpstream();
const apps: TestApp[] = [];
afterEach(async () => {
  for (const app of apps.splice(0)) await app.stop();
  upstream.reset();
});
afterAll(() => upstream.close());

/** A gateway before an Ollama that lists one model. */
async function nearOllama(): Promise<TestApp> {
  const row = registry.find(({ id }) => id === "ollama");
  if (!row) throw new Error("the registry knows Ollama");
  const { local: _local, ...vendor } = row;
  upstream.always("/v1/models", json({ object: "list", data: [{ id: "Tiny:latest", object: "model" }] }));
  upstream.always("/v1/chat/completions", json(chatReply("ok")));
  const app = await startApp({ vendors: [{ ...vendor, baseUrl: `${upstream.url}/v1` }] });
  apps.push(app);
  if (!givenExecutable()) await app.app.discovery.askAll();
  await until(async () => (await (await app.call("/v1/models")).text()).includes("ollama/Tiny:latest"), "its model");
  return app;
}

const content = "Hi";
const turns = { messages: [{ role: "user", content }] };

test.each([
  ["/v1/chat/completions", turns],
  ["/v1/messages", { max_tokens: 9, ...turns }],
  ["/v1/responses", { input: content }],
])("%s takes a model of Ollama's by each name that Ollama takes", async (path, body) => {
  const app = await nearOllama();
  for (const [name, told] of [
    ["Tiny", "Tiny:latest"],
    ["tiny:latest", "Tiny:latest"],
    ["far:cloud", "far:cloud"],
    ["far:120b-cloud", "far:120b-cloud"],
  ]) {
    const reply = await app.post(path, { model: `ollama/${name}`, ...body });
    expect([reply.status, ((await reply.json()) as { model: string }).model]).toEqual([200, `ollama/${name}`]);
    expect(upstream.calls.at(-1)?.json).toMatchObject({ model: told });
  }
  const asked = upstream.calls.length;
  for (const name of ["Tiny:1b", "other", "cloud"])
    expect((await app.post(path, { model: `ollama/${name}`, ...body })).status).toBe(404);
  expect(upstream.calls.length).toBe(asked);
});
