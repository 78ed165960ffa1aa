import { deflateSync } from "node:zlib";
import type { ImageRequest, ImageStep, ImageUpstream } from "../../src/vendors/image-upstream.ts";
import type { ImageTools } from "../../src/vendors/images/engine.ts";
import { createImageUpstreams } from "../../src/vendors/images/index.ts";
import type { GuardedFetch } from "../../src/vendors/images/result.ts";
import { registry } from "../../src/vendors/registry.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { type Call, startUpstream, type Upstream } from "../support/upstream.ts";

function chunk(name: string, data: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from(name, "latin1"), data]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(Bun.hash.crc32(body));
  return Buffer.concat([length, body, sum]);
}

/** A real PNG of one colour. */
export function makePng(width = 4, height = 3): Uint8Array {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  const rows = Buffer.alloc(height * (1 + width * 3), 0x7f);
  for (let row = 0; row < height; row++) rows[row * (1 + width * 3)] = 0;
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([
    signature,
    chunk("IHDR", head),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", new Uint8Array()),
  ]);
}

export const PNG = makePng();
export const PNG_BASE64 = Buffer.from(PNG).toString("base64");
export const SOURCE = { bytes: makePng(8, 8), type: "image/png" } as const;
export const SOURCE_BASE64 = Buffer.from(SOURCE.bytes).toString("base64");
/** Where vendors' results lie; nothing is there but what a test puts there. */
export const RESULT = "https://results.example/one.png";
export const VENDOR_KEY = "vendor-key-0123456789";

export function request(more: Partial<ImageRequest> = {}): ImageRequest {
  return { model: "some-model", prompt: "a red fox", ratio: "1:1", key: "3f1c9b9e-job", ...more };
}

/** A vendor's fake, what draws for it, and what was fetched outside of it. */
export type Lab = {
  upstream: Upstream;
  vendor: Vendor;
  draw: ImageUpstream;
  /** What the guarded fetch finds. */
  files: Map<string, { status: number; body: Uint8Array } | Error>;
  /** Addresses the guarded fetch was asked for. */
  fetched: string[];
  faults: unknown[];
  /** What draws for the same vendor after a new start: nothing of the first is left. */
  again(): ImageUpstream;
  close(): void;
};

export type LabOptions = {
  vendor?: Partial<Vendor>;
  fetchResult?: GuardedFetch;
  pollCallMs?: number;
  clock?: ImageTools["clock"];
};

/** A vendor of the registry (or, by another id, one of the file), its base URL led to a fake of it. */
export function openLab(id: string, { vendor: more = {}, fetchResult, pollCallMs, clock }: LabOptions = {}): Lab {
  const upstream = startUpstream();
  const known = registry.find((row) => row.id === id);
  const path = known ? new URL(known.baseUrl.replace(/\{\w+\}/g, "x")).pathname.replace(/\/$/, "") : "/v1";
  const {
    local: _local,
    env: _env,
    ...row
  } = known ?? {
    ...({ id, name: id, dialect: "chat", baseUrl: "", auth: "bearer", models: "any", quirks: {} } as const),
  };
  const vendor = { ...row, baseUrl: `${upstream.url}${path}`, apiKey: VENDOR_KEY, ...more } as Vendor;
  const files: Lab["files"] = new Map([[RESULT, { status: 200, body: PNG }]]);
  const fetched: string[] = [];
  const faults: unknown[] = [];
  const fromFiles: GuardedFetch = async (url) => {
    fetched.push(url);
    const found = files.get(url);
    if (found === undefined) throw new Error(`the test put nothing at ${url}`);
    if (found instanceof Error) throw found;
    return found;
  };
  const again = () => {
    const tools = {
      userAgent: "sluice/test",
      clock: clock ?? { now: () => 0, monotonic: () => 0 },
      fetchResult: fetchResult ?? fromFiles,
      ...(pollCallMs && { pollCallMs }),
    };
    return createImageUpstreams({ ...tools, onFault: (thrown) => faults.push(thrown) })(vendor)!;
  };
  return { upstream, vendor, draw: again(), files, fetched, faults, again, close: () => upstream.close() };
}

/** Polls before a test says that the work never ends. */
const MAX_POLLS = 20;

/** Follows the work to its end, without the pauses. */
export async function follow(draw: ImageUpstream, wanted: ImageRequest): Promise<ImageStep> {
  const { signal } = new AbortController();
  let step = await draw.create(wanted, signal);
  for (let polls = 0; step.kind === "pending"; polls++) {
    if (polls >= MAX_POLLS) throw new Error("the work never ends");
    const { source: _source, ...rest } = wanted;
    step = await draw.resume!(step.resumeId, rest, signal);
  }
  return step;
}

export const linesOf = (calls: readonly Call[]) => calls.map(({ method, path }) => `${method} ${path}`);
