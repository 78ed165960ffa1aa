import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createApp } from "../../src/app.ts";
import { builtInRows } from "../../src/catalog/rows.ts";
import { openStore } from "../../src/db/open.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { createLog } from "../../src/observe/log.ts";
import { IMAGE_ROW_NAMES, rowOf } from "../../src/vendors/images/rows.ts";
import { probeLocal } from "../../src/vendors/probe-local.ts";
import { registry } from "../../src/vendors/registry.ts";
import type { VendorRow } from "../../src/vendors/vendor.ts";
import { PLAIN_CONFIG, startApp, type TestApp } from "../support/app.ts";
import { listed as named } from "../support/listed.ts";
import { html, json, redirect, startUpstream, type Upstream } from "../support/upstream.ts";
import { until } from "../support/wait.ts";
import { type Lab, linesOf, openLab, PNG, PNG_BASE64 } from "./image-lab.ts";

let gateway: TestApp | undefined;
let open: { close(): void }[] = [];
afterEach(async () => {
  await gateway?.stop();
  gateway = undefined;
  for (const each of open) each.close();
  open = [];
});

type Job = {
  id: string;
  status: string;
  aspect_ratio: string;
  data?: { url: string }[];
  error?: { code: string; message: string };
};

function start(id: string): Lab {
  const lab = openLab(id);
  open.push(lab);
  return lab;
}

/** Asks for an image as a client would, and waits for its end. */
async function draw(app: TestApp, body: object): Promise<Job> {
  const response = await app.post("/v1/images/generations", body);
  expect(response.status).toBe(202);
  const { id } = (await response.json()) as Job;
  let job: Job | undefined;
  const look = async () => {
    const poll = await app.call(`/v1/images/generations/${id}`, {
      headers: { authorization: `Bearer ${app.key}`, prefer: "wait=5" },
    });
    job = (await poll.json()) as Job;
  };
  await look();
  expect(job!.status).not.toBe("processing");
  return job!;
}

describe("through the front door", () => {
  test("OpenAI: the size becomes the model's nearest, the image its file", async () => {
    const lab = start("openai");
    gateway = await startApp({ vendors: [lab.vendor] });
    lab.upstream.answer("/v1/images/generations", json({ data: [{ b64_json: PNG_BASE64 }] }));
    const job = await draw(gateway, { model: "openai/gpt-image-1.5", prompt: "a fox", size: "1920x1200" });
    expect(job).toMatchObject({ status: "succeeded", aspect_ratio: "3:2" });
    expect(lab.upstream.calls[0]!.json).toMatchObject({ model: "gpt-image-1.5", size: "1536x1024" });
    const file = await gateway.call(new URL(job.data![0]!.url).pathname);
    expect(Buffer.from(await file.arrayBuffer()).equals(PNG)).toBe(true);

    lab.upstream.answer("/v1/images/edits", json({ data: [{ b64_json: PNG_BASE64 }] }));
    const reframed = await draw(gateway, { source_job_id: job.id, size: "1024x1536" });
    expect(reframed).toMatchObject({ status: "succeeded", aspect_ratio: "2:3" });
    expect(lab.upstream.calls[1]!.text).toContain("Re-frame the given image to the aspect ratio 2:3");
    expect(linesOf(lab.upstream.calls)).toEqual(["POST /v1/images/generations", "POST /v1/images/edits"]);
  });

  test("a redirect is told as one, also where what stands behind its head cannot be unpacked", async () => {
    const lab = start("openai");
    gateway = await startApp({ vendors: [lab.vendor] });
    const { headers, ...rest } = redirect("http://169.254.169.254/latest");
    const packed = { ...headers, "content-encoding": "gzip" };
    lab.upstream.answer("/v1/images/generations", { ...rest, headers: packed, parts: ["moved"] });
    const job = await draw(gateway, { model: "openai/gpt-image-1.5", prompt: "a fox" });
    expect(job).toMatchObject({ status: "failed", error: { code: "upstream_error" } });
    expect(job.error?.message).toContain("answers with a redirect");
  });

  test("OpenAI: the models that it names itself are drawn with by its key alone", async () => {
    const lab = start("openai");
    gateway = await startApp({ vendors: [lab.vendor] });
    lab.upstream.always("/v1/images/generations", json({ data: [{ b64_json: PNG_BASE64 }] }));
    for (const name of [
      "gpt-image-2.5-sunburst",
      "gpt-image-2.5-flare",
      "gpt-image-2.6-sunburst",
      "gpt-image-2.6-flare",
    ])
      expect(await draw(gateway, { model: `openai/${name}`, prompt: "a fox" })).toMatchObject({ status: "succeeded" });
  });

  test("refusals are blocked, pages are failed, and neither is sent twice", async () => {
    const lab = start("openai");
    gateway = await startApp({ vendors: [lab.vendor] });
    const refusal = { error: { code: "moderation_blocked", type: "image_generation_user_error", message: "no" } };
    lab.upstream.answer("/v1/images/generations", json(refusal, { status: 400 }), html(200));
    const asked = { model: "openai/gpt-image-2", prompt: "a fox" };
    expect(await draw(gateway, asked)).toMatchObject({ status: "blocked", error: { code: "content_policy" } });
    expect(await draw(gateway, asked)).toMatchObject({ status: "failed" });
    expect(lab.upstream.calls).toHaveLength(2);
    expect(lab.upstream.unexpected).toEqual([]);
  });

  test("OpenRouter: models that only draw are asked where they take no chat, for ratios that each of them lists", async () => {
    const seven = ["1:1", "3:2", "2:3", "4:3", "3:4", "16:9", "9:16"];
    const listed: Record<string, readonly string[]> = {
      "openai/gpt-image-2": [...seven, "21:9"],
      "openai/gpt-image-2.5-sunburst": [...seven, "21:9"],
      "black-forest-labs/flux-3-image": [...seven, "4:5", "5:4", "21:9"],
      "black-forest-labs/flux.2-pro": [...seven, "21:9"],
      "bytedance-seed/seedream-5-0-pro": [...seven, "4:5", "5:4", "21:9"],
      "x-ai/grok-imagine-image-2.0": [...seven, "1:2", "2:1"],
      "qwen/qwen-image-3-pro": [...seven, "4:5", "5:4", "1:2", "2:1", "1:4", "4:1"],
      "tencent/hy-image-v3.5-preview": [...seven, "4:5", "5:4"],
      "krea/krea-2-large": ["1:1", "3:2", "2:3", "4:3", "16:9", "9:16", "4:5"],
      "recraft/recraft-v4.1": ["1:1", "4:3", "3:4", "16:9", "9:16"],
      "sourceful/riverflow-v2.5-pro": [...seven, "21:9"],
      "microsoft/mai-image-2.6": seven,
      "meta/muse-image": [],
    };
    const lab = start("openrouter");
    gateway = await startApp({ vendors: [{ ...lab.vendor, models: "any" }] });
    const refused = (status: number, message: string) => json({ error: { code: status, message } }, { status });
    lab.upstream.always("/api/v1/chat/completions", ({ json: asked }) =>
      refused(404, `${(asked as { model: string }).model} cannot be used with the chat/completions endpoint`),
    );
    lab.upstream.always("/api/v1/images", ({ json: asked }) => {
      const { model, aspect_ratio: ratio } = asked as { model: string; aspect_ratio?: string };
      if (ratio === undefined ? listed[model]!.length === 0 : listed[model]!.includes(ratio))
        return json({ created: 1, data: [{ b64_json: PNG_BASE64 }] });
      return refused(400, `No provider for ${model} supports the requested parameter(s): aspect_ratio`);
    });
    const sizes = [
      "1024x1024",
      "1536x1024",
      "1024x1280",
      "1280x1024",
      "1024x1365",
      "1920x1080",
      "2560x1080",
      "1080x2560",
    ];
    for (const model of Object.keys(listed)) {
      for (const size of sizes) {
        const job = await draw(gateway, { model: `openrouter/${model}`, prompt: "a fox", size });
        expect([model, size, job.status, job.error?.message]).toEqual([model, size, "succeeded", undefined]);
      }
    }
  });

  test("the next vendor of a model is asked for a ratio of its own, and the job says which", async () => {
    const [openai, openrouter] = [start("openai"), start("openrouter")];
    gateway = await startApp({ vendors: [openai.vendor, openrouter.vendor] });
    openai.upstream.answer("/v1/images/generations", json({ error: { message: "wrong key" } }, { status: 401 }));
    openrouter.upstream.answer("/api/v1/images", json({ created: 1, data: [{ b64_json: PNG_BASE64 }] }));
    const job = await draw(gateway, { model: "openai/gpt-image-2", prompt: "a fox", size: "2048x1024" });
    // Seen from outside it has asked for their models before.
    const [first, second] = [openai, openrouter].map(({ upstream }) => upstream.calls.find(({ json }) => json));
    expect(first?.json).toMatchObject({ size: "2048x1024" });
    expect(second?.json).toMatchObject({ aspect_ratio: "16:9" });
    expect(job).toMatchObject({ status: "succeeded", aspect_ratio: "16:9" });
  });

  test("a vendor that only draws takes any name, draws with it, and does not chat", async () => {
    const lab = start("replicate");
    gateway = await startApp({ vendors: [lab.vendor] });
    lab.upstream.answer("/v1/models/owner/some-model/predictions", json({ id: "p1", status: "starting" }));
    lab.upstream.answer(
      "/v1/predictions/p1",
      json({ id: "p1", status: "succeeded", output: `data:image/png;base64,${PNG_BASE64}` }),
    );
    const model = "replicate/owner/some-model";
    expect(await draw(gateway, { model, prompt: "a fox" })).toMatchObject({ status: "succeeded" });
    const chat = await gateway.post("/v1/chat/completions", { model, messages: [{ role: "user", content: "hi" }] });
    expect(chat.status).toBeWithin(400, 405);
    expect(lab.upstream.calls).toHaveLength(2);
  });

  test("work that a vendor does by name outlives the gateway: asked for again, sent once", async () => {
    const lab = start("replicate");
    const path = join(mkdtempSync(join(tmpdir(), "sluice-images-")), "sluice.db");
    const first = openStore(path);
    gateway = await startApp({ vendors: [lab.vendor], store: first });
    lab.upstream.answer("/v1/models/owner/m/predictions", json({ id: "p1", status: "starting" }));
    lab.upstream.always("/v1/predictions/p1", json({ id: "p1", status: "processing" }));
    const { id } = (await (
      await gateway.post("/v1/images/generations", { model: "replicate/owner/m", prompt: "x" })
    ).json()) as Job;
    await lab.upstream.called(1);
    const { key } = gateway;
    await gateway.stop();
    lab.upstream.always(
      "/v1/predictions/p1",
      json({ id: "p1", status: "succeeded", output: `data:image/png;base64,${PNG_BASE64}` }),
    );
    const config = { ...PLAIN_CONFIG, dataFolder: dirname(path) };
    const store = openStore(path);
    const log = createLog({ level: "error", write: () => {} });
    const again = createApp({ config, vendors: [lab.vendor], store, clock: systemClock, log, version: "0.0.0-test" });
    gateway = undefined;
    const poll = new Request(`http://localhost/v1/images/generations/${id}`, {
      headers: { authorization: `Bearer ${key}`, prefer: "wait=5" },
    });
    expect(await (await again.gateway.answerRequest(poll)).json()).toMatchObject({ id, status: "succeeded" });
    expect(lab.upstream.calls.filter(({ method }) => method === "POST")).toHaveLength(1);
    await again.stop();
    store.close();
    rmSync(dirname(path), { recursive: true });
  });

  test("an image link into the gateway's own network is not fetched", async () => {
    const lab = start("xai");
    gateway = await startApp({ vendors: [lab.vendor] });
    lab.upstream.answer("/v1/images/generations", json({ data: [{ url: "https://169.254.169.254/image.png" }] }));
    const job = await draw(gateway, { model: "xai/grok-imagine-image-2.0", prompt: "a fox" });
    expect(job).toMatchObject({ status: "failed" });
    expect(job.error!.message).toContain("could not be fetched");
  });
});

describe("the catalog", () => {
  test("every route of an image model leads to a vendor that draws, at a ratio it has", () => {
    const images = builtInRows.filter(({ modality }) => modality === "image");
    expect(images.length).toBeGreaterThanOrEqual(16);
    for (const { id, routes = [] } of images.filter((row) => !row.id.startsWith("sluice/"))) {
      for (const { vendor, model } of routes) {
        const known = registry.find((row) => row.id === vendor);
        const row = known && rowOf(known);
        expect([id, vendor, row !== undefined]).toEqual([id, vendor, true]);
        const facts = row!.models.find(({ match }) => match.test(model))!;
        expect(facts.ratios).toContain("1:1");
      }
    }
  });

  test("an image model behind a vendor's own prefix is drawn there first, with that vendor's key alone", async () => {
    const own = (id: string) => IMAGE_ROW_NAMES.find((name) => id.startsWith(`${name}/`));
    const images = builtInRows.filter(({ id, modality }) => modality === "image" && own(id) !== undefined);
    expect(images.map(({ id, routes }) => [id, routes?.[0]?.vendor])).toEqual(images.map(({ id }) => [id, own(id)]));

    const lab = start("google");
    gateway = await startApp({ vendors: [lab.vendor] });
    const parts = [{ inlineData: { mimeType: "image/png", data: PNG_BASE64 } }];
    lab.upstream.answer(
      "/v1beta/models/gemini-nano-banana-2.1:generateContent",
      json({ candidates: [{ content: { role: "model", parts }, finishReason: "STOP" }] }),
    );
    const asked = { model: "google/gemini-nano-banana-2.1", prompt: "a fox", size: "2048x512" };
    expect(await draw(gateway, asked)).toMatchObject({ status: "succeeded", aspect_ratio: "4:1" });
    expect(lab.upstream.calls).toHaveLength(1);
  });
});

describe("models that a vendor's own list tells of as drawing", () => {
  const image = { data: [{ b64_json: PNG_BASE64 }] };
  const drawn = { headers: { "content-type": "image/png" }, parts: [PNG], framing: "length", finish: "end" } as const;
  test.each([
    [
      "together",
      "black-forest-labs/FLUX.1-schnell",
      ["/v1/models", [{ id: "black-forest-labs/FLUX.1-schnell", type: "image" }]],
      ["/v1/images/generations", json(image)],
    ],
    [
      "fireworks",
      "accounts/fireworks/models/flux-1-schnell-fp8",
      [
        "/inference/v1/models",
        {
          data: [
            {
              id: "accounts/fireworks/models/flux-1-schnell-fp8",
              kind: "FLUMINA_BASE_MODEL",
              supports_chat: false,
            },
          ],
        },
      ],
      ["/inference/v1/workflows/accounts/fireworks/models/flux-1-schnell-fp8/text_to_image", drawn],
    ],
    [
      "openrouter",
      "krea/krea-3",
      ["/api/v1/models", { data: [{ id: "krea/krea-3", architecture: { output_modalities: ["image"] } }] }],
      ["/api/v1/images", json({ created: 1, data: [{ b64_json: PNG_BASE64 }] })],
    ],
  ] as const)("%s: are image models, draw, and do not chat", async (vendor, name, [path, list], [asked, answer]) => {
    const lab = start(vendor);
    gateway = await startApp({ vendors: [lab.vendor] });
    lab.upstream.answer(path, json(list));
    await gateway.app.discovery.askAll();
    const model = `${vendor}/${name}`;
    for (const [modality, there] of [
      ["image", true],
      ["chat", false],
    ] as const) {
      const listing = await gateway.call(`/v1/models?modality=${modality}`);
      const { data } = (await listing.json()) as { data: { id: string }[] };
      expect([modality, data.some(({ id }) => id === model)]).toEqual([modality, there]);
    }
    lab.upstream.answer(asked, answer);
    expect(await draw(gateway, { model, prompt: "a fox" })).toMatchObject({ status: "succeeded" });
    const chat = await gateway.post("/v1/chat/completions", { model, messages: [{ role: "user", content: "hi" }] });
    expect(chat.status).toBe(400);
    expect(linesOf(lab.upstream.calls)).toEqual([`GET ${path}`, `POST ${asked}`]);
  });
});

describe("image servers of this machine", () => {
  const local = (id: string, upstream: Upstream): VendorRow => ({
    ...registry.find((row) => row.id === id)!,
    baseUrl: upstream.url,
  });

  function serve(): Upstream {
    const upstream = startUpstream();
    open.push(upstream);
    return upstream;
  }

  test("are found with their models, and draw with them", async () => {
    const [automatic, comfy] = [serve(), serve()];
    automatic.always(
      "/sdapi/v1/sd-models",
      json([{ title: "a [1]", model_name: "sd_xl_base_1.0" }, { model_name: "dream shaper 8" }, { model_name: " " }]),
    );
    const names = ["sdxl/one.safetensors", "two.safetensors"];
    comfy.always(
      "/object_info/CheckpointLoaderSimple",
      json({ CheckpointLoaderSimple: { input: { required: { ckpt_name: [names, {}] } } } }),
    );
    const found = await probeLocal([local("automatic1111", automatic), local("comfyui", comfy)], { timeoutMs: 5_000 });
    expect(found.map(({ vendor, models }) => [vendor.id, models])).toEqual([
      ["automatic1111", named("sd_xl_base_1.0", "dream shaper 8")],
      ["comfyui", named(...names)],
    ]);
    gateway = await startApp();
    for (const { vendor } of found) gateway.app.addVendor(vendor);
    await gateway.app.discovery.askAll();
    await until(() => gateway!.app.catalog.find("comfyui/two.safetensors") !== undefined, "the list of models");
    const listed = gateway.app.catalog.list("image").map(({ id }) => id);
    expect(listed).toContain("automatic1111/sd_xl_base_1.0");
    expect(listed).toContain("comfyui/sdxl/one.safetensors");
    expect(gateway.app.catalog.list("chat").some(({ id }) => id.startsWith("comfyui/"))).toBe(false);
    for (const name of ["sd_xl_base_1.0", "dream shaper 8"]) {
      automatic.answer("/sdapi/v1/txt2img", json({ images: [PNG_BASE64] }));
      expect(await draw(gateway, { model: `automatic1111/${name}`, prompt: "a fox" })).toMatchObject({
        status: "succeeded",
      });
    }
  });

  test("whatever else lives at their ports is none", async () => {
    const upstream = serve();
    for (const answer of [json({}), json({ detail: "Not Found" }, { status: 404 }), html(200), json("x")]) {
      upstream.always("/sdapi/v1/sd-models", answer);
      upstream.always("/object_info/CheckpointLoaderSimple", answer);
      const rows = [local("automatic1111", upstream), local("comfyui", upstream)];
      expect(await probeLocal(rows, { timeoutMs: 5_000 })).toEqual([]);
    }
  });

  test("newer ComfyUI writes its choices elsewhere", async () => {
    const upstream = serve();
    upstream.always(
      "/object_info/CheckpointLoaderSimple",
      json({ CheckpointLoaderSimple: { input: { required: { ckpt_name: ["COMBO", { options: ["a.ckpt"] }] } } } }),
    );
    const [found] = await probeLocal([local("comfyui", upstream)], { timeoutMs: 5_000 });
    expect(found?.models).toEqual(named("a.ckpt"));
  });
});
