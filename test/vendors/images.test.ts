import { afterEach, describe, expect, test } from "bun:test";
import { GatewayError } from "../../src/canon/errors.ts";
import type { ImageStep } from "../../src/vendors/image-upstream.ts";
import { imageRows } from "../../src/vendors/images/rows.ts";
import { ranOf } from "../../src/vendors/retry-policy.ts";
import { html, json, neverAnswer, redirect, reset, type Script, truncatedJson } from "../support/upstream.ts";
import { BFL_BLOCKED, CASES, play, type VendorCase } from "./image-cases.ts";
import { follow, type Lab, type LabOptions, linesOf, openLab, PNG, RESULT, request, VENDOR_KEY } from "./image-lab.ts";

let open: Lab[] = [];
afterEach(() => {
  const all = open;
  open = [];
  for (const lab of all) {
    lab.close();
    expect(linesOf(lab.upstream.unexpected)).toEqual([]);
    expect(lab.faults).toEqual([]);
  }
});

function start(id: string, options?: LabOptions): Lab {
  const lab = openLab(id, options);
  open.push(lab);
  return lab;
}

const at = (value: unknown, path: string): unknown =>
  path.split(".").reduce<unknown>((inner, key) => (inner as Record<string, unknown> | undefined)?.[key], value);

const wanted = ({ model, ratio }: VendorCase) => request({ model, ratio });
const isPolled = ({ calls }: VendorCase) => calls.length > 1;
const thrownBy = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
/** A JSON answer behind a byte order mark; an image as it is. */
function withMark(script: Script): Script {
  if (typeof script === "function") return script;
  const [first, ...parts] = script.parts ?? [];
  return typeof first === "string" ? { ...script, parts: [`\ufeff${first}`, ...parts] } : script;
}
const title = (each: VendorCase) => `${each.id} ${each.model}`;

test("every row is tried, and every row is sound", () => {
  const tried = new Set(CASES.map((each) => each.id));
  const same = new Set(["azure", "vertex", "compatible"]);
  expect(Object.keys(imageRows).filter((id) => !tried.has(id) && !same.has(id))).toEqual([]);
  for (const [id, row] of Object.entries(imageRows)) {
    expect([id, row.models.at(-1)?.match.test("")]).toEqual([id, true]);
    for (const { ratios, size, sizes, pixels, match } of row.models) {
      expect(ratios.length).toBeGreaterThan(0);
      expect(new Set(ratios).size).toBe(ratios.length);
      for (const ratio of ratios) expect(ratio).toMatch(/^[1-9]\d?:[1-9]\d?$/);
      // Every ratio can be said, whatever form the model takes.
      if (size === "pixels") expect([id, String(match), pixels !== undefined]).toEqual([id, String(match), true]);
      if (size === "fixed" && sizes) expect(Object.keys(sizes)).toEqual([...ratios]);
    }
    // Work that is asked for by name can be asked for.
    expect([id, row.wire.recovery === "resume"]).toEqual([id, row.wire.resume !== undefined]);
  }
});

for (const each of CASES) {
  describe(title(each), () => {
    test("succeeds: its calls, its fields, its key, the image's bytes", async () => {
      const lab = start(each.id);
      play(lab.upstream, each.wins(lab.upstream));
      expect(lab.draw.traits(each.model).ratios).toContain(each.ratio);
      const step = await follow(lab.draw, wanted(each));
      expect(step).toEqual({ kind: "image", bytes: expect.anything() });
      expect(Buffer.from((step as { bytes: Uint8Array }).bytes).equals(PNG)).toBe(true);
      expect(linesOf(lab.upstream.calls)).toEqual([...each.calls]);
      const asked = lab.upstream.calls[0]!;
      for (const [path, value] of Object.entries(each.asks))
        expect([path, at(asked.json, path)]).toEqual([path, value]);
      for (const call of lab.upstream.calls) {
        expect(call.headers["user-agent"]).toBe("sluice/test");
        if (each.auth) expect(call.headers[each.auth[0]]).toBe(each.auth[1].replace("KEY", VENDOR_KEY));
        else expect(JSON.stringify(call.headers)).not.toContain(VENDOR_KEY);
        // The key is in its header and nowhere else.
        expect(call.path + call.query + call.text).not.toContain(VENDOR_KEY);
      }
      // Results on other hosts go through the guarded fetch, which has no key to give.
      const isLinked = JSON.stringify(Object.values(each.wins(lab.upstream))).includes(RESULT);
      expect(lab.fetched).toEqual(isLinked ? [RESULT] : []);
    });

    test("succeeds where its JSON begins with a byte order mark", async () => {
      const lab = start(each.id);
      const marked = Object.entries(each.wins(lab.upstream)).map(([path, answers]) => [path, answers.map(withMark)]);
      play(lab.upstream, Object.fromEntries(marked));
      expect((await follow(lab.draw, wanted(each))).kind).toBe("image");
    });

    if (each.blocked.length > 0) {
      test("blocked, however it says so", async () => {
        for (const scripts of each.blocked) {
          const lab = start(each.id);
          play(lab.upstream, scripts);
          const step = await follow(lab.draw, wanted(each));
          expect([JSON.stringify(scripts), step.kind]).toEqual([JSON.stringify(scripts), "blocked"]);
          expect((step as { message: string }).message).toMatch(/content grounds/);
          expect(lab.fetched).toEqual([]);
        }
      });
    }

    test("failed, in words for the caller", async () => {
      const lab = start(each.id);
      play(lab.upstream, each.fails[0]);
      const step = await follow(lab.draw, wanted(each));
      expect(step.kind).toBe("failed");
      expect((step as { message: string }).message).toMatch(each.fails[1]);
      // Whatever it was, it is not tried again: it is the request's fault, or may have run.
      const { ran, fault } = step as ImageStep & { kind: "failed" };
      expect(ran === "maybe" || fault === true).toBe(true);
    });

    test("busy, without a key, without money, broken: told apart by whether it may have run", async () => {
      const lab = start(each.id);
      const words = { error: { message: `see https://inside.example/x, key sk-abcdefghijkl` } };
      const table: [number, object][] = [
        [429, { ran: "no", limited: true, retryAfterSeconds: 7 }],
        [503, { ran: "no", retryAfterSeconds: 7 }],
        [522, { ran: "no", retryAfterSeconds: 7 }],
        [401, { ran: "no", fault: true, elsewhere: true }],
        [402, { ran: "no", fault: true, elsewhere: true }],
        [404, { ran: "no", fault: true, elsewhere: true }],
        [500, { ran: "maybe" }],
        [502, { ran: "maybe" }],
        [520, { ran: "maybe" }],
      ];
      const whole = table.map(([status, expected]) => {
        return [status, expected, json(words, { status, headers: { "retry-after": "7" } })] as const;
      });
      // Its status tells it, also where its words break off.
      const cut = whole.map(([status, expected, answer]) => {
        return [status, expected, { ...answer, claimedLength: 100_000, finish: "cut" as const }] as const;
      });
      const held = { error: { code: 402, message: "no", metadata: { limit_source: "openrouter_in_flight_budget" } } };
      const limit = [table[0]?.[1] ?? {}, json(held, { status: 402, headers: { "retry-after": "7" } })] as const;
      for (const [status, expected, answer] of [...whole, ...cut, [402, ...limit] as const]) {
        lab.upstream.answer(each.path, answer);
        const step = await lab.draw.create(wanted(each), new AbortController().signal);
        const { message, ...rest } = step as ImageStep & { kind: "failed" };
        expect([status, rest]).toEqual([status, { kind: "failed", ...expected } as typeof rest]);
        expect(message).toMatch(/^[A-Z].*\.$/);
        expect(JSON.stringify(step)).not.toMatch(/inside\.example|sk-abc/);
      }
      expect(lab.upstream.calls).toHaveLength(2 * table.length + 1);
    });

    test("pages, half answers and redirects are no image", async () => {
      const lab = start(each.id);
      lab.upstream.answer(
        each.path,
        html(200),
        truncatedJson({ data: [{ b64_json: "x".repeat(100) }] }),
        json(null),
        json([]),
      );
      for (let turn = 0; turn < 4; turn++) {
        const step = await lab.draw.create(wanted(each), new AbortController().signal);
        expect(step.kind).toBe("failed");
        expect((step as { message: string }).message).not.toContain("<");
        lab.upstream.answer(each.path);
      }
      lab.upstream.reset();
      lab.upstream.answer(each.path, redirect("http://169.254.169.254/latest"));
      const thrown = await thrownBy(lab.draw.create(wanted(each), new AbortController().signal));
      expect(thrown).toMatchObject({ code: "upstream_error", retry: false });
      expect(lab.upstream.calls).toHaveLength(1);
      expect(lab.fetched).toEqual([]);
    });

    test("a lost connection may have run, a refused one has not", async () => {
      const lab = start(each.id);
      lab.upstream.answer(each.path, reset());
      const lost = await thrownBy(lab.draw.create(wanted(each), new AbortController().signal));
      expect(lost).toBeInstanceOf(GatewayError);
      expect(ranOf(lost as GatewayError)).toBe("unknown");
      lab.close();
      const refused = await thrownBy(lab.draw.create(wanted(each), new AbortController().signal));
      expect(refused).toMatchObject({ code: "upstream_unreachable" });
      expect(ranOf(refused as GatewayError)).toBe("no");
    });

    test("given up while it is slow: the call ends at once, with the caller's reason", async () => {
      const lab = start(each.id);
      lab.upstream.answer(each.path, neverAnswer());
      lab.upstream.always("/sdapi/v1/progress", json({ current_task: "" }));
      const giveUp = new AbortController();
      const work = thrownBy(lab.draw.create(wanted(each), giveUp.signal));
      const call = await lab.upstream.called(0);
      giveUp.abort(new Error("cancelled by its caller"));
      expect(await work).toEqual(new Error("cancelled by its caller"));
      // Of work that can be stopped the name is waited for a moment longer.
      if (!lab.draw.cancel) await call.whenAborted;
      // Already given up, nothing is asked.
      const before = lab.upstream.calls.filter(({ path }) => path === each.path).length;
      await thrownBy(lab.draw.create(wanted(each), giveUp.signal));
      expect(lab.upstream.calls.filter(({ path }) => path === each.path)).toHaveLength(before);
    });
  });
}

test("what a model says in the place of an image is a refusal where it says that it will not", async () => {
  const lab = start("openrouter");
  for (const [content, kind] of [
    ["Which fox? Film that is sensitive to light, or content moderation, is another matter.", "failed"],
    ["Your picture would be inappropriate.", "blocked"],
  ] as const) {
    lab.upstream.answer(
      "/api/v1/chat/completions",
      json({ choices: [{ finish_reason: "stop", message: { content } }] }),
    );
    const step = await lab.draw.create(request({ model: "google/gemini-3-pro-image" }), new AbortController().signal);
    expect([content, step.kind]).toEqual([content, kind]);
  }
});

test("a fault that repeats the prompt is no refusal, whatever the prompt says", async () => {
  const lab = start("fal");
  const detail = [
    { loc: ["body", "seed"], msg: "value is not an integer", type: "type_error", input: { prompt: "NSFW flagged" } },
  ];
  for (const answer of [
    json({ detail }, { status: 422 }),
    json({ detail: "model names are case-sensitive" }, { status: 422 }),
  ]) {
    lab.upstream.answer("/fal-ai/x", answer);
    const step = await lab.draw.create(request({ model: "fal-ai/x" }), new AbortController().signal);
    expect(step).toMatchObject({ kind: "failed", fault: true });
  }
  lab.upstream.answer("/fal-ai/x", json({ detail: [{ msg: "The prompt was flagged", type: "x" }] }, { status: 422 }));
  expect((await lab.draw.create(request({ model: "fal-ai/x" }), new AbortController().signal)).kind).toBe("blocked");
});

describe("work that has a name", () => {
  for (const each of CASES.filter((candidate) => isPolled(candidate) && candidate.id !== "lab")) {
    const start2 = () => {
      const lab = start(each.id);
      play(lab.upstream, each.wins(lab.upstream));
      return lab;
    };

    test(`${title(each)}: resumed by another process, the request sent once`, async () => {
      const lab = start2();
      const first = await lab.draw.create(wanted(each), new AbortController().signal);
      expect(first.kind).toBe("pending");
      const { resumeId, pollAfterMs } = first as ImageStep & { kind: "pending" };
      expect(pollAfterMs).toBeWithin(1_000, 2_001);
      expect(resumeId).not.toContain(VENDOR_KEY);
      const draw = lab.again();
      expect(draw.recovery).toBe("resume");
      let step = await draw.resume!(resumeId, wanted(each), new AbortController().signal);
      expect(step).toMatchObject({ kind: "pending", resumeId });
      step = await draw.resume!(resumeId, wanted(each), new AbortController().signal);
      expect(step.kind).toBe("image");
      expect(lab.upstream.calls.filter(({ path }) => path === each.path)).toHaveLength(1);
    });

    test(`${title(each)}: a flapping vendor is asked again, and what it drew is not lost`, async () => {
      const lab = start2();
      const first = await lab.draw.create(wanted(each), new AbortController().signal);
      const { resumeId } = first as ImageStep & { kind: "pending" };
      const path = each.calls[1]!.split(" ")[1]!;
      const poll = () => lab.draw.resume!(resumeId, wanted(each), new AbortController().signal);
      const rest = [await thrownBy(poll())];
      expect(rest).toEqual([undefined]);
      lab.upstream.reset();
      // A lost GET is asked a second time by fetch itself.
      const losses = each.calls[1]!.startsWith("GET") ? [reset(), reset()] : [reset()];
      const faults = [html(502), json({}, { status: 429 }), html(500), json({ detail: "Not found" }, { status: 404 })];
      // ComfyUI's history says nothing of work that is not done.
      const half = { ...html(200), parts: ['{"status": "IN_'] };
      const pages = each.id === "comfyui" ? [] : [html(200), half, json({}), json(null)];
      lab.upstream.answer(path, ...faults, ...pages, ...losses);
      for (const _ of [...faults, ...pages]) {
        const step = await poll();
        expect(step).toMatchObject({ kind: "failed", ran: "no" });
        expect(step).not.toContainKey("fault");
      }
      expect(await thrownBy(poll())).toBeInstanceOf(GatewayError);
      play(lab.upstream, each.wins(lab.upstream));
      lab.upstream.answer(path);
      expect((await poll()).kind).toBe("pending");
      expect((await poll()).kind).toBe("image");
    });

    test(`${title(each)}: a name that is none is never asked for`, async () => {
      const lab = start(each.id);
      for (const name of [
        "../../v1/account",
        "https://evil.example/x?id=1",
        "http://127.0.0.1:1/",
        "a b",
        "/x/../requests/1",
        "",
      ]) {
        if (each.id === "fireworks") continue;
        const step = await lab.draw.resume!(name, wanted(each), new AbortController().signal);
        expect(step).toMatchObject({ kind: "failed", fault: true });
      }
      expect(lab.upstream.calls).toEqual([]);
    });
  }

  test("a poll that is never answered is given up by itself, the work is not", async () => {
    const lab = start("replicate", { pollCallMs: 30 });
    lab.upstream.answer("/v1/predictions/p1", neverAnswer());
    const poll = () => lab.draw.resume!("p1", request(), new AbortController().signal);
    expect(await poll()).toMatchObject({ kind: "failed", ran: "no" });
    await lab.upstream.calls[0]!.whenAborted;
    const slow = start("replicate");
    slow.upstream.always("/v1/predictions/p1", json({ id: "p1", status: "processing" }));
    expect((await slow.draw.resume!("p1", request(), new AbortController().signal)).kind).toBe("pending");
  });

  test("Black Forest Labs: moderated tasks, and names of other hosts", async () => {
    for (const status of ["Request Moderated", "Content Moderated"]) {
      const lab = start("bfl");
      play(lab.upstream, BFL_BLOCKED(lab.upstream, status));
      expect((await follow(lab.draw, request({ model: "flux-kontext-pro" }))).kind).toBe("blocked");
    }
    for (const status of ["Error", "Failed", "Task not found"]) {
      const lab = start("bfl");
      play(lab.upstream, BFL_BLOCKED(lab.upstream, status));
      expect(await follow(lab.draw, request({ model: "flux-kontext-pro" }))).toMatchObject({
        kind: "failed",
        ran: "maybe",
      });
    }
    const lab = start("bfl");
    lab.upstream.answer(
      "/v1/flux-2-pro",
      json({ id: "t", polling_url: "https://api.us1.bfl.ai.evil.example/get?id=t" }),
    );
    const step = await follow(lab.draw, request({ model: "flux-2-pro" }));
    expect(step.kind).toBe("failed");
    expect((step as { message: string }).message).toContain("not its own");
    expect(lab.upstream.calls).toHaveLength(1);
  });

  test("Black Forest Labs: a task is at work until its state is an end", async () => {
    const lab = start("bfl");
    play(lab.upstream, {
      "/v1/flux-3-image": [json({ id: "t1", polling_url: `${lab.upstream.url}/v1/get_result?id=t1` })],
      "/v1/get_result": [
        ...["Pending", "Reasoning", "Generating"].map((status) => json({ id: "t1", status })),
        json({ id: "t1", status: "Ready", result: { sample: RESULT } }),
      ],
    });
    expect((await follow(lab.draw, request({ model: "flux-3-image" }))).kind).toBe("image");
  });

  test("fal: a result that lies behind the request's place is asked for there", async () => {
    const lab = start("fal");
    const place = "/fal-ai/flux/requests/r-1";
    const response_url = `${lab.upstream.url}${place}/response`;
    play(lab.upstream, {
      "/fal-ai/flux/dev": [json({ request_id: "r-1", response_url })],
      [`${place}/status`]: [json({ status: "COMPLETED", response_url })],
      [`${place}/response`]: [json({ images: [{ url: RESULT }] })],
    });
    expect((await follow(lab.draw, request({ model: "fal-ai/flux/dev" }))).kind).toBe("image");
    expect(linesOf(lab.upstream.calls)).toEqual([
      "POST /fal-ai/flux/dev",
      `GET ${place}/status`,
      `GET ${place}/response`,
    ]);
  });

  test("fal: a request that its servers failed has ended, and its result is not asked for again and again", async () => {
    const lab = start("fal");
    const resume = (id: string, status: object, result: Script) => {
      const place = `/fal-ai/flux/requests/${id}`;
      lab.upstream.answer(`${place}/status`, json({ status: "COMPLETED", ...status }));
      lab.upstream.answer(place, result);
      return lab.draw.resume!(place, request({ model: "fal-ai/flux/dev" }), new AbortController().signal);
    };
    const detail = "Runner disconnected";
    const ended = { error: detail, error_type: "runner_disconnected" };
    const step = await resume("r-1", ended, json({ detail, error_type: ended.error_type }, { status: 503 }));
    expect(step).toEqual({ kind: "failed", message: `The vendor gave no image. It says: ${detail}`, ran: "maybe" });
    const flagged = { loc: ["body"], msg: "flagged by a content checker", type: "content_policy_violation" };
    const refused = { error: "Unprocessable Entity", error_type: "content_policy_violation" };
    expect((await resume("r-2", refused, json({ detail: [flagged] }, { status: 422 }))).kind).toBe("blocked");
    // One that cannot be had for a moment.
    expect(await resume("r-3", {}, json({ detail: "Gateway Timeout" }, { status: 504 }))).toMatchObject({ ran: "no" });
  });

  test("the vendor is told to stop what nobody waits for", async () => {
    const signal = new AbortController().signal;
    const replicate = start("replicate");
    replicate.upstream.answer("/v1/predictions/p1/cancel", json({ id: "p1", status: "canceled" }));
    await replicate.draw.cancel!("p1", signal);
    expect(linesOf(replicate.upstream.calls)).toEqual(["POST /v1/predictions/p1/cancel"]);

    const fal = start("fal");
    fal.upstream.answer(
      "/fal-ai/flux/requests/r-1/cancel",
      json({ status: "CANCELLATION_REQUESTED" }, { status: 202 }),
    );
    await fal.draw.cancel!("/fal-ai/flux/requests/r-1", signal);
    expect(linesOf(fal.upstream.calls)).toEqual(["PUT /fal-ai/flux/requests/r-1/cancel"]);
    // Without a name there is nothing to stop, and nobody is asked.
    await fal.draw.cancel!(undefined, signal);
    expect(fal.upstream.calls).toHaveLength(1);
    fal.upstream.answer("/fal-ai/flux/requests/r-1/cancel", json({ status: "ALREADY_COMPLETED" }, { status: 400 }));
    expect(await thrownBy(fal.draw.cancel!("/fal-ai/flux/requests/r-1", signal))).toBeInstanceOf(Error);
  });

  test.each([
    ["replicate", "/v1/models/a/b/predictions", { id: "p1", status: "starting" }, "POST /v1/predictions/p1/cancel"],
    ["fal", "/a/b", { request_id: "r-1" }, "PUT /a/b/requests/r-1/cancel"],
  ])("%s is told to stop what was given up before it had a name, once it has one", async (id, path, named, told) => {
    const lab = start(id);
    const name = Promise.withResolvers<void>();
    lab.upstream.answer(path, async () => {
      await name.promise;
      return json(named);
    });
    lab.upstream.always(told.slice(told.indexOf("/")), json({ id: "p1", status: "canceled" }));
    const giveUp = new AbortController();
    const work = thrownBy(lab.draw.create(request({ model: "a/b" }), giveUp.signal));
    await lab.upstream.called(0);
    giveUp.abort(new Error("enough"));
    expect(await work).toEqual(new Error("enough"));
    expect(lab.upstream.calls).toHaveLength(1);
    name.resolve();
    await lab.upstream.called(1);
    expect(linesOf(lab.upstream.calls)).toEqual([`POST ${path}`, told]);
    expect(lab.faults).toEqual([]);
  });

  test("ComfyUI: what was kept is taken, not its preview", async () => {
    const each = CASES.find(({ id }) => id === "comfyui")!;
    const lab = start("comfyui");
    play(lab.upstream, each.wins(lab.upstream));
    await follow(lab.draw, wanted(each));
    const view = new URLSearchParams(lab.upstream.calls.at(-1)!.query);
    expect(Object.fromEntries(view)).toEqual({ filename: "sluice_1 a.png", subfolder: "x", type: "output" });
  });

  test("ComfyUI: the node that is refused is told, and not only that one is", async () => {
    const lab = start("comfyui");
    const missing = { message: "Value not in list", details: "ckpt_name: 'm' not in ['sd_xl_base_1.0.safetensors']" };
    const refusal = {
      error: { type: "prompt_outputs_failed_validation", message: "Prompt outputs failed validation", details: "" },
      node_errors: { model: { errors: [missing], dependent_outputs: ["saved"], class_type: "CheckpointLoaderSimple" } },
    };
    lab.upstream.answer("/prompt", json(refusal, { status: 400 }));
    const step = await lab.draw.create(request({ model: "m" }), new AbortController().signal);
    expect(step).toMatchObject({ kind: "failed", ran: "no", fault: true });
    const said = "CheckpointLoaderSimple: Value not in list: ckpt_name: 'm' not in ['sd_xl_base_1.0.safetensors']";
    expect((step as { message: string }).message).toContain(said);
  });

  test("ComfyUI interrupts only this work, and takes waiting work out of the queue", async () => {
    const signal = new AbortController().signal;
    for (const [running, expected] of [
      [[[0, "c-1", {}]], "POST /interrupt"],
      [[[0, "somebody-else", {}]], "POST /queue"],
    ] as const) {
      const lab = start("comfyui");
      lab.upstream.answer("/queue", json({ queue_running: running, queue_pending: [] }), json({}));
      lab.upstream.always("/interrupt", json({}));
      await lab.draw.cancel!("c-1", signal);
      expect(linesOf(lab.upstream.calls)).toEqual(["GET /queue", expected]);
      expect(lab.upstream.calls[1]!.text).toContain("c-1");
    }
  });

  test("AUTOMATIC1111 interrupts an image that is given up, if it is the one being drawn", async () => {
    for (const mine of [true, false]) {
      const lab = start("automatic1111");
      lab.upstream.answer("/sdapi/v1/txt2img", neverAnswer());
      const giveUp = new AbortController();
      const work = thrownBy(lab.draw.create(request(), giveUp.signal));
      const call = await lab.upstream.called(0);
      const { force_task_id: task } = call.json as { force_task_id: string };
      lab.upstream.answer("/sdapi/v1/progress", json({ current_task: mine ? task : "task(other)" }));
      lab.upstream.answer("/sdapi/v1/interrupt", json({}));
      giveUp.abort(new Error("enough"));
      expect(await work).toEqual(new Error("enough"));
      await lab.upstream.called(mine ? 2 : 1);
      const lines = linesOf(lab.upstream.calls).slice(1);
      expect(lines).toEqual(["GET /sdapi/v1/progress", ...(mine ? ["POST /sdapi/v1/interrupt"] : [])]);
    }
  });
});
