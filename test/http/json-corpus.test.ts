import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { GENERATION_PATH as paths, startApp, vendorAt } from "../support/app.ts";
import { json, startUpstream } from "../support/upstream.ts";
import { countWork } from "../support/wait.ts";
import { BOMBS, CORPUS, type CorpusCase } from "./json-corpus.ts";
import { type FuzzLab, startFuzzLab } from "./openapi-fuzz-lab.ts";
import { operationsOf } from "./openapi-operations.ts";

// Its world has to start first, and each test sends thousands of requests.
setDefaultTimeout(60_000);

/** None of these may keep the loop longer, ms: some 50 are aimed at, on a machine that does nothing else (reliability 8.1, G14). */
const MOST_MS = 1_000;

let lab: FuzzLab;
const made = { account: "", key: "" };
beforeAll(async () => {
  lab = await startFuzzLab();
  const make = async (path: string, body: object) => {
    const response = await send(`/admin/v1/${path}`, JSON.stringify(body));
    return String((JSON.parse(response.text) as { id: string }).id);
  };
  made.account = await make("accounts", { name: "corpus", plan: "power" });
  made.key = await make("keys", { account: "corpus", name: "corpus" });
});
afterAll(() => lab.stop());

async function send(path: string, body: string | Uint8Array) {
  const key = path.startsWith("/admin/") ? lab.keys.admin : lab.keys.user;
  const work = countWork();
  const response = await lab.gateway.call(path, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: body as Uint8Array<ArrayBuffer> | string,
  });
  const text = await response.text();
  return { status: response.status, text, tookMs: work() };
}

const TURNS = [{ role: "user", content: "Hi" }];
let names = 0;
/** For each POST of the document a body that it takes, another one each time where it must be. */
const BODIES: Readonly<Record<string, () => object>> = {
  "/v1/chat/completions": () => ({ model: "sluice/echo", messages: TURNS }),
  "/v1/messages": () => ({ model: "sluice/echo", max_tokens: 9, messages: TURNS }),
  "/v1/messages/count_tokens": () => ({ model: "sluice/echo", messages: TURNS }),
  "/v1/responses": () => ({ model: "sluice/echo", input: "Hi" }),
  "/v1/responses/input_tokens": () => ({ model: "sluice/echo", input: "Hi" }),
  "/v1/debug/translate": () => ({ dialect: "chat", body: { model: "lab/messages", messages: TURNS } }),
  "/v1/images/generations": () => ({ model: "openai/gpt-image-1.5", prompt: "a fox" }),
  "/mcp/web": () => ({ jsonrpc: "2.0", id: 1, method: "ping" }),
  "/v1/web/search": () => ({ query: "news" }),
  "/v1/web/fetch": () => ({ urls: [`${lab.page}/page`] }),
  "/admin/v1/accounts": () => ({ name: `corpus ${names++}`, plan: "pro" }),
  "/admin/v1/accounts/{account}/plan": () => ({ plan: "pro" }),
  "/admin/v1/accounts/{account}/deposits": () => ({ amount_usd: "1", reference: `d${names++}` }),
  "/admin/v1/accounts/{account}/promotions": () => ({ amount_usd: "1", reference: `p${names++}` }),
  "/admin/v1/accounts/{account}/corrections": () => ({ amount_usd: "-0.001", reference: `c${names++}` }),
  "/admin/v1/keys": () => ({ account: "corpus", name: "k" }),
  "/admin/v1/keys/{key}": () => ({ name: "k" }),
  "/admin/v1/tokens": () => ({ account: "corpus", name: "t" }),
};

const pathOf = (path: string) => path.replace("{account}", made.account).replace("{key}", made.key);

/** Bodies of limits take no field that they do not know: one that is misspelled would be none. */
const CLOSED: ReadonlySet<string> = new Set(["/admin/v1/keys", "/admin/v1/keys/{key}", "/admin/v1/tokens"]);

/** A good body with one field more, whose value is the case as it stands. */
function withField(body: object, { bytes }: Pick<CorpusCase, "bytes">): Uint8Array {
  const encode = (text: string) => new TextEncoder().encode(text);
  return Buffer.concat([encode(`${JSON.stringify(body).slice(0, -1)},"x":`), bytes, encode("}")]);
}

/** What JSON itself is found wrong with, in whichever form the endpoint says so. */
const REFUSED =
  /not valid JSON|not valid UTF-8|cut off|is empty|JSON object|JSON-RPC message|Batches|nested deeper|too large|__proto__/;

test("every POST of the document has its body here", () => {
  const posts = operationsOf(lab.document).flatMap(({ method, path }) => (method === "POST" ? [path] : []));
  expect(Object.keys(BODIES).sort()).toEqual([...posts].sort());
});

test("the corpus is what it says: JSON for who goes by the book", () => {
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const isJson = ({ bytes }: CorpusCase) => {
    try {
      JSON.parse(strict.decode(bytes));
      return true;
    } catch {
      return false;
    }
  };
  const wrong = CORPUS.filter((each) => each.kind !== "either" && isJson(each) !== (each.kind === "yes"));
  expect(wrong.map(({ name }) => name)).toEqual([]);
  expect(CORPUS.length).toBeGreaterThanOrEqual(150);
  expect(new Set(CORPUS.map(({ kind, name }) => `${kind} ${name}`)).size).toBe(CORPUS.length);
});

test("as the body of every POST: what is no JSON is refused, what is one is read, and nothing is a fault of the server", async () => {
  const faults: string[] = [];
  for (const [path, body] of Object.entries(BODIES)) {
    const good = (await send(pathOf(path), JSON.stringify(body()))).status;
    if (good >= 300) faults.push(`${path} refuses its own body: ${good}`);
    for (const each of CORPUS) {
      const whole = await send(pathOf(path), each.bytes);
      const inside = await send(pathOf(path), withField(body(), each));
      const told = (what: string, { status, text }: typeof whole) =>
        faults.push(`${path}, ${each.kind} ${each.name}: ${what}: ${status} ${text.slice(0, 200)}`);
      for (const sent of [whole, inside]) {
        if (sent.status >= 500) told("a fault of the server", sent);
        if (sent.tookMs > MOST_MS) told(`took ${Math.round(sent.tookMs)} ms`, sent);
        if (each.kind === "no" && (sent.status !== 400 || !REFUSED.test(sent.text))) told("taken", sent);
      }
      if (each.kind !== "yes") continue;
      const isTaken = CLOSED.has(path) ? inside.text.includes('"x: unexpected property"') : inside.status === good;
      if (!isTaken) told("refused as a field", inside);
      if (/not valid (?:JSON|UTF-8)|cut off/.test(whole.text)) told("refused as a body", whole);
    }
  }
  expect(faults).toEqual([]);
});

test("bombs are refused at once by every POST", async () => {
  const faults: string[] = [];
  for (const path of Object.keys(BODIES)) {
    for (const [name, text] of Object.entries(BOMBS)) {
      const { status, tookMs } = await send(pathOf(path), text);
      if (![400, 413].includes(status)) faults.push(`${path}, ${name}: ${status}`);
      if (tookMs > MOST_MS) faults.push(`${path}, ${name}: took ${Math.round(tookMs)} ms`);
    }
  }
  expect(faults).toEqual([]);
});

test("what is JSON goes on to a vendor of the same dialect byte for byte, and text through every dialect unchanged", async () => {
  const upstream = startUpstream();
  const dialects = ["chat", "messages", "responses"] as const;
  const gateway = await startApp({ vendors: dialects.map((dialect) => vendorAt(upstream, dialect, `lab-${dialect}`)) });
  for (const path of Object.values(paths)) upstream.always(path, json({ error: { message: "seen" } }, { status: 400 }));
  const ask = {
    chat: BODIES["/v1/chat/completions"],
    messages: BODIES["/v1/messages"],
    responses: BODIES["/v1/responses"],
  };
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  for (const each of CORPUS.filter(({ kind }) => kind === "yes")) {
    const text = decoder.decode(each.bytes);
    for (const dialect of dialects) {
      const body = decoder.decode(withField({ ...ask[dialect]?.(), model: `lab-${dialect}/m` }, each));
      await gateway.post(paths[dialect], body);
      const sent = upstream.calls.at(-1)?.text ?? "";
      // White space around a value belongs to nobody.
      expect([each.name, [text, text.trim()].some((value) => sent.includes(`"x":${value}`))]).toEqual([
        each.name,
        true,
      ]);
    }
    // With a letter before it: text that cannot be seen is told to vendors as none.
    const literal = text.trim().replace(/^"/, '"a');
    const value: unknown = JSON.parse(literal);
    if (typeof value !== "string") continue;
    // Across dialects NUL is left out: vendors refuse it (dialects.md 4.8 #45).
    const crossed = value.replaceAll("\0", "");
    expect(await echoed(gateway.post, literal)).toEqual([value, crossed, crossed]);
  }
  expect(upstream.calls).toHaveLength(CORPUS.filter(({ kind }) => kind === "yes").length * dialects.length);
  await gateway.stop();
  upstream.close();
});

/** What the built-in echo makes of a string literal, asked in each dialect. */
async function echoed(post: FuzzLab["gateway"]["post"], literal: string): Promise<unknown[]> {
  const turns = `"model":"sluice/echo","messages":[{"role":"user","content":${literal}}]`;
  const answers = await Promise.all([
    post("/v1/chat/completions", `{${turns}}`),
    post("/v1/messages", `{"max_tokens":100000,${turns}}`),
    post("/v1/responses", `{"model":"sluice/echo","input":${literal}}`),
  ]);
  const [chat, messages, responses] = (await Promise.all(answers.map((answer) => answer.json()))) as Answered[];
  const said = responses?.output?.[0];
  return [chat?.choices?.[0]?.message.content, messages?.content?.[0]?.text, said?.content?.[0]?.text];
}

type Answered = {
  choices?: { message: { content: string } }[];
  content?: { text: string }[];
  output?: { content?: { text: string }[] }[];
};
