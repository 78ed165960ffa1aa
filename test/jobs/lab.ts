import type { Config } from "../../src/config/load.ts";
import type { NewJob } from "../../src/jobs/store.ts";
import type { Clock } from "../../src/lib/clock.ts";
import { encodePng, newPicture } from "../../src/vendors/builtin/canvas-picture.ts";
import type {
  ImageRequest,
  ImageStep,
  ImageTraits,
  ImageUpstream,
  Recovery,
} from "../../src/vendors/image-upstream.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { startApp, type TestApp } from "../support/app.ts";
import { until } from "../support/wait.ts";

/** A real picture of two by two pixels. */
export const PNG = await encodePng(newPicture(2, 2));
export const IMAGE: ImageStep = { kind: "image", bytes: PNG };

export type Script = ImageStep | Error | ((signal: AbortSignal) => Promise<ImageStep>);

/** A vendor that draws as it is told: each call takes the next script, and the last one again and again. */
export class Painter implements ImageUpstream {
  creates: ImageRequest[] = [];
  resumes: string[] = [];
  cancels: (string | undefined)[] = [];
  create_: Script[] = [IMAGE];
  resume_: Script[] = [IMAGE];
  /** Calls under way now, and the most there ever were. */
  running = 0;
  most = 0;
  ratios: readonly string[] = ["1:1", "3:2", "2:3", "16:9"];
  takesSource = true;

  constructor(readonly recovery: Recovery = "none") {
    if (recovery !== "resume") this.resume = undefined as never;
  }

  traits(): ImageTraits {
    return { ratios: this.ratios, takesSource: this.takesSource };
  }

  create(request: ImageRequest, signal: AbortSignal): Promise<ImageStep> {
    this.creates.push(request);
    return this.#play(this.create_, signal);
  }

  resume(resumeId: string, _request: unknown, signal: AbortSignal): Promise<ImageStep> {
    this.resumes.push(resumeId);
    return this.#play(this.resume_, signal);
  }

  cancel(resumeId: string | undefined): Promise<void> {
    this.cancels.push(resumeId);
    return Promise.resolve();
  }

  async #play(scripts: Script[], signal: AbortSignal): Promise<ImageStep> {
    const script = scripts.length > 1 ? scripts.shift()! : scripts[0]!;
    if (script instanceof Error) throw script;
    this.most = Math.max(this.most, ++this.running);
    try {
      return typeof script === "function" ? await script(signal) : script;
    } finally {
      this.running--;
    }
  }
}

const hanging = new Set<(step: ImageStep) => void>();

/** Ends every call that still hangs: a gateway that is stopped waits for it. */
export function endHanging(): void {
  for (const end of hanging) end({ kind: "failed", message: "The test is over.", ran: "maybe" });
  hanging.clear();
}

/** Waits until it is told to end, or aborted. */
export function hang(): { script: Script; end(step: ImageStep): void; aborted: Promise<unknown> } {
  const { promise, resolve, reject } = Promise.withResolvers<ImageStep>();
  const aborted = Promise.withResolvers<unknown>();
  const script = (signal: AbortSignal) => {
    signal.addEventListener("abort", () => {
      aborted.resolve(signal.reason);
      reject(signal.reason);
    });
    return promise;
  };
  promise.catch(() => undefined);
  hanging.add(resolve);
  return { script, end: resolve, aborted: aborted.promise };
}

export type Job = {
  id: string;
  object: string;
  status: string;
  created: number;
  model: string;
  prompt: string;
  aspect_ratio: string;
  style: string | null;
  data?: { url: string }[];
  error?: { type: string; code: string; message: string };
};

/** A job as it is accepted, with nothing special but these fields. */
export const newJob = (fields: Partial<NewJob>): NewJob => ({
  ...{ id: crypto.randomUUID(), accountId: "a", keyId: "k", createdMs: 0, model: "m", prompt: "p", ratio: "1:1" },
  ...{ token: "t", vendor: "v", upstreamModel: "u", width: null, height: null, style: null },
  ...{ sourceJob: null, sourceFile: null, runAfterMs: 0, deadlineMs: 0 },
  ...fields,
});

export const PRICE_NANO = 20_000_000n;
const MODELS: Config["models"] = [
  { id: "paint/priced", modality: "image", access_tier: "paid", pricing: { per_image: 0.02 } },
  { id: "paint/free", modality: "image", pricing: "free" },
  { id: "paint/unpriced", modality: "image", access_tier: "paid" },
  { id: "paint/by-token", modality: "image", access_tier: "paid", pricing: { input: 0, output: 30 } },
  { id: "paint/gratis", modality: "image", access_tier: "paid", pricing: { per_image: 0 } },
  { id: "paint/premium", modality: "image", access_tier: "premium", pricing: { per_image: 0.02 } },
  { id: "paint/chats", modality: "chat", pricing: "free" },
  { id: "paint/embeds", modality: "embedding", pricing: "free" },
  {
    ...{ id: "paint/two", modality: "image" as const, pricing: { per_image: 0.02 } },
    routes: [
      { vendor: "paint", model: "two" },
      { vendor: "paint2", model: "two-too" },
    ],
  },
  {
    ...{ id: "paint/twice", modality: "image" as const, pricing: { per_image: 0.02 } },
    routes: [
      { vendor: "paint", model: "large" },
      { vendor: "paint", model: "small" },
    ],
  },
  {
    ...{ id: "paint/same", modality: "image" as const, pricing: { per_image: 0.02 } },
    routes: [
      { vendor: "paint", model: "same" },
      { vendor: "paint2", model: "same" },
    ],
  },
];

export const paintVendor = (id: string, images: ImageUpstream): Vendor => ({
  ...{ id, name: id, dialect: "chat" as const, baseUrl: "http://paint.invalid/v1", auth: "none" as const },
  ...{ models: "any" as const, quirks: {}, images },
});

export type ImageLab = {
  gateway: TestApp;
  painter: Painter;
  second: Painter;
  post(body: unknown, headers?: Record<string, string>, key?: string): Promise<Response>;
  get(path: string, headers?: Record<string, string>, key?: string): Promise<Response>;
  /** Creates a job that must be accepted. */
  create(body?: Record<string, unknown>, headers?: Record<string, string>): Promise<Job>;
  show(id: string): Promise<Job>;
  cancel(id: string): Promise<Job>;
  /** The job once it is in this state. */
  ended(id: string): Promise<Job>;
  /** Rows of jobs as the store has them. */
  stored(): Record<string, unknown>[];
  /** Claims on allowance and wallet. */
  claims(): { id: string; state: string; counted: bigint; charged: bigint }[];
  join(plan: string): void;
  /** Another account with its key. */
  account(name: string, plan?: string): Promise<{ id: string; key: string }>;
  stop(): Promise<void>;
};

/** A gateway with vendors that draw as they are told. The account is on plan `local`. */
export async function startImageLab(
  options: {
    clock?: Clock;
    painter?: Painter;
    second?: Painter;
    plans?: Config["plans"];
    server?: Config["server"];
  } = {},
): Promise<ImageLab> {
  const { clock, painter = new Painter(), second = new Painter() } = options;
  const fast = { requests_per_minute: 100_000, web_calls_per_minute: 100_000, image_jobs_in_flight: 1_000 };
  const gateway = await startApp({
    vendors: [paintVendor("paint", painter), paintVendor("paint2", second)],
    models: MODELS,
    config: {
      ...(options.server && { server: options.server }),
      plans: {
        fast: { ...fast, images_per_day: 3 },
        pro_window: { ...fast, images_per_day: 0, spending_window_usd: 5 },
        ...options.plans,
      },
    },
    ...(clock && { clock }),
  });
  const { store } = gateway;
  const path = "/v1/images/generations";
  const authorized = (headers: Record<string, string> = {}, key = gateway.key) => ({
    authorization: `Bearer ${key}`,
    ...headers,
  });
  const lab: ImageLab = {
    gateway,
    painter,
    second,
    post: (body, headers, key) => gateway.post(path, body, { headers: authorized(headers, key) }),
    get: (rest, headers, key) => gateway.call(path + rest, { headers: authorized(headers, key) }),
    async create(body, headers) {
      const response = await lab.post({ model: "paint/priced", prompt: "a cat", ...body }, headers);
      if (response.status !== 202) throw new Error(`not accepted: ${response.status} ${await response.text()}`);
      return (await response.json()) as Job;
    },
    show: async (id) => (await (await lab.get(`/${id}`)).json()) as Job,
    cancel: async (id) =>
      (await (await gateway.call(`${path}/${id}`, { method: "DELETE", headers: authorized() })).json()) as Job,
    async ended(id) {
      const state = () =>
        store.database.query("SELECT ended_ms FROM image_job WHERE id = ?").get(id) as { ended_ms: unknown };
      await until(() => state().ended_ms !== null, `the end of job ${id}`);
      return lab.show(id);
    },
    stored: () => store.database.query("SELECT * FROM image_job ORDER BY sort_ms").all() as Record<string, unknown>[],
    claims: () =>
      store.database.query("SELECT id, state, counted, charged FROM unit_claim ORDER BY at_ms, id").all() as never,
    join(plan) {
      store.database.run("UPDATE account SET plan = ? WHERE id = ?", [plan, gateway.accountId]);
      gateway.app.keys.reload();
    },
    async account(name, plan = "local") {
      const id = `acct_${name}`;
      store.database.run("INSERT INTO account (id, name, plan, created_at) VALUES (?, ?, ?, 1)", [id, name, plan]);
      const { key } = await gateway.app.keys.create({ accountId: id, name, kind: "api" });
      return { id, key };
    },
    stop() {
      endHanging();
      return gateway.stop();
    },
  };
  return lab;
}
