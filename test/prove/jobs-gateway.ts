/**
 * A gateway of this project as a process of its own, for the proofs of image jobs: `bun test/prove/jobs-gateway.ts FOLDER VENDOR_URL PORT`. Its three
 * vendors are those of reliability 5.3: `plain` answers one blocking call, `named` gives work a name, `keyed` knows a request again by its key.
 * Prints its address once it listens.
 */
import { join } from "node:path";
import { lockDataFolder } from "../../src/db/folder-lock.ts";
import { openStore } from "../../src/db/open.ts";
import { systemClock } from "../../src/lib/clock.ts";
import { createLog } from "../../src/observe/log.ts";
import { startServer } from "../../src/server.ts";
import type { ImageStep, ImageUpstream, Recovery } from "../../src/vendors/image-upstream.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { PLAIN_CONFIG } from "../support/app.ts";
import { KINDS, UNIT_USD } from "./jobs-vendor.ts";

const RECOVERY: Record<(typeof KINDS)[number], Recovery> = { plain: "none", named: "resume", keyed: "resend" };

/** Reads what the counting vendor says: an image, JSON with a name, or a word of refusal. */
async function readStep(response: Response): Promise<ImageStep> {
  if (response.status === 202)
    return { kind: "pending", resumeId: ((await response.json()) as { id: string }).id, pollAfterMs: 250 };
  if (response.ok) return { kind: "image", bytes: await response.bytes() };
  const message = await response.text();
  return response.status === 403 ? { kind: "blocked", message } : { kind: "failed", message, ran: "maybe" };
}

function drawer(kind: (typeof KINDS)[number], url: string): ImageUpstream {
  return {
    recovery: RECOVERY[kind],
    traits: () => ({ ratios: ["1:1", "16:9"], takesSource: true }),
    create: async ({ prompt, key }, signal) =>
      readStep(await fetch(`${url}/${kind}`, { method: "POST", body: JSON.stringify({ prompt, key }), signal })),
    ...(kind === "named" && {
      resume: async (id: string, _request: unknown, signal: AbortSignal) =>
        readStep(await fetch(`${url}/${kind}/${id}`, { signal })),
    }),
  };
}

const [folder = "", vendorUrl = "", port = "0"] = process.argv.slice(2);
const vendors = KINDS.map(
  (id): Vendor => ({
    ...{ id, name: id, dialect: "chat", baseUrl: vendorUrl, auth: "none", models: "any", quirks: {} },
    images: drawer(id, vendorUrl),
  }),
);
const models = KINDS.map((id) => ({
  ...{ id: `${id}/draw`, modality: "image" as const, access_tier: "paid" as const },
  pricing: { per_image: UNIT_USD },
}));
const plan = { web_calls_per_minute: 1_000_000, image_jobs_in_flight: 1_000_000, images_per_day: 5 };
lockDataFolder(folder);
const store = openStore(join(folder, "sluice.db"));
const server = await startServer({
  config: { ...PLAIN_CONFIG, dataFolder: folder, models, plans: { proving: plan } },
  ...{ vendors, store, clock: systemClock, log: createLog({ level: "error" }), version: "0.0.0-prove" },
  ...{ host: "127.0.0.1", port: Number(port) },
});
process.on("SIGTERM", async () => {
  await server.stop();
  store.close();
  process.exit(0);
});
console.log(`listening on ${server.url}`);
