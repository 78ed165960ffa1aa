import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { isObject } from "../../src/lib/json.ts";
import type { Answer } from "../support/upstream.ts";
import { PDF, PIXEL } from "./cases.ts";
import { CLIENTS, type DialectName, type Lab, startLab } from "./lab.ts";
import { ask, MODES, type Requests } from "./outcomes.ts";
import { GREETING } from "./replies.ts";

setDefaultTimeout(60_000);

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());
afterEach(() => expect(lab.reset()).toEqual([]));

const file = (type: string, data: string): Answer => ({
  headers: { "content-type": type },
  parts: [Buffer.from(data, "base64")],
  framing: "length",
  finish: "end",
});

const WHAT = "What is this?";
const imageAt = (url: string): Requests => ({
  chat: {
    messages: [
      {
        role: "user",
        content: [
          { type: "image_url", image_url: { url } },
          { type: "text", text: WHAT },
        ],
      },
    ],
  },
  messages: {
    max_tokens: 100,
    messages: [
      {
        role: "user",
        content: [
          { type: "image", source: { type: "url", url } },
          { type: "text", text: WHAT },
        ],
      },
    ],
  },
  responses: {
    input: [
      {
        role: "user",
        content: [
          { type: "input_image", image_url: url, detail: "auto" },
          { type: "input_text", text: WHAT },
        ],
      },
    ],
  },
});

/** The parts of the one turn that reached a vendor. */
function partsOf(upstream: DialectName): unknown {
  const body = lab.vendors[upstream].upstream.calls[0]?.json;
  if (!isObject(body)) throw new Error("no call with a body");
  const turns = body["contents"] ?? body["messages"] ?? body["input"];
  const [turn] = Array.isArray(turns) ? turns : [];
  return isObject(turn) ? (turn["parts"] ?? turn["content"]) : undefined;
}

/** What was fetched once is kept for a while: every test has an address of its own. */
let places = 0;
const place = (ending: string) => `/${++places}.${ending}`;

const ways = CLIENTS.flatMap((client) => MODES.map((mode) => [client, mode] as const));

describe("what stands at an address", () => {
  test.each(ways)("an image is fetched for a vendor that fetches nothing: %s SDK, %s", async (client, mode) => {
    const path = place("png");
    lab.web.always(path, file("image/png", PIXEL));
    lab.vendors.gemini.play(GREETING);
    const model = lab.model("gemini", "plain");
    const { text } = await ask(lab, client, model, imageAt(lab.web.url + path), mode);
    expect(text).toBe("Grüße aus dem Labor 🙂!");
    expect(partsOf("gemini")).toEqual([{ inlineData: { mimeType: "image/png", data: PIXEL } }, { text: WHAT }]);
    // It was fetched as nobody: no key, no cookie, no word of the client.
    expect(lab.web.calls.length).toBe(1);
    expect(lab.web.calls[0]?.method).toBe("GET");
    const told = Object.keys(lab.web.calls[0]?.headers ?? {});
    expect(told.filter((name) => /auth|key|cookie|stainless|referer/.test(name))).toEqual([]);
  });

  const documentAt = (url: string): Pick<Requests, "messages" | "responses"> => ({
    messages: {
      max_tokens: 100,
      messages: [{ role: "user", content: [{ type: "document", source: { type: "url", url } }] }],
    },
    responses: { input: [{ role: "user", content: [{ type: "input_file", file_url: url }] }] },
  });
  const documents = (["messages", "responses"] as const).flatMap((client) =>
    (["chat", "gemini"] as const).map((upstream) => [client, upstream] as const),
  );
  test.each(documents)("a document is fetched: %s SDK, %s vendor", async (client, upstream) => {
    const path = place("pdf");
    lab.web.always(path, file("application/pdf", PDF));
    lab.vendors[upstream].play(GREETING);
    const requests = { ...imageAt(""), ...documentAt(lab.web.url + path) };
    await ask(lab, client, lab.model(upstream, "plain"), requests, "blocking");
    expect(JSON.stringify(partsOf(upstream))).toContain(PDF);
    expect(lab.web.calls.length).toBe(1);
  });

  test.each(CLIENTS)("an address that is not to be reached is a refusal: %s SDK", async (client) => {
    const model = lab.model("gemini", "plain");
    const missing = place("png");
    lab.web.always(missing, { ...file("text/plain", ""), status: 404 });
    for (const url of ["http://127.0.0.1:9/cat.png", "http://169.254.169.254/cat.png", lab.web.url + missing]) {
      const asking = ask(lab, client, model, imageAt(url), "blocking");
      const error: unknown = await asking.catch((thrown: unknown) => thrown);
      expect([isObject(error) && error["status"], Reflect.get(Object(error), "constructor").name]).toEqual([
        400,
        "BadRequestError",
      ]);
    }
    expect(lab.vendors.gemini.upstream.calls).toEqual([]);
  });
});
