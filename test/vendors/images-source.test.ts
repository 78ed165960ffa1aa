import { afterEach, describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { ImageRequest } from "../../src/vendors/image-upstream.ts";
import { pixelsOf, reducedRatio } from "../../src/vendors/images/pixels.ts";
import { imageRows } from "../../src/vendors/images/rows.ts";
import { type Call, json } from "../support/upstream.ts";
import {
  follow,
  type Lab,
  linesOf,
  makePng,
  openLab,
  PNG_BASE64,
  request,
  SOURCE,
  SOURCE_BASE64,
} from "./image-lab.ts";

let open: Lab[] = [];
afterEach(() => {
  for (const lab of open) lab.close();
  open = [];
});

function start(id: string): Lab {
  const lab = openLab(id);
  open.push(lab);
  return lab;
}

const DATA_URL = `data:image/png;base64,${SOURCE_BASE64}`;
const WON = json({ data: [{ b64_json: PNG_BASE64 }] });
/** Without it, the model is asked a second time. */
const REFUSED = json({ promptFeedback: { blockReason: "OTHER" } });
const withSource = (model: string, more: Partial<ImageRequest> = {}) => request({ model, source: SOURCE, ...more });

/** The call that asked at `path`, the vendor answering whatever it likes. */
async function askedOf(id: string, path: string, wanted: ImageRequest, answer = WON): Promise<Call> {
  const lab = start(id);
  lab.upstream.always(path, answer);
  await lab.draw.create(wanted, new AbortController().signal);
  expect(linesOf(lab.upstream.calls)).toEqual([`POST ${path}`]);
  return lab.upstream.calls[0]!;
}

/** Fields of a form as it was written: names, and values that are text. */
function readForm({ text, headers }: Call): Record<string, string> {
  const boundary = /boundary=(.+)$/.exec(headers["content-type"] ?? "")?.[1] ?? "none";
  const fields: Record<string, string> = {};
  for (const part of text.split(`--${boundary}`)) {
    const name = /name="([^"]+)"/.exec(part)?.[1];
    if (name) fields[name] = part.slice(part.indexOf("\r\n\r\n") + 4).replace(/\r\n$/, "");
    if (name && part.includes("filename=")) fields[name] = /filename="([^"]+)"/.exec(part)?.[1] ?? "";
  }
  return fields;
}

describe("a source image goes where the vendor wants it", () => {
  test("OpenAI: a form to the edits", async () => {
    const call = await askedOf("openai", "/v1/images/edits", withSource("gpt-image-1.5", { ratio: "2:3" }));
    expect(readForm(call)).toEqual({
      model: "gpt-image-1.5",
      prompt: "a red fox",
      n: "1",
      size: "1024x1536",
      image: "image.png",
    });
    expect(call.text).toContain("Content-Type: image/png");
  });

  test("xAI: JSON to the edits", async () => {
    const call = await askedOf("xai", "/v1/images/edits", withSource("grok-imagine-image-2.0", { ratio: "16:9" }));
    expect(call.json).toMatchObject({ image: { url: DATA_URL, type: "image_url" }, aspect_ratio: "16:9" });
  });

  test("Together: a field of the same call", async () => {
    const call = await askedOf(
      "together",
      "/v1/images/generations",
      withSource("black-forest-labs/FLUX.1-kontext-pro"),
    );
    expect(call.json).toMatchObject({ image_url: DATA_URL, width: 1024, height: 1024 });
  });

  test("ByteDance's own servers: a field of the same call, of a size that they draw", async () => {
    const small = { ratio: "16:9", size: { width: 640, height: 360 } };
    const { json: told } = await askedOf(
      "lab",
      "/v1/images/generations",
      withSource("doubao-seedream-4-5-251128", small),
    );
    expect(told).toMatchObject({ image: DATA_URL, size: "2560x1440" });
  });

  test("Gemini: a part before the text", async () => {
    const path = "/v1beta/models/gemini-3.1-flash-image:generateContent";
    const call = await askedOf("google", path, withSource("gemini-3.1-flash-image"), REFUSED);
    const { contents } = call.json as { contents: { parts: unknown[] }[] };
    expect(contents[0]!.parts).toEqual([
      { inlineData: { mimeType: "image/png", data: SOURCE_BASE64 } },
      { text: "a red fox" },
    ]);
  });

  test("OpenRouter: a part of the message, and a reference of a model that takes no chat", async () => {
    const part = { type: "image_url", image_url: { url: DATA_URL } };
    for (const model of ["google/gemini-3.1-flash-image", "openai/gpt-5.4-image-2"]) {
      const chat = await askedOf("openrouter", "/api/v1/chat/completions", withSource(model), json({}));
      const { messages, modalities } = chat.json as { messages: { content: unknown[] }[]; modalities: string[] };
      expect(messages[0]!.content[1]).toEqual(part);
      expect(modalities).toEqual(["image", "text"]);
    }
    for (const model of ["bytedance-seed/seedream-5-0-pro", "openai/gpt-image-2", "black-forest-labs/flux-3-image"])
      expect((await askedOf("openrouter", "/api/v1/images", withSource(model), json({}))).json).toEqual({
        model,
        prompt: "a red fox",
        aspect_ratio: "1:1",
        input_references: [part],
      });
  });

  test("Fireworks, Black Forest Labs, fal: fields by the model", async () => {
    const kontext = "/inference/v1/workflows/accounts/fireworks/models/flux-kontext-pro";
    expect((await askedOf("fireworks", kontext, withSource("flux-kontext-pro"), json({}))).json).toMatchObject({
      input_image: DATA_URL,
    });
    expect((await askedOf("bfl", "/v1/flux-2-pro", withSource("flux-2-pro"), json({}))).json).toMatchObject({
      input_image: SOURCE_BASE64,
      width: 1024,
      height: 1024,
    });
    expect((await askedOf("bfl", "/v1/flux-3-image", withSource("flux-3-image"), json({}))).json).toEqual({
      prompt: "a red fox",
      aspect_ratio: "1:1",
      images: [SOURCE_BASE64],
    });
    const flux3 = "black-forest-labs/flux-3-image";
    expect(
      (await askedOf("replicate", `/v1/models/${flux3}/predictions`, withSource(flux3), json({}))).json,
    ).toMatchObject({ input: { images: [DATA_URL] } });
    expect(
      (await askedOf("fal", "/fal-ai/flux-pro/kontext", withSource("fal-ai/flux-pro/kontext"), json({}))).json,
    ).toMatchObject({
      image_url: DATA_URL,
      aspect_ratio: "1:1",
    });
    expect(
      (await askedOf("fal", "/fal-ai/nano-banana/edit", withSource("fal-ai/nano-banana/edit"), json({}))).json,
    ).toMatchObject({
      image_urls: [DATA_URL],
    });
  });

  test("fal: each family's size and source stand in the fields it reads, in words it knows", async () => {
    const seven = ["1:1", "3:2", "2:3", "4:3", "3:4", "16:9", "9:16"];
    const five = seven.filter((ratio) => !/[32]:[32]/.test(ratio));
    const kontext = [...seven, "21:9", "9:21"];
    const three = ["1:1", "3:2", "2:3"];
    const small = { width: 512, height: 512 };
    for (const [model, ratios, asked, fields] of [
      ["fal-ai/gpt-image-1.5", three, { ratio: "3:2", size: small }, { image_size: "1536x1024" }],
      ["fal-ai/gpt-image-1/edit-image", three, { source: SOURCE }, { image_size: "1024x1024", image_urls: [DATA_URL] }],
      ["fal-ai/imagen4/preview/ultra", five, { ratio: "16:9" }, { aspect_ratio: "16:9" }],
      ["fal-ai/flux-pro/kontext/max", kontext, { source: SOURCE }, { aspect_ratio: "1:1", image_url: DATA_URL }],
      ["fal-ai/flux-pro/kontext/multi", kontext, { source: SOURCE }, { image_urls: [DATA_URL] }],
      ["fal-ai/flux-kontext/dev", undefined, { source: SOURCE }, { resolution_mode: "1:1", image_url: DATA_URL }],
      [
        "fal-ai/bytedance/seedream/v4.5/edit",
        undefined,
        { source: SOURCE, size: small },
        { image_size: { width: 1920, height: 1920 }, image_urls: [DATA_URL] },
      ],
      [
        "bytedance/seedream/v5/pro/text-to-image",
        undefined,
        { size: { width: 1024, height: 1024 } },
        { image_size: { width: 1024, height: 1024 } },
      ],
      [
        "bytedance/seedream/v5.5/edit",
        undefined,
        { source: SOURCE, size: { width: 4096, height: 4096 } },
        { image_size: { width: 2048, height: 2048 }, image_urls: [DATA_URL] },
      ],
      ["fal-ai/qwen-image-edit", undefined, { source: SOURCE }, { image_size: "square_hd", image_url: DATA_URL }],
      ["fal-ai/qwen-image-edit-2511", undefined, { source: SOURCE }, { image_urls: [DATA_URL] }],
      ["fal-ai/ideogram/v2", seven, {}, { aspect_ratio: "1:1" }],
      ["openai/gpt-image-2", undefined, { size: small }, { image_size: { width: 816, height: 816 } }],
    ] as const) {
      const [knows] = imageRows["fal"]!.models.filter(({ match }) => match.test(model));
      if (ratios) expect([model, [...knows!.ratios].sort()]).toEqual([model, [...ratios].sort()]);
      const call = await askedOf("fal", `/${model}`, request({ model, ...asked }), json({}));
      const told = ["image_size", "aspect_ratio", "resolution_mode", "image_url", "image_urls"].flatMap((field) => {
        const value = (call.json as Record<string, unknown>)[field];
        return value === undefined ? [] : [[field, value] as const];
      });
      expect([model, Object.fromEntries(told)]).toMatchObject([model, fields]);
      expect([model, told.length]).toEqual([model, "source" in asked ? 2 : 1]);
    }
  });

  test("Replicate: a model is asked for ratios of its own, and given its source where it reads one", async () => {
    const common = ["1:1", "3:2", "2:3", "4:3", "3:4", "16:9", "9:16"];
    const both = ["5:4", "4:5"];
    for (const [model, ratios, source] of [
      ["bytedance/seedream-4", [...common, "21:9"], { image_input: [DATA_URL] }],
      ["black-forest-labs/flux-2-pro", [...common, ...both], { input_images: [DATA_URL] }],
      ["black-forest-labs/flux-1.1-pro", [...common, ...both], undefined],
      ["black-forest-labs/flux-1.1-pro-ultra", [...common, ...both, "21:9", "9:21"], { image_prompt: DATA_URL }],
      ["black-forest-labs/flux-schnell", [...common, ...both, "21:9", "9:21"], undefined],
      [
        "stability-ai/stable-diffusion-3.5-large",
        ["1:1", "3:2", "2:3", ...both, "16:9", "9:16", "21:9", "9:21"],
        { image: DATA_URL },
      ],
      ["qwen/qwen-image", common, { image: DATA_URL }],
      ["somebody/something", common, undefined],
    ] as const) {
      const lab = start("replicate");
      const traits = lab.draw.traits(model);
      expect([model, [...traits.ratios].sort()]).toEqual([model, [...ratios].sort()]);
      expect([model, traits.takesSource]).toEqual([model, source !== undefined]);
      if (!source) continue;
      const call = await askedOf("replicate", `/v1/models/${model}/predictions`, withSource(model), json({}));
      expect(call.json).toEqual({ input: { prompt: "a red fox", aspect_ratio: "1:1", ...source } });
    }
  });

  test("Stability: a file with its strength; the endpoint of several models is told which", async () => {
    const ultra = await askedOf(
      "stability",
      "/v2beta/stable-image/generate/ultra",
      withSource("ultra", { ratio: "16:9", style: "Pixel Art" }),
      json({}),
    );
    expect(readForm(ultra)).toEqual({
      prompt: "a red fox",
      output_format: "png",
      aspect_ratio: "16:9",
      style_preset: "pixel-art",
      image: "image.png",
      strength: "0.65",
    });
    const named = await askedOf(
      "stability",
      "/v2beta/stable-image/generate/sd3",
      withSource("sd3.5-large", { style: "grim" }),
      json({}),
    );
    expect(readForm(named)).toEqual({
      prompt: "a red fox\n\nStyle: grim".replace(/\n/g, "\r\n"),
      output_format: "png",
      model: "sd3.5-large",
      mode: "image-to-image",
      image: "image.png",
      strength: "0.65",
    });
    const plain = await askedOf(
      "stability",
      "/v2beta/stable-image/generate/sd3",
      request({ model: "sd3.5-large" }),
      json({}),
    );
    expect(readForm(plain)).toMatchObject({ mode: "text-to-image", aspect_ratio: "1:1" });
  });

  test("AUTOMATIC1111: to img2img, cut and not stretched", async () => {
    const call = await askedOf("automatic1111", "/sdapi/v1/img2img", withSource("v1-5", { ratio: "3:2" }));
    expect(call.json).toMatchObject({ init_images: [SOURCE_BASE64], resize_mode: 1, denoising_strength: 0.6 });
    const { width, height } = call.json as { width: number; height: number };
    expect(width / height).toBeCloseTo(1.5, 2);
    // The first models fall apart at a megapixel.
    expect(width * height).toBeLessThan(400_000);
  });

  test("Replicate: small ones inside, large ones as a file first", async () => {
    const path = "/v1/models/black-forest-labs/flux-kontext-pro/predictions";
    const small = await askedOf(
      "replicate",
      path,
      withSource("black-forest-labs/flux-kontext-pro"),
      json({ id: "p", status: "starting" }),
    );
    expect(small.json).toMatchObject({ input: { input_image: DATA_URL } });

    const lab = start("replicate");
    lab.upstream.always("/v1/files", json({ id: "f", urls: { get: "https://api.replicate.com/v1/files/f" } }));
    lab.upstream.always(path, json({ id: "p", status: "starting" }));
    const noise = crypto.getRandomValues(new Uint8Array(60_000));
    const bytes = Buffer.concat([makePng(), ...Array.from({ length: 6 }, () => noise)]);
    const wanted = withSource("black-forest-labs/flux-kontext-pro", { source: { bytes, type: "image/png" } });
    expect((await lab.draw.create(wanted, new AbortController().signal)).kind).toBe("pending");
    expect(linesOf(lab.upstream.calls)).toEqual(["POST /v1/files", `POST ${path}`]);
    expect(lab.upstream.calls[1]!.json).toMatchObject({
      input: { input_image: "https://api.replicate.com/v1/files/f" },
    });
    // What fails before the image is asked for has drawn nothing.
    lab.upstream.reset();
    lab.upstream.answer("/v1/files", json({}, { status: 500 }));
    expect(await lab.draw.create(wanted, new AbortController().signal)).toMatchObject({ kind: "failed", ran: "no" });
    expect(lab.upstream.calls).toHaveLength(1);
  });

  test("ComfyUI: uploaded, then named in the graph", async () => {
    const lab = start("comfyui");
    lab.upstream.always("/upload/image", json({ name: "sluice-k.png", subfolder: "", type: "input" }));
    lab.upstream.always("/prompt", json({ prompt_id: "c-1" }));
    const step = await lab.draw.create(
      withSource("sd_xl.safetensors", { ratio: "16:9" }),
      new AbortController().signal,
    );
    expect(step).toMatchObject({ kind: "pending", resumeId: "c-1" });
    expect(linesOf(lab.upstream.calls)).toEqual(["POST /upload/image", "POST /prompt"]);
    expect(readForm(lab.upstream.calls[0]!)).toEqual({ image: "sluice-3f1c9b9e-job.png", overwrite: "true" });
    const { prompt } = lab.upstream.calls[1]!.json as { prompt: Record<string, { inputs: Record<string, unknown> }> };
    expect(prompt["source"]!.inputs["image"]).toBe("sluice-k.png");
    expect(prompt["scaled"]!.inputs).toMatchObject({ width: 1408, height: 792, crop: "center" });
  });

  test("a model that takes none is not asked", async () => {
    for (const [id, model] of [
      ["together", "black-forest-labs/FLUX.1-schnell"],
      ["fireworks", "flux-1-dev-fp8"],
      ["google", "imagen-4.0-generate-001"],
      ["stability", "stable-image-core"],
      ["fal", "fal-ai/flux/dev"],
      ["replicate", "black-forest-labs/flux-schnell"],
      ["openrouter", "recraft/recraft-v4.1"],
    ] as const) {
      const lab = start(id);
      expect([model, lab.draw.traits(model).takesSource]).toEqual([model, false]);
      const step = await lab.draw.create(withSource(model), new AbortController().signal);
      expect(step).toMatchObject({ kind: "failed", ran: "no", fault: true });
      expect(lab.upstream.calls).toEqual([]);
    }
  });
});

describe("wishes", () => {
  test("Z.ai: every size is one that its models draw", async () => {
    const rules = { "glm-image": [1024, 32, 2 ** 22], "cogview-4-250304": [512, 16, 2 ** 21] } as const;
    for (const [model, [least, multiple, most]] of Object.entries(rules)) {
      const { ratios } = start("zai").draw.traits(model);
      for (const ratio of ratios) {
        for (const size of [undefined, { width: 256, height: 256 }, { width: 4096, height: 4096 }]) {
          const wanted = request({ model, ratio, ...(size && { size }) });
          const { json: asked } = await askedOf("zai", "/api/paas/v4/images/generations", wanted);
          const [width = 0, height = 0] = (asked as { size: string }).size.split("x").map(Number);
          const follows = [width, height].every((side) => side >= least && side <= 2048 && side % multiple === 0);
          const is = (sound: boolean) => `${model} ${ratio} ${width}x${height} ${sound}`;
          expect(is(follows && width * height <= most)).toBe(is(true));
        }
      }
    }
  });

  test("Recraft: its models are told a ratio, since each draws sizes of its own", async () => {
    for (const model of ["recraftv3", "recraftv4_1_pro"]) {
      const { ratios, takesSource } = start("lab").draw.traits(model);
      expect([takesSource, ratios.includes("16:9"), ratios.includes("21:9")]).toEqual([false, true, false]);
      const wanted = request({ model, ratio: "3:2", size: { width: 1200, height: 800 } });
      const { json: asked } = await askedOf("lab", "/v1/images/generations", wanted);
      expect(asked).toEqual({ model, prompt: "a red fox", n: 1, size: "3:2", response_format: "b64_json" });
    }
  });

  test("a style is a field where the model has it, else the end of the prompt", async () => {
    const drawn = await askedOf("lab", "/v1/images/generations", request({ model: "dall-e-3", style: "Vivid" }));
    expect(drawn.json).toMatchObject({ prompt: "a red fox", style: "vivid" });
    const other = await askedOf("lab", "/v1/images/generations", request({ model: "dall-e-3", style: "woodcut" }));
    expect(other.json).toMatchObject({ prompt: "a red fox\n\nStyle: woodcut" });
    expect(other.json).not.toHaveProperty("style");
  });

  for (const model of ["gemini-3-pro-image", "gemini-3.1-flash-image", "gemini-nano-banana-2.1"]) {
    test(`a large size asks ${model} for a higher resolution`, async () => {
      const path = `/v1beta/models/${model}:generateContent`;
      const sizes: [ImageRequest["size"], object][] = [
        [undefined, { aspectRatio: "1:1" }],
        [{ width: 1024, height: 1024 }, { aspectRatio: "1:1" }],
        [
          { width: 2048, height: 2048 },
          { aspectRatio: "1:1", imageSize: "2K" },
        ],
        [
          { width: 4096, height: 4096 },
          { aspectRatio: "1:1", imageSize: "4K" },
        ],
      ];
      for (const [size, expected] of sizes) {
        const call = await askedOf("google", path, request({ model, ...(size && { size }) }), REFUSED);
        const { generationConfig } = call.json as { generationConfig: { imageConfig: object } };
        expect(generationConfig.imageConfig).toEqual(expected);
      }
    });
  }

  test("Replicate: a version is told in the body", async () => {
    const version = "a".repeat(64);
    const call = await askedOf(
      "replicate",
      "/v1/predictions",
      request({ model: `stability-ai/sdxl:${version}` }),
      json({}),
    );
    expect(call.json).toMatchObject({ version, input: { width: 1024, height: 1024 } });
  });

  test("the operator's own words win: ratios, sources, graph", async () => {
    const upstream = start("lab");
    upstream.close();
    const workflow = {
      "9": { class_type: "Text", inputs: { text: "masterpiece, {{prompt}}", seed: "{{seed}}", wide: "{{width}}" } },
    };
    const lab = openLab("studio", {
      vendor: {
        drawing: { wire: "comfyui", ratios: ["2:1"], takesSource: true, workflow },
        auth: "none",
        modality: "image",
      },
    });
    open.push(lab);
    expect(lab.draw.traits("any")).toEqual({ ratios: ["2:1"], takesSource: true });
    lab.upstream.always("/v1/prompt", json({ prompt_id: "c" }));
    lab.upstream.always("/v1/upload/image", json({ name: "x.png" }));
    const tricky = 'a "fox" {{seed}} $& \\n {"class_type":"Evil"}';
    await lab.draw.create(request({ prompt: tricky, ratio: "2:1" }), new AbortController().signal);
    const { prompt } = lab.upstream.calls[0]!.json as { prompt: Record<string, { inputs: Record<string, unknown> }> };
    expect(Object.keys(prompt)).toEqual(["9"]);
    expect(prompt["9"]!.inputs["text"]).toBe(`masterpiece, ${tricky}`);
    expect(typeof prompt["9"]!.inputs["seed"]).toBe("number");
    expect(prompt["9"]!.inputs["wide"]).toBeNumber();
    // A graph without a place for it takes no source.
    const step = await lab.draw.create(withSource("any"), new AbortController().signal);
    expect(step).toMatchObject({ kind: "failed", fault: true });
  });
});

test.each([
  ["fireworks", "flux-1-dev-fp8"],
  ["fireworks", "stable-diffusion-xl-1024-v1-0"],
  ["google", "imagen-4.0-generate-001"],
])(
  "%s: a model without a place for a source is not asked to draw without it, whatever the operator says: %s",
  async (id, model) => {
    const lab = openLab(id, { vendor: { drawing: { takesSource: true } } });
    open.push(lab);
    const step = await lab.draw.create(withSource(model), new AbortController().signal);
    expect(step).toEqual({ kind: "failed", message: "This model takes no source image.", ran: "no", fault: true });
    expect(lab.upstream.calls).toEqual([]);
  },
);

test("a ratio that only the operator names is said, also to a server whose models go by OpenAI's names", async () => {
  for (const row of Object.values(imageRows)) {
    const context = { baseUrl: "http://127.0.0.1:1" };
    for (const model of row.models) row.wire.create(request({ ratio: "2:1" }), { ...context, model });
  }
  const lab = openLab("lab", { vendor: { drawing: { ratios: ["2:1"] } } });
  open.push(lab);
  lab.upstream.always("/v1/images/generations", WON);
  for (const model of ["gpt-image-1", "dall-e-3", "flux"]) {
    const step = await lab.draw.create(request({ model, ratio: "2:1" }), new AbortController().signal);
    const { size } = lab.upstream.calls.at(-1)!.json as { size: string };
    const [width, height] = size.split("x").map(Number);
    expect([model, step.kind, width]).toEqual([model, "image", 2 * height!]);
  }
});

describe("pixels", () => {
  const models = Object.values(imageRows).flatMap((row) => row.models.filter(({ pixels }) => pixels));
  const cases = models.flatMap((model) => model.ratios.map((ratio) => ({ ratio, rule: model.pixels! })));
  const size = fc.record({ width: fc.integer({ min: 1, max: 99_999 }), height: fc.integer({ min: 1, max: 99_999 }) });

  test("law: multiples within bounds, of the ratio, whatever size was named", () => {
    fc.assert(
      fc.property(fc.constantFrom(...cases), fc.option(size, { nil: undefined }), ({ ratio, rule }, wanted) => {
        const { width, height } = pixelsOf({ ratio, ...(wanted && { size: wanted }) }, rule);
        const asked = reducedRatio(ratio);
        expect(width % rule.multiple).toBe(0);
        expect(height % rule.multiple).toBe(0);
        expect(Math.min(width, height)).toBeGreaterThanOrEqual(rule.multiple);
        expect(Math.max(width, height)).toBeLessThanOrEqual(rule.maxEdge);
        expect(width * height).toBeGreaterThanOrEqual(rule.minArea);
        expect(width * height).toBeLessThanOrEqual(rule.maxArea * 1.02);
        expect(Math.abs(Math.log(width / height / (asked.width / asked.height)))).toBeLessThan(0.07);
      }),
      { numRuns: 3_000 },
    );
  });

  test("a size the model can draw is drawn as it was asked for", () => {
    const rule = imageRows["openai"]!.models.at(-1)!.pixels!;
    expect(pixelsOf({ ratio: "16:9", size: { width: 3840, height: 2160 } }, rule)).toEqual({
      width: 3840,
      height: 2160,
    });
    // One step down and of the ratio, rather than a little too large.
    expect(pixelsOf({ ratio: "4:3", size: { width: 4000, height: 3000 } }, rule)).toEqual({
      width: 3264,
      height: 2448,
    });
    expect(pixelsOf({ ratio: "1:1", size: { width: 2048, height: 2048 } }, rule)).toEqual({
      width: 2048,
      height: 2048,
    });
    expect(pixelsOf({ ratio: "3:2", size: { width: 1536, height: 1024 } }, rule)).toEqual({
      width: 1536,
      height: 1024,
    });
    // Fewer than 655,360 pixels are refused.
    expect(pixelsOf({ ratio: "1:1", size: { width: 512, height: 512 } }, rule)).toEqual({ width: 816, height: 816 });
    expect(pixelsOf({ ratio: "16:9", size: { width: 640, height: 360 } }, rule)).toEqual({ width: 1088, height: 608 });
  });
});

test("no side of the older flux models is shorter than they take", () => {
  const { pixels, ratios } = imageRows["bfl"]!.models.at(-1)!;
  const sides = ratios.flatMap((ratio) => Object.values(pixelsOf({ ratio, size: { width: 64, height: 64 } }, pixels!)));
  expect(Math.min(...sides)).toBeGreaterThanOrEqual(256);
});

test("an image through all of it ends as one", async () => {
  const lab = start("openai");
  lab.upstream.answer("/v1/images/edits", WON);
  expect((await follow(lab.draw, withSource("gpt-image-2"))).kind).toBe("image");
});
