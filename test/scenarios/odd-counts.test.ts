import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { readFlags } from "../../src/ledger/usage-rows.ts";
import { startApp, type TestApp, vendorAt } from "../support/app.ts";
import { json, sse, startUpstream, type Upstream } from "../support/upstream.ts";
import { ask, PATH } from "./lab.ts";
import { MODES, type RawUsage, SIDES, type Side, soundStream, WIRES } from "./wires.ts";

/** The window of the model, tokens. */
const WINDOW = 1_000;

let upstreams: Record<Side, Upstream>;
let app: TestApp;
beforeAll(async () => {
  upstreams = { chat: startUpstream(), messages: startUpstream() };
  app = await startApp({
    vendors: SIDES.map((side) => vendorAt(upstreams[side], side, side)),
    models: SIDES.map((side) => ({
      id: `lab/${side}`,
      context_length: WINDOW,
      pricing: { input: 1, output: 2 },
      routes: [{ vendor: side, model: "m" }],
    })),
  });
});
beforeEach(() => {
  app.log.length = 0;
});
afterAll(async () => {
  await app.stop();
  for (const upstream of Object.values(upstreams)) {
    expect(upstream.unexpected).toEqual([]);
    upstream.close();
  }
});

/** What a vendor says, and what is written down: nobody pays here, and still no row may say what cannot be (reliability 3.1 rule 6). */
const COUNTS: [said: RawUsage, input: number, output: number, suspect: boolean][] = [
  [{ input: 900, output: 80 }, 900, 80, false],
  [{ input: 2_000, output: 1_050 }, 2_000, 1_050, false],
  [{ input: 2_001, output: 80 }, 2_000, 80, true],
  [{ input: 900, output: 1_051 }, 900, 1_050, true],
  [{ input: 1e300, output: 1e18 }, 2_000, 1_050, true],
];
const TABLE = SIDES.flatMap((upstream) =>
  SIDES.flatMap((client) =>
    MODES.flatMap((mode) =>
      COUNTS.map(([said, input, output, suspect]) => ({ upstream, client, mode, said, input, output, suspect })),
    ),
  ),
);

test.each(TABLE)(
  "counts beyond the model's window are cut and flagged: $said.input and $said.output, $client from $upstream, $mode",
  async ({ upstream, client, mode, said, input, output, suspect }) => {
    const wire = WIRES[upstream];
    upstreams[upstream].answer(
      PATH[upstream],
      mode === "stream" ? sse(soundStream(wire, said)) : json(wire.reply(said)),
    );
    const response = await app.post(PATH[client], ask(client, `lab/${upstream}`, mode));
    await response.text();
    const [row, ...more] = app.rows().filter(({ requestId }) => requestId === response.headers.get("x-request-id"));
    expect(more).toEqual([]);
    expect(row).toMatchObject({ outcome: "completed", input, output, estimated: false, chargedNano: 0n });
    expect(row?.costNano).toBe(BigInt(input) * 1_000n + BigInt(output) * 2_000n);
    expect(readFlags(row?.flags ?? 0)).toEqual(suspect ? ["usage_suspect"] : []);
    const told = app.log.filter(({ event }) => event === "generate");
    expect(told).toHaveLength(1);
    // The line in the log, and the figures that are made of the same, tell what the row does.
    expect(told[0]).toMatchObject({ level: suspect ? "warn" : "info", input_tokens: input, output_tokens: output });
  },
);
