import { afterEach, beforeEach, expect, test } from "bun:test";
import { startApp, type TestApp } from "../support/app.ts";
import { describeAnswer } from "../support/describe-answer.ts";
import { type Listening, listen } from "../support/listening.ts";

let app: TestApp;
let listening: Listening;
beforeEach(async () => {
  app = await startApp();
  listening = listen(app);
});
afterEach(async () => {
  await listening.stop();
  await app.stop();
});

const ask = (path: string, init?: RequestInit) => fetch(`http://127.0.0.1:${listening.port}${path}`, init);

test("health over a socket is what the routes say of it", async () => {
  const wrongKey = { headers: { authorization: "Bearer sk-sluice-wrong" } };
  const key = { headers: { authorization: `Bearer ${app.key}` } };
  const cases: [string, RequestInit?][] = [
    ["/healthz"],
    ["/readyz"],
    ["/healthz?deep=1"],
    ["/readyz", key],
    ["/healthz", wrongKey],
    ["/healthz", { method: "HEAD" }],
    ["/readyz", { method: "POST", body: "{}" }],
    ["/healthz/"],
    ["/health"],
  ];
  for (const [path, init] of cases) {
    const own = await describeAnswer(await ask(path, init));
    expect({ path, ...own }).toEqual({ path, ...(await describeAnswer(await app.call(path, init))) });
  }
  expect((await ask("/healthz")).status).toBe(200);
  expect(await (await ask("/readyz")).json()).toEqual({ status: "ok" });
});

test("it is bounded by address as every page without a key is, and that of a key by its plan", async () => {
  const statuses = new Set<number>();
  let refused: Response | undefined;
  for (let count = 0; count < 5_000 && !refused; count++) {
    // Through somebody in between: this machine's own programs are not bounded.
    const response = await ask("/healthz", { headers: { via: "1.1 proxy" } });
    statuses.add(response.status);
    if (response.status === 429) refused = response;
  }
  expect([...statuses]).toEqual([200, 429]);
  expect(await refused?.json()).toMatchObject({ error: { code: "rate_limit_exceeded" } });
  expect(refused?.headers.get("retry-after")).toMatch(/^\d+$/);
  expect((await ask("/healthz", { headers: { authorization: `Bearer ${app.key}` } })).status).toBe(200);
});
