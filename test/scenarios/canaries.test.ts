import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exportPKCS8, generateKeyPair } from "jose";
import { serve, sluice } from "../cli/support.ts";
import { makeFolder, type RunningBinary, removeFolder } from "../support/binary.ts";
import { holdsSecrets, LeakNet } from "../support/leaks.ts";
import { until } from "../support/wait.ts";

// One of every kind of secret, a world that shows each of them back in every way it can, and everything that is written looked through
// (reliability 7.4, 8.1 G18). In everyday use the secrets of all other tests are looked for as well: test/support/leaks.ts.

setDefaultTimeout(60_000);

const canary = (name: string) => `canary-${name}-${Bun.hash(`canary ${name}`).toString(36)}`;
const SECRET = {
  firstKey: canary("first-key"),
  secondKey: canary("second-key"),
  messagesKey: canary("messages-key"),
  geminiKey: canary("gemini-key"),
  password: canary("basic-password"),
  header: canary("vendor-header"),
  afterScheme: canary("key-after-a-scheme"),
  signing: canary("signing-secret"),
  session: canary("session-token"),
  access: `ya29.${canary("access-token")}`,
  search: canary("search-key"),
  bucket: canary("bucket-secret"),
  traces: canary("traces-header"),
  proxy: canary("proxy-password"),
  presented: canary("presented-key"),
  queried: canary("queried-key"),
  visited: canary("visited-password"),
  prompt: `${canary("prompt")} says a person to their model`,
} as const;
/** Told to this machine's own programs, and written into configuration that the test makes. */
const named = new Map(Object.entries(SECRET).map(([name, value]) => [value, name]));
/** What only its own caller may see again. */
const OF_THE_CALLER = [SECRET.prompt, SECRET.presented, SECRET.queried, SECRET.visited];
const ofOthers = new Map([...named].filter(([value]) => !(OF_THE_CALLER as string[]).includes(value)));

const net = new LeakNet();
let folder: string;
let world: ReturnType<typeof startWorld>;
let gateway: RunningBinary;
let admin: string;
let token: string;

/** A server that is every vendor, engine, bucket, collector and proxy at once, and shows whatever it is sent back to the sender. */
function startWorld() {
  const traces: string[] = [];
  const asked: string[] = [];
  const bucket = { keeps: false };
  let answers = 0;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const { pathname } = new URL(request.url);
      const body = await request.text();
      if (pathname === "/token") return Response.json({ access_token: SECRET.access, expires_in: 3600 });
      if (pathname === "/v1/traces") traces.push(body);
      if (bucket.keeps && request.method === "PUT") return new Response(null, { headers: { etag: '"1"' } });
      // A vendor that refuses a key names it without the word that stands before it in the header.
      const bare = request.headers.get("authorization")?.split(" ").at(-1) ?? "";
      const seen = bare + JSON.stringify([...request.headers]).replaceAll('"', "'");
      asked.push(seen);
      return showBack(answers++, `${request.url} ${seen} ${body.slice(0, 300)}`, pathname);
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, host: `127.0.0.1:${server.port}`, traces, asked, bucket, server };
}

const STATUSES = [400, 401, 402, 403, 404, 413, 422, 429, 500, 502, 503, 529];

function showBack(count: number, seen: string, pathname: string): Response {
  const error = { message: `you sent ${seen}`, type: seen.slice(0, 200), code: seen.slice(0, 50), param: seen };
  const sse = { "content-type": "text/event-stream" };
  const kinds: (() => Response)[] = [
    ...STATUSES.map((status) => () => Response.json({ error }, { status })),
    () => Response.json({ type: "error", error }, { status: 400 }),
    () => new Response(`<html><body>${seen}</body></html>`, { status: 502, headers: { "content-type": "text/html" } }),
    () => new Response(seen, { headers: { "content-type": "application/json" } }),
    () =>
      new Response(null, {
        status: 302,
        headers: { location: `http://elsewhere.invalid/?${encodeURIComponent(seen)}` },
      }),
    () =>
      Response.json(
        { error },
        { status: 401, headers: { "www-authenticate": `Bearer realm="${encodeURIComponent(seen)}"` } },
      ),
    () => Response.json({ error }),
    () => new Response(`data: ${JSON.stringify({ error })}\n\n`, { headers: sse }),
    () => new Response(`event: error\ndata: ${JSON.stringify({ type: "error", error })}\n\n`, { headers: sse }),
    () => new Response(`data: ${seen}\n\n`, { headers: sse }),
    () => Response.json({ data: [{ url: `http://elsewhere.invalid/${encodeURIComponent(seen)}` }] }),
  ];
  return pathname === "/v1/traces" && count % 2 === 0
    ? new Response(seen, { status: 400 })
    : (kinds[count % kinds.length] as () => Response)();
}

const HEADERS = { "x-secret": SECRET.header, authorization: `Key ${SECRET.afterScheme}` };

function configure(): unknown {
  const { url } = world;
  const vendors = [
    { id: "c", dialect: "chat", base_url: `${url}/v1`, api_keys: [SECRET.firstKey, SECRET.secondKey] },
    { id: "m", dialect: "messages", base_url: url, auth: "x-api-key", api_key: SECRET.messagesKey },
    { id: "g", dialect: "gemini", base_url: `${url}/v1beta`, auth: "x-goog-api-key", api_key: SECRET.geminiKey },
    { id: "b", dialect: "chat", base_url: `${url}/v1`, auth: "basic", api_key: `user:${SECRET.password}` },
    { id: "h", dialect: "responses", base_url: `${url}/v1`, auth: "none", headers: HEADERS },
    { id: "p", dialect: "chat", base_url: "http://api.vendor.invalid/v1", auth: "none" },
    { id: "bedrock", base_url: url },
    { id: "vertex", base_url: `${url}/v1/publishers/google` },
    { id: "vertex-anthropic", base_url: `${url}/v1/publishers/anthropic` },
  ].map((vendor) => ({ ...vendor, models: "any" }));
  const storage = { bucket: "b", endpoint: url, access_key_id: "id", secret_access_key: SECRET.bucket };
  return {
    vendors,
    local_discovery: false,
    images: { storage },
    web: { search: { engine: "brave", engines: { brave: { api_key: SECRET.search, base_url: url } } } },
    telemetry: { otlp_endpoint: url, headers: { "x-token": SECRET.traces } },
  };
}

const ENVIRONMENT = () => ({
  SLUICE_LOG_LEVEL: "info",
  SLUICE_USE_ENV_PROXY: "1",
  HTTP_PROXY: `http://user:${SECRET.proxy}@${world.host}`,
  AWS_ACCESS_KEY_ID: "AKIDEXAMPLE",
  AWS_SECRET_ACCESS_KEY: SECRET.signing,
  AWS_SESSION_TOKEN: SECRET.session,
  AWS_REGION: "us-east-1",
  GOOGLE_CLOUD_PROJECT: "p",
  GOOGLE_APPLICATION_CREDENTIALS: join(folder, "account.json"),
});

async function writeAccount(): Promise<void> {
  const { privateKey } = await generateKeyPair("RS256", { extractable: true });
  const pem = await exportPKCS8(privateKey);
  named.set(pem.split("\n")[3] as string, "privateKey");
  ofOthers.set(pem.split("\n")[3] as string, "privateKey");
  const account = {
    type: "service_account",
    client_email: "robot@project.iam.example",
    private_key_id: "key-1",
    private_key: pem,
    token_uri: `${world.url}/token`,
  };
  writeFileSync(join(folder, "account.json"), JSON.stringify(account), { mode: 0o600 });
}

/** What a command prints, looked through; keys of callers are shown to who has just made them. */
async function run(args: string[], keys = true): Promise<string> {
  const { stdout, stderr } = await sluice(folder, args, ENVIRONMENT());
  net.look(stdout, `${args[0]} printed`, named, keys);
  net.look(stderr, `${args[0]} complained`, named);
  return stdout;
}

beforeAll(async () => {
  folder = makeFolder();
  world = startWorld();
  mkdirSync(join(folder, "data"), { mode: 0o700 });
  writeFileSync(join(folder, "data", "sluice.json"), JSON.stringify(configure()), { mode: 0o600 });
  await writeAccount();
  gateway = await serve(folder, ["--port", "0"], ENVIRONMENT());
  const made = async (args: string[]) => (JSON.parse(await run(args, false)) as { key: string }).key;
  admin = await made(["keys", "create", "--admin", "--name", "a", "--json"]);
  token = await made(["tokens", "create", "--name", "t", "--json"]);
});
afterAll(async () => {
  await world.server.stop(true);
  removeFolder(folder);
});

/** Asks the gateway, and looks through the answer: whole, for every secret but the caller's own words. */
async function ask(path: string, body?: unknown, more: Record<string, string> = {}): Promise<number> {
  const response = await fetch(`${gateway.url}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json", ...more },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    redirect: "manual",
  });
  const where = `the answer of ${path.split("?")[0]} (${response.status})`;
  net.look(JSON.stringify([...response.headers]), `a header of ${where}`, named);
  net.look(await response.text(), where, ofOthers);
  return response.status;
}

const messages = [{ role: "user", content: SECRET.prompt }];
const VENDORS = ["c", "m", "g", "b", "h", "p", "bedrock", "vertex", "vertex-anthropic"];

async function generateEverywhere(): Promise<number> {
  let refused = 0;
  const count = async (asked: Promise<number>) => void ((await asked) >= 400 && refused++);
  // Together: each waits a while before a vendor is asked again.
  const asked = VENDORS.flatMap((vendor, at) =>
    [0, 1, 2].flatMap((round) => {
      const model = `${vendor}/m${round}`;
      const stream = (round + at) % 2 === 0;
      return [
        count(ask("/v1/chat/completions", { model, messages, stream })),
        count(ask("/v1/messages", { model, messages, stream, max_tokens: 50 }, { "idempotency-key": `${model}-1` })),
        count(ask("/v1/responses", { model, input: SECRET.prompt, stream })),
        count(ask("/v1/messages/count_tokens", { model, messages })),
        count(ask("/v1/debug/translate", { dialect: "chat", body: { model, messages } })),
      ];
    }),
  );
  await Promise.all(asked);
  return refused;
}

/** Has an image drawn that the bucket keeps; the signed address that its caller is given. */
async function drawIntoBucket(): Promise<string> {
  world.bucket.keeps = true;
  const response = await fetch(`${gateway.url}/v1/images/generations`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json", prefer: "wait=20" },
    body: JSON.stringify({ model: "sluice/sketch", prompt: "a fox", size: "64x64" }),
  });
  const text = await response.text();
  world.bucket.keeps = false;
  net.look(text, "the address of an image", named);
  return text;
}

test("a world that shows every secret back: none of them is in an answer, a log, a file, a trace or a figure", async () => {
  expect(await generateEverywhere()).toBeGreaterThan(50);
  const rounds = [0, 1, 2, 3].flatMap((round) => {
    const query = { query: `${SECRET.prompt} ${round}`.slice(0, 300) };
    const call = { name: "web_search", arguments: query };
    const picture = { model: "sluice/sketch", prompt: SECRET.prompt, size: "64x64" };
    return [
      ask("/v1/web/search", query),
      ask("/mcp/web", { jsonrpc: "2.0", id: 1, method: "tools/call", params: call }),
      ask("/v1/images/generations", picture, { prefer: "wait=1" }),
    ];
  });
  await Promise.all(rounds);
  expect(await drawIntoBucket()).toContain("X-Amz-Signature=");
  const urls = [`http://user:${SECRET.visited}@${world.host}/`, `http://${world.host}/?token=${SECRET.visited}`];
  await ask("/v1/web/fetch", { urls });
  for (const presented of [SECRET.presented, token, admin, `${gateway.key.slice(0, -1)}!`]) {
    await ask("/v1/models", undefined, { "x-api-key": presented, authorization: "" });
    await ask("/v1/account", undefined, { authorization: `Bearer ${presented}` });
    await ask("/v1/chat/completions", { model: "c/m", messages }, { "x-api-key": presented });
  }
  await ask(`/v1/account?key=${SECRET.queried}&api_key=${SECRET.queried}`);
  await ask(`/mcp/web/t/${token}`, { jsonrpc: "2.0", id: 1, method: "tools/list" }, { authorization: "" });
  await ask(`/mcp/web/t/${token}x`, { jsonrpc: "2.0", id: 1, method: "ping" }, { authorization: "" });
  const asAdmin = { authorization: `Bearer ${admin}` };
  for (const path of ["vendors?probe=true", "vendors", "keys", "tokens", "accounts", "usage"]) {
    await ask(`/admin/v1/${path}`, undefined, asAdmin);
  }
  for (const path of [
    "/metrics",
    "/openapi/json",
    "/v1/usage",
    "/v1/account",
    "/v1/models?modality=all",
    "/healthz",
    "/",
  ]) {
    await ask(path, undefined, path === "/metrics" ? asAdmin : {});
  }
  await until(() => world.traces.length > 0, "traces", 20_000);
  // What a vendor shows back differs from call to call.
  await Promise.all([run(["doctor"]), run(["doctor"])]);
  for (const args of [["doctor"], ["logs"], ["logs", "--json"], ["usage"], ["models"], ["openapi"], ["keys", "list"]]) {
    await run(args);
  }
  expect(await gateway.stop()).toBe(0);
  net.look(gateway.stderr, "the log", named);
  net.look(gateway.lines.join("\n"), "standard output", named, false);
  net.look(world.traces.join("\n"), "the traces", named);
  for (const span of [
    "chat",
    "image_generation sluice/sketch",
    "execute_tool web_fetch",
    "tools/call",
    "count_tokens",
  ]) {
    expect(world.traces.join("\n")).toContain(`"name":"${span}`);
  }
  net.lookInFolder(join(folder, "data"), ofOthers, holdsSecrets);
  // Prompts of image jobs and of kept answers are where they must be: in the store, for as long as they can be asked for.
  for (const name of readdirSync(join(folder, "data", "requests"))) {
    net.look(await Bun.file(join(folder, "data", "requests", name)).text(), `the request log ${name}`, named);
  }
  expect(net.leaks).toEqual([]);
  expect(net.seen.texts).toBeGreaterThan(300);
  // The world has seen them: what it showed back was worth hiding.
  const shown = world.asked.join("\n");
  const sent = [SECRET.firstKey, SECRET.secondKey, SECRET.messagesKey, SECRET.geminiKey, SECRET.header, SECRET.search];
  for (const secret of [...sent, SECRET.afterScheme, SECRET.session, SECRET.access, SECRET.traces])
    expect(shown).toContain(secret);
  expect(shown).toContain(Buffer.from(`user:${SECRET.password}`).toString("base64"));
  expect(shown).toContain(Buffer.from(`user:${SECRET.proxy}`).toString("base64"));
});
