import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { isObject } from "../../src/lib/json.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";
import { GENERATION_PATH, startApp, type TestApp } from "../support/app.ts";
import { CONVERSATIONS } from "./conversation-arbitraries.ts";
import {
  apiKeyOf,
  CLIENTS,
  DIALECTS,
  type DialectName,
  FORMS,
  type LabVendor,
  type ModelKind,
  startVendor,
  upstreamModel,
} from "./lab.ts";
import { GREETING } from "./replies.ts";

const vendors = Object.fromEntries(DIALECTS.map((name) => [name, startVendor(name)])) as Record<DialectName, LabVendor>;
let app: TestApp;

function rowOf(dialect: DialectName): Vendor {
  const { wire, upstream } = vendors[dialect];
  return {
    id: `lab-${dialect}`,
    name: dialect,
    dialect,
    baseUrl: wire.base(upstream.url),
    auth: wire.auth,
    apiKey: apiKeyOf(dialect),
    models: "catalog",
    headers: dialect === "messages" ? { "anthropic-version": "2023-06-01" } : {},
    quirks: dialect === "chat" ? { reasoningReplay: "reasoning_content" } : {},
  };
}

const modelOf = (dialect: DialectName, kind: ModelKind) => ({
  id: `lab/${dialect}-${kind}`,
  capabilities: { tools: true, vision: true, reasoning: kind === "thinker" },
  ...(kind === "thinker" && {
    reasoning_efforts: { levels: ["low", "medium", "high"], default: "medium" },
    reasoning: { form: FORMS[dialect], omitted: "nothing" as const, always_reasons: dialect === "responses" },
  }),
  routes: [{ vendor: `lab-${dialect}`, model: upstreamModel(dialect, kind) }],
});

beforeAll(async () => {
  const models = DIALECTS.flatMap((dialect) => [modelOf(dialect, "plain"), modelOf(dialect, "thinker")]);
  app = await startApp({ vendors: DIALECTS.map(rowOf), models });
});
afterAll(async () => {
  await app.stop();
  for (const vendor of Object.values(vendors)) vendor.upstream.close();
});

const ways = CLIENTS.flatMap((client) =>
  DIALECTS.filter((upstream) => upstream !== client).flatMap((upstream) =>
    (["plain", "thinker"] as const).map((kind) => [client, upstream, kind] as const),
  ),
);

/** Repaired where the meaning is certain, else refused here: never passed on to fail at the vendor. */
describe("no conversation makes a strict vendor refuse", () => {
  test.each(ways)("of the %s dialect, with a %s vendor's %s model", async (client, upstream, kind) => {
    const vendor = vendors[upstream];
    await fc.assert(
      fc.asyncProperty(CONVERSATIONS[client], async (conversation) => {
        vendor.reset();
        vendor.play(GREETING);
        const body = { ...conversation, model: `lab/${upstream}-${kind}` };
        const response = await app.post(GENERATION_PATH[client], body);
        const answer: unknown = await response.json();
        expect(vendor.faults).toEqual([]);
        expect([response.status, vendor.upstream.calls.length]).toEqual(response.ok ? [200, 1] : [400, 0]);
        if (!response.ok) expect(isObject(answer) && isObject(answer["error"])).toBe(true);
      }),
      { numRuns: 25 },
    );
  });
});
