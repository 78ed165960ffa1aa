import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { tokenFamilies, tokenFamilyOf } from "../../src/catalog/token-families.ts";
import { JsonText } from "../../src/lib/json-text.ts";
import { estimateInputTokens } from "../../src/relay/tokens/estimate.ts";
import { countMedia } from "../../src/relay/tokens/media-tokens.ts";
import { startApp, type TestApp } from "../support/app.ts";
import { leastWork } from "../support/wait.ts";

const GPT = "openai/gpt-4o";
const bodyOf = (content: unknown) =>
  new JsonText(JSON.stringify({ model: GPT, messages: [{ role: "user", content }] }));

/** Each estimate looks at other samples of a long text: what they come to. */
const usualEstimate = (body: JsonText): number =>
  Array.from({ length: 20 }, () => estimateInputTokens(body, GPT)).reduce((sum, each) => sum + each / 20, 0);

const PROSE =
  "The lock keeper rose before the sun, as he had done for thirty years, and walked along the towpath with his lamp. " +
  "Two barges lay waiting below the gate, low in the water with their loads of gravel, and on the nearer one a woman was " +
  "hanging shirts on a line between the mast and the wheelhouse. He called the level across; she answered without turning. ";
const CODE =
  "export function levelOf(gauge: Gauge, at = Date.now()): number {\n  const readings = gauge.readings.filter((each) => each.takenAt <= at);\n" +
  '  if (readings.length === 0) throw new RangeError("no reading before " + at);\n  return readings[readings.length - 1]!.centimetres / 100;\n}\n\n';

const TEXTS: readonly (readonly [name: string, text: string])[] = [
  ["prose", PROSE.repeat(10)],
  ["long prose, by samples", PROSE.repeat(400)],
  ["code", CODE.repeat(12)],
  [
    "JSON",
    JSON.stringify(Array.from({ length: 80 }, (_, id) => ({ id, harbour: "Husum", level: id / 7, open: id % 2 }))),
  ],
  [
    "German",
    "Der Schleusenwärter stand vor Sonnenaufgang auf und ging mit seiner Lampe den Treidelpfad entlang. ".repeat(20),
  ],
  ["Chinese", "闸门从早到晚都开着，带着钥匙的人都可以通过。邻居说他可以帮忙，于是我们一起去买木板。".repeat(30)],
  ["Japanese", "水門は夜明けから日暮れまで開いている。鍵を持つ人は誰でも通ることができます。".repeat(30)],
  ["Russian", "Смотритель шлюза встал до восхода солнца и пошёл по дорожке с фонарём в руке. ".repeat(30)],
  ["Amharic", "በሩ ከጠዋት እስከ ማታ ክፍት ነው ቁልፍ ያለው ሁሉ ማለፍ ይችላል። ".repeat(30)],
  ["Burmese", "တံခါးသည် နံနက်မှညနေအထိ ဖွင့်ထားသည်။ ".repeat(30)],
  ["Khmer", "ទ្វារបើកពីព្រឹកដល់ល្ងាច អ្នកណាមានសោអាចឆ្លងកាត់បាន។ ".repeat(30)],
  ["Lao", "ປະຊາຊົນເວົ້າພາສາລາວ ປະຕູເປີດແຕ່ເຊົ້າຮອດແລງ. ".repeat(30)],
  ["Odia", "ଲୋକମାନେ ଓଡ଼ିଆ ଭାଷାରେ କଥା ହୁଅନ୍ତି। ସକାଳରୁ ସନ୍ଧ୍ୟା ପର୍ଯ୍ୟନ୍ତ ଦ୍ୱାର ଖୋଲା। ".repeat(30)],
  ["Sinhala", "ජනතාව සිංහල භාෂාව කතා කරති. දොරටුව උදේ සිට සවස දක්වා විවෘතය. ".repeat(30)],
  ["Punjabi", "ਲੋਕ ਪੰਜਾਬੀ ਬੋਲਦੇ ਹਨ ਅਤੇ ਖੇਤੀ ਕਰਦੇ ਹਨ। ਦਰਵਾਜ਼ਾ ਸਵੇਰ ਤੋਂ ਸ਼ਾਮ ਤੱਕ ਖੁੱਲ੍ਹਾ ਹੈ। ".repeat(30)],
  ["Hebrew with its points", "בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם וְאֵת הָאָרֶץ. ".repeat(30)],
];

describe("the estimate on the hot path", () => {
  test.each(TEXTS.map(([name, text]) => ({ name, text })))("is within a third of the vocabulary: $name", ({ text }) => {
    const body = bodyOf(text);
    const ratio = usualEstimate(body) / countTokens(body.text);
    expect(ratio).toBeGreaterThan(0.75);
    expect(ratio).toBeLessThan(1.35);
  });

  test("a line of one mark stays the few tokens that it is", () => {
    const rules = bodyOf(`${"-".repeat(78)}\n${"=".repeat(78)}\n`.repeat(200));
    expect(estimateInputTokens(rules, GPT)).toBeLessThan(10_000);
  });

  test.each([
    ["Chinese", "闸门从早到晚都开着。"],
    ["Amharic", "በሩ ከጠዋት እስከ ማታ ክፍት ነው። "],
    ["Russian", "Смотритель шлюза встал до восхода солнца. "],
  ])("an escaped text weighs as the text itself: %s", (_name, sentence) => {
    const text = sentence.repeat(50);
    const escaped = text.replace(/[^ -~]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
    const body = new JsonText(`{"model":"${GPT}","messages":[{"role":"user","content":"${escaped}"}]}`);
    expect(Math.abs(usualEstimate(body) / usualEstimate(bodyOf(text)) - 1)).toBeLessThan(0.15);
  });

  test.each([
    ["Chinese", "闸门从早到晚都开着。"],
    ["Russian", "Смотритель шлюза встал до восхода солнца. "],
    ["German", "Der Schleusenwärter öffnete früh, für größere Schiffe. "],
  ])(
    "numbers of characters in JSON that a tool has printed are language, not the characters: %s",
    (_name, sentence) => {
      const printed = JSON.stringify({ text: sentence.repeat(50) }).replace(
        /[^ -~]/g,
        (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`,
      );
      expect(usualEstimate(bodyOf(printed)) / countTokens(printed)).toBeWithin(0.85, 1.4);
    },
  );

  test("base64 counts as the pictures and pages it is, whichever dialect it came in", () => {
    const head = Buffer.from("89504e470d0a1a0a0000000d494844520000040000000300", "hex");
    const data = Buffer.concat([head, Buffer.alloc(1_000_000, 1)]).toString("base64");
    const bare = estimateInputTokens(bodyOf("x"), GPT);
    const inMessages = { type: "image", source: { type: "base64", media_type: "image/png", data } };
    const inChat = { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } };
    for (const part of [inMessages, inChat]) {
      // An odd number of escaped quotes before it does not lead astray.
      for (const before of ["", 'an odd " quote', 'a \\ and a "']) {
        const more = estimateInputTokens(bodyOf([{ type: "text", text: before }, part]), GPT) - bare;
        expect(more).toBeGreaterThan(764);
        expect(more).toBeLessThan(820);
      }
    }
    const pdf = Buffer.concat([Buffer.from("%PDF-1.4"), Buffer.alloc(160_000, 1)]).toString("base64");
    const source = { type: "base64", media_type: "application/pdf", data: pdf };
    const pages = estimateInputTokens(bodyOf([{ type: "document", source }]), GPT) - bare;
    expect(pages).toBeGreaterThan(9 * 1_500);
    expect(pages).toBeLessThan(12 * 1_500);
  });

  test("sound counts by its length: half a minute of it is no half a million tokens of language", () => {
    const wav = Buffer.alloc(960_000);
    for (let at = 0; at < wav.length; at++) wav[at] = (at * at) & 255;
    const data = wav.toString("base64");
    const estimated = (part: unknown) => {
      const body = new JsonText(JSON.stringify({ model: GPT, messages: [{ role: "user", content: [part] }] }));
      return estimateInputTokens(body, GPT, countMedia(body.value));
    };
    for (const sound of [{ data, format: "wav" }, { format: "wav", data }, data]) {
      const tokens = estimated({ type: "input_audio", input_audio: sound });
      expect(tokens).toBeGreaterThan(900);
      expect(tokens).toBeLessThan(1_100);
    }
  });

  test("bytes count as what they are however their characters are written in JSON, as PHP and .NET write slashes and plus signs", () => {
    const asPhp = (json: string) => json.replaceAll("/", "\\/");
    const asNet = (json: string) => json.replaceAll("+", "\\u002B");
    // Slashes and plus signs from its first character on, and its size behind hundreds of them.
    const segment = "ffd8ffe10404".padEnd(2 * 1_032, "fbefbeffff");
    const jpeg = Buffer.from(`${segment}ffc0001108020002000301220002110103110`, "hex");
    const data = Buffer.concat([jpeg, Buffer.alloc(300_000, 0xfe)]).toString("base64");
    const text = PROSE.repeat(100);
    const csv = `data:text/csv;base64,${Buffer.from(text).toString("base64")}`;
    const parts = [
      { type: "image_url", image_url: { url: `data:image/jpeg;base64,${data}` } },
      { type: "image", source: { type: "base64", media_type: "image/jpeg", data } },
      { type: "input_audio", input_audio: { data, format: "mp3" } },
      { type: "file", file: { filename: "a.csv", file_data: csv } },
    ];
    for (const part of parts) {
      const plain = bodyOf([part]);
      const tokens = usualEstimate(plain);
      for (const write of [asPhp, asNet]) {
        expect(usualEstimate(new JsonText(write(plain.text)))).toBeWithin(tokens * 0.97, tokens * 1.03 + 10);
      }
    }
  });

  test("a text that comes as a file of bytes counts as the text", () => {
    const text = PROSE.repeat(200);
    const data = Buffer.from(text).toString("base64");
    const files = [
      { type: "document", source: { type: "base64", media_type: "text/plain", data } },
      { type: "input_file", filename: "a.txt", file_data: `data:text/plain;base64,${data}` },
      { type: "file", file: { filename: "a.json", file_data: `data:application/json;charset=utf-8;base64,${data}` } },
    ];
    for (const file of files) {
      const ratio = usualEstimate(bodyOf([file])) / countTokens(text);
      expect(ratio).toBeGreaterThan(0.75);
      expect(ratio).toBeLessThan(1.35);
    }
  });

  test("a PDF counts as the pages that its tree or its head tells of, be they scans of megabytes or a few words each", () => {
    const bare = estimateInputTokens(bodyOf("x"), GPT);
    const scans = Buffer.alloc(3_000_000, 200);
    const words = Buffer.alloc(3_000, 32);
    const part = "4 0 obj <</Type/Pages/Parent 2 0 R/Count 900/Kids[5 0 R]>> endobj\n";
    const tree = (pages: number) => `2 0 obj\n<< /Type /Pages\n /Kids [3 0 R 4 0 R]\n /Count ${pages} >>\nendobj\n`;
    const files: [pages: number, pieces: (string | Buffer)[]][] = [
      [12, ["%PDF-1.4\n", scans, part, tree(12), "%%EOF"]],
      [40, ["%PDF-1.7\n", tree(40), words, "%%EOF\n"]],
      [7, ["%PDF-1.7\n1 0 obj <</Linearized 1/L 3000999/O 9/E 999/N 7/T 3000000>> endobj\n", scans]],
    ];
    for (const [count, pieces] of files) {
      const data = Buffer.concat(pieces.map((piece) => Buffer.from(piece))).toString("base64");
      const source = { type: "base64", media_type: "application/pdf", data };
      const bareData = { type: "input_file", filename: "a.pdf", file_data: data };
      // As Python's base64.encodebytes has it.
      const inLines = { type: "document", source: { ...source, data: data.replace(/.{76}/g, "$&\n") } };
      for (const part of [{ type: "document", source }, bareData, inLines]) {
        const body = bodyOf([part]);
        const pages = (estimateInputTokens(body, GPT, countMedia(body.value)) - bare) / 1_500;
        expect(Math.round(pages)).toBe(count);
      }
    }
  });

  test("an image at an address counts as a usual one, and a document as some pages, in each dialect", () => {
    const estimated = (field: string, part: unknown) => {
      const body = new JsonText(JSON.stringify({ model: GPT, [field]: [{ role: "user", content: [part] }] }));
      return estimateInputTokens(body, GPT, countMedia(body.value));
    };
    const bare = estimated("messages", {});
    const url = "https://pictures.example/a.png";
    const images = [
      { type: "image_url", image_url: { detail: "high", url } },
      { type: "image_url", image_url: url },
      { type: "input_image", image_url: url },
      { type: "image", source: { type: "url", url } },
      { type: "tool_result", tool_use_id: "t", content: [{ type: "image", source: { url, type: "url" } }] },
    ];
    const documents = [
      { type: "document", source: { type: "url", url } },
      { type: "input_file", file_url: url },
    ];
    for (const field of ["messages", "input"]) {
      for (const part of images) {
        const more = estimated(field, part) - bare;
        expect(more).toBeGreaterThan(764);
        expect(more).toBeLessThan(850);
      }
      for (const part of documents) expect(estimated(field, part) - bare).toBeGreaterThan(10_000);
    }
    const said = { type: "tool_use", id: "t", name: "fetch", input: { url } };
    expect(estimated("messages", said) - bare).toBeLessThan(60);
  });

  test("long texts without blanks and quotes behind backslashes are language, beside base64 too", () => {
    const chinese = "闸门从早到晚都开着".repeat(1_000);
    const mention = 'so-called base64 \\" and \\\\ "quoted" ';
    const tokens = usualEstimate(bodyOf([{ text: mention }, { text: chinese }]));
    expect(tokens / countTokens(chinese)).toBeGreaterThan(0.75);
  });

  test("a text that begins as base64 does is language: a list of checksums, and bytes that a tool has printed", () => {
    const checksums = Array.from({ length: 500 }, (_, at) => `${Bun.SHA256.hash(`${at}`, "hex")}  file-${at}.ts`);
    const list = checksums.join("\n");
    const printed = Buffer.from(list).toString("base64");
    for (const text of [list, printed]) {
      const result = { type: "tool_result", tool_use_id: "t", content: text };
      for (const content of [text, [{ type: "text", text }], [result]]) {
        const body = JSON.stringify({ system: "What was base64 is text.", messages: [{ role: "user", content }] });
        // Letters without sense take more tokens than language does.
        expect(usualEstimate(new JsonText(body)) / countTokens(text)).toBeGreaterThan(0.4);
      }
    }
  });

  test("a text that begins as base64 does is language wherever a model may be told it, beside a picture too", () => {
    const text = `${"a1b2c3d4".repeat(8)}\n${"闸门从早到晚都开着".repeat(1_000)}`;
    const data = Buffer.alloc(3_000, 7).toString("base64");
    const picture = { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } };
    const shown = { role: "user", content: [picture] };
    const user = (content: unknown) => ({ messages: [{ role: "user", content }, shown] });
    const bodies = [
      { system: text, messages: [shown] },
      { instructions: text, input: [shown] },
      { tools: [{ name: "a", description: text, input_schema: { data: text } }], messages: [shown] },
      user([text]),
      user([{ type: "document", title: text, source: { type: "text", media_type: "text/plain", data: "a" } }]),
      user([{ type: "document", source: { type: "text", media_type: "text/plain", data: text } }]),
      user([{ type: "tool_use", id: "t", name: "a", input: { data: text } }]),
      { messages: [{ role: "assistant", content: "a", reasoning_content: text }, shown] },
      { messages: [{ role: "assistant", content: [{ type: "thinking", thinking: text, signature: "a" }] }, shown] },
    ];
    const texts = [...bodies.map((body) => JSON.stringify(body)), JSON.stringify(user([{ type: "text", text }]))];
    texts.push((texts.at(-1) as string).replace('"text":"a', '"te\\u0078t":"a'));
    for (const written of texts) {
      const body = new JsonText(written);
      const ratio = usualEstimate(body) / countTokens(text);
      expect(ratio).toBeWithin(0.75, 2.7);
    }
  });

  test("a text that begins as a picture does, and is as long, is language beside it", () => {
    const url = `data:image/png;base64,${Buffer.alloc(3_000, 7).toString("base64")}`;
    const text = url.slice(0, 200).padEnd(url.length, "闸门从早到晚都开着");
    const body = bodyOf([
      { type: "text", text },
      { type: "image_url", image_url: { url } },
    ]);
    expect(usualEstimate(body)).toBeGreaterThan(countTokens(text));
  });

  test("bytes in parts that only some servers know, and those of a file that is text without saying so, are no language", () => {
    const data = Buffer.from(Array.from({ length: 300_000 }, (_, at) => (at * at) & 255)).toString("base64");
    const bare = estimateInputTokens(bodyOf("x"), GPT);
    const parts = [
      { type: "video_url", video_url: { url: `data:video/mp4;base64,${data}` } },
      { type: "image", data, mimeType: "image/png" },
    ];
    for (const part of parts) expect(estimateInputTokens(bodyOf([part]), GPT) - bare).toBeWithin(500, 1_000);
    const long = data.repeat(20);
    const lasting = [
      { type: "video_url", video_url: { url: `data:video/mp4;base64,${long}` } },
      { type: "audio_url", audio_url: `data:audio/wav;base64,${long}` },
    ];
    for (const part of lasting) expect(estimateInputTokens(bodyOf([part]), GPT) - bare).toBeWithin(5_900, 6_200);
    const screenshot = { type: "computer_screenshot", image_url: `data:image/png;base64,${data}` };
    const drawn = { type: "image_generation_call", id: "i", result: data };
    const turn = { role: "assistant", content: "a", images: [{ image_url: { url: `data:image/png;base64,${data}` } }] };
    for (const item of [{ type: "computer_call_output", output: screenshot }, drawn, turn]) {
      const body = new JsonText(JSON.stringify({ model: GPT, input: [item] }));
      expect(estimateInputTokens(body, GPT) - bare).toBeWithin(500, 1_000);
    }
    const text = PROSE.repeat(100);
    const file_data = `data:application/typescript;base64,${Buffer.from(text).toString("base64")}`;
    const file = bodyOf([{ type: "file", file: { filename: "a.ts", file_data } }]);
    expect(usualEstimate(file) / countTokens(text)).toBeWithin(0.75, 1.35);
  });

  test("the model's family and its tools weigh in; a model nobody knows is estimated all the same", () => {
    const body = bodyOf(PROSE.repeat(10));
    const gpt = estimateInputTokens(body, GPT);
    expect(estimateInputTokens(body, "anthropic/claude-opus-5")).toBeGreaterThan(gpt * 1.5);
    expect(estimateInputTokens(body)).toBeGreaterThan(gpt);
    const tools = [{ name: "x", input_schema: {} }];
    const withTools = new JsonText(JSON.stringify({ tools, messages: [] }));
    expect(estimateInputTokens(withTools, "anthropic/claude-haiku-4-5")).toBeGreaterThan(510);
    expect(estimateInputTokens(new JsonText("{}"))).toBeGreaterThan(0);
  });

  test("takes no time worth naming, for 4 KB and for megabytes", () => {
    const small = bodyOf(PROSE.repeat(12).slice(0, 4_000));
    const large = bodyOf([{ data: "base64" }, { text: '\\"'.repeat(1_000_000) }, { text: PROSE.repeat(10_000) }]);
    for (let round = 0; round < 2_000; round++) estimateInputTokens(small, GPT);
    const best = (body: JsonText, runs: number) => leastWork(() => estimateInputTokens(body, GPT), runs);
    expect(best(small, 2_000)).toBeLessThan(0.02);
    expect(best(large, 5)).toBeLessThan(200);
  });
});

describe("the families", () => {
  test.each([
    ["anthropic/claude-opus-5-5", "claude-5"],
    ["anthropic/claude-opus-4-7", "claude-5"],
    ["openrouter/anthropic/claude-sonnet-5.5", "claude-5"],
    ["anthropic/claude-fable-5", "claude-5"],
    ["anthropic/claude-opus-4-6", "claude"],
    ["anthropic/claude-sonnet-4-20250514", "claude"],
    ["anthropic/claude-3-7-sonnet-latest", "claude"],
    ["groq/openai/gpt-oss-120b", "gpt-oss"],
    ["openai/gpt-5.4-mini", "gpt-5-mini"],
    ["openai/gpt-5-nano", "gpt-5-nano"],
    ["openai/gpt-6-astra", "gpt-5"],
    ["openai/o3", "o-series"],
    ["openai/o4-mini", "o4-mini"],
    ["openai/gpt-4o-mini", "gpt-4o-mini"],
    ["openai/gpt-4.1", "gpt-4"],
    ["google/gemini-2.5-pro", "gemini"],
    ["google/gemini-3.5-flash-lite", "gemini-3"],
    ["ollama/qwen3:8b", "qwen"],
    ["ollama/llama3.2", "llama"],
    ["ollama/unheard-of", "unknown"],
    ["llamacpp/unheard-of", "unknown"],
    ["mistral/magistral-medium-latest", "magistral"],
    ["mistral/devstral-2512", "mistral"],
    ["deepseek/deepseek-v4-pro", "deepseek"],
    ["zai/glm-5.3", "glm"],
    ["sluice/echo", "unknown"],
    ["", "unknown"],
  ])("%s is of %s", (id, name) => {
    expect(tokenFamilyOf(id).name).toBe(name);
  });

  test("no family is hidden behind another, and none counts less than the vocabulary", () => {
    expect(new Set(tokenFamilies.map((family) => family.name)).size).toBe(tokenFamilies.length);
    for (const family of tokenFamilies) expect(family.factor).toBeGreaterThanOrEqual(1);
  });
});

describe("message_start", () => {
  let app: TestApp;
  beforeAll(async () => {
    app = await startApp();
  });
  afterAll(() => app.stop());

  test("tells about what count_tokens tells", async () => {
    const body = {
      model: "sluice/echo",
      max_tokens: 50,
      messages: [{ role: "user", content: PROSE.repeat(10) }],
    };
    const stream = await (await app.post("/v1/messages", { ...body, stream: true })).text();
    const started = /"input_tokens":(\d+)/.exec(
      stream.split("\n\n").find((record) => record.includes("message_start")) ?? "",
    );
    const counted = (await (await app.post("/v1/messages/count_tokens", body)).json()) as { input_tokens: number };
    const ratio = Number(started?.[1]) / counted.input_tokens;
    expect(ratio).toBeGreaterThan(0.75);
    expect(ratio).toBeLessThan(1.35);
  });
});
