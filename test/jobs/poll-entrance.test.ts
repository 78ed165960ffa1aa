import { afterEach, beforeEach, expect, test } from "bun:test";
import { PLAIN_CONFIG } from "../support/app.ts";
import { manualClock } from "../support/clock.ts";
import { describeAnswer } from "../support/describe-answer.ts";
import { type Listening, listen } from "../support/listening.ts";
import { hang, IMAGE, type ImageLab, Painter, startImageLab } from "./lab.ts";

const PAGE = "https://chat.example.com";
const PATH = "/v1/images/generations";

let lab: ImageLab;
let listening: Listening;
let painter: Painter;
beforeEach(async () => {
  painter = new Painter();
  // In its own time nothing moves on between two looks.
  const server = { ...PLAIN_CONFIG.server, corsOrigins: [PAGE] };
  lab = await startImageLab({ painter, clock: manualClock(), server });
  listening = listen(lab.gateway);
});
afterEach(async () => {
  await listening.stop();
  await lab.stop();
});

type Init = Omit<RequestInit, "headers"> & { headers?: Record<string, string> };

const authorized = (key = lab.gateway.key) => ({ authorization: `Bearer ${key}` });
/** Over a socket, by the name that the routes are asked by. */
const ask = (path: string, { headers, ...init }: Init = {}) =>
  fetch(`http://127.0.0.1:${listening.port}${path}`, { ...init, headers: { host: "localhost", ...headers } });

/** Jobs in each of the states that callers see. */
async function makeJobs(): Promise<Record<string, string>> {
  painter.create_ = [
    IMAGE,
    { kind: "failed", message: "The paint has run out.", ran: "maybe" },
    { kind: "blocked", message: "Not that." },
    hang().script,
  ];
  const ids: Record<string, string> = {};
  for (const state of ["succeeded", "failed", "blocked"]) {
    const { id } = await lab.create();
    expect((await lab.ended(id)).status).toBe(state);
    ids[state] = id;
  }
  ids["processing"] = (await lab.create()).id;
  return ids;
}

test("a job that is looked at over a socket is what the routes say of it", async () => {
  const ids = await makeJobs();
  const other = await lab.account("other");
  const { keys } = lab.gateway.app;
  const { accountId } = lab.gateway;
  const narrow = (endpoints: readonly ("images" | "images:read" | "chat")[]) =>
    keys.create({ accountId, name: "narrow", kind: "api", endpoints: [...endpoints] });
  const [reads, chats] = [await narrow(["images:read"]), await narrow(["chat"])];
  const nobodys = "019ad3c0-0000-7000-8000-000000000000";
  const { processing, succeeded } = ids;
  const cases: [string, Init?][] = [
    ...Object.values(ids).map((id) => [`/${id}`, { headers: authorized() }] as [string, Init]),
    [`/${processing}?deep=1`, { headers: authorized() }],
    [`/${processing}`, { headers: { "x-api-key": lab.gateway.key } }],
    [`/${processing}`, { headers: { ...authorized(), origin: PAGE } }],
    [`/${processing}`, { headers: { ...authorized(), origin: "https://evil.example" } }],
    [`/${processing}`, { headers: authorized(other.key) }],
    [`/${processing}`, { headers: authorized(reads.key) }],
    [`/${processing}`, { headers: authorized(chats.key) }],
    [`/${processing}`, { headers: authorized("sk-sluice-wrong") }],
    [`/${processing}`],
    [`/${succeeded}`, { headers: { ...authorized(), prefer: "wait=5" } }],
    [`/${succeeded}`, { method: "HEAD", headers: authorized() }],
    [`/${succeeded}`, { method: "DELETE", headers: authorized() }],
    [`/${succeeded}`, { method: "POST", headers: authorized(), body: "{}" }],
    [`/${nobodys}`, { headers: authorized() }],
    [`/${nobodys.toUpperCase()}`, { headers: authorized() }],
    [`/${succeeded}/`, { headers: authorized() }],
    ["/nothing", { headers: authorized() }],
  ];
  for (const [path, init] of cases) {
    const own = await describeAnswer(await ask(PATH + path, init));
    expect({ path, ...own }).toEqual({ path, ...(await describeAnswer(await lab.gateway.call(PATH + path, init))) });
  }
  const shown = await ask(`${PATH}/${processing}`, { headers: { ...authorized(), origin: PAGE } });
  expect(shown.headers.get("access-control-allow-origin")).toBe(PAGE);
  expect(shown.headers.get("retry-after")).toBe("2");
  expect(await shown.json()).toMatchObject({ id: processing, object: "image.generation.job", status: "processing" });
});

test("it counts against the plan as it does there, and is refused in the same words", async () => {
  const { id } = await lab.create();
  lab.join("free");
  const looks = [ask, lab.gateway.call.bind(lab.gateway)];
  const remaining: number[] = [];
  const refused: Awaited<ReturnType<typeof describeAnswer>>[] = [];
  for (let at = 0; refused.length < 2 && at < 1_000; at++) {
    const response = await looks[at % 2]!(`${PATH}/${id}`, { headers: authorized() });
    if (response.status === 429) refused.push(await describeAnswer(response));
    else remaining.push(Number(response.headers.get("x-ratelimit-remaining-requests")));
  }
  expect(remaining.length).toBeGreaterThan(1);
  expect(remaining).toEqual(remaining.map((_, at) => (remaining[0] ?? 0) - at));
  expect(refused[0]).toEqual(refused[1]!);
  expect(refused[0]?.headers["retry-after"]).toMatch(/^\d+$/);
  expect(JSON.parse(refused[0]?.body ?? "")).toMatchObject({ error: { code: "rate_limit_exceeded" } });
});
