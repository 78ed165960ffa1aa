import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DIALECTS, type DialectName } from "../../src/dialects/dialect.ts";
import { PaidGateway } from "../prove/paid-gateway.ts";
import { startUpstream, type Upstream } from "../support/upstream.ts";
import { type RawVendor, startRawVendor, startTlsBreaker } from "./fault-sockets.ts";
import {
  askAs,
  CLIENT_PATH,
  expectFinishedAs,
  FAULT_WIRES,
  readErrorOf,
  saidTo,
  saidWhole,
  soundAnswerOf,
  soundStreamOf,
} from "./fault-wires.ts";
import { costOf } from "./paying.ts";
import { HIDDEN_MODEL, INPUT, MODES, type Mode, OUTPUT, readRecords, SAID } from "./wires.ts";

setDefaultTimeout(40_000);

/** USD 100. */
const FUNDS_NANO = 100_000_000_000n;
const CERTIFICATES = new URL("../fixtures/certificates/", import.meta.url);
const certificate = (name: string) => readFileSync(new URL(`${name}.txt`, CERTIFICATES), "utf8");

/** Who the other side says it is: only the first may be believed. */
const SHOWN = ["sound", "other-name", "other-address", "expired", "stranger"] as const;
type Shown = (typeof SHOWN)[number];
/** Called by its address, not by a name. */
const BY_ADDRESS: Shown = "other-address";
const NAMELESS = "nameless";

type Cell = { vendor: Shown | typeof NAMELESS; client: DialectName; mode: Mode; routes: 1 | 2 };
const cellsOf = (vendor: Cell["vendor"]): Cell[] =>
  DIALECTS.flatMap((client) =>
    MODES.flatMap((mode) => ([1, 2] as const).map((routes) => ({ vendor, client, mode, routes }))),
  );
const modelOf = ({ vendor, client, mode, routes }: Cell) => `lab/${vendor}-${client}-${mode}-${routes}`;

/** Addresses of this machine: another run of this file may have the first ones. Their port is that of name servers, which not everybody may have. */
const NAME_SERVERS = Array.from({ length: 20 }, (_, at) => ({ hostname: `127.0.11.${53 + at}`, port: 53 }));

/** A name server that hears every question and answers none; undefined where none may be made. Only a process with an `/etc/resolv.conf` of its own asks it. */
async function startMute() {
  for (const at of NAME_SERVERS) {
    try {
      return await Bun.udpSocket({ ...at, socket: { data() {} } });
    } catch (thrown) {
      if ((thrown as { code?: unknown }).code !== "EADDRINUSE") return undefined;
    }
  }
  return undefined;
}

const mute = await startMute();
const MUTE_SERVER = `nameserver ${mute?.hostname}\noptions attempts:1 timeout:30\n`;
const FILES_THEN_DNS = "hosts: files dns\n";
const folder = mkdtempSync(join(tmpdir(), "sluice-network-"));
const place = (name: string, text: string) => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};
/** Starts what follows with that name server. */
const OWN_RESOLVER = [
  ...["unshare", "--map-root-user", "--mount", "sh", "-c"],
  'mount --bind "$0" /etc/resolv.conf && mount --bind "$1" /etc/nsswitch.conf && shift 1 && exec "$@"',
  place("resolv.conf", MUTE_SERVER),
  place("nsswitch.conf", FILES_THEN_DNS),
];
/** Linux alone has file systems of one process, and not everywhere may one make them. */
const hasOwnResolver =
  mute !== undefined && Bun.spawnSync([...OWN_RESOLVER, "true"], { stderr: "ignore" }).exitCode === 0;
// Without another route the name is asked for twice, which takes ten seconds: what follows then is seen where a connection does not come about.
const CELLS = [
  ...SHOWN.flatMap(cellsOf),
  ...(hasOwnResolver ? cellsOf(NAMELESS).filter(({ routes }) => routes === 2) : []),
];

let vendors: Record<Shown, RawVendor>;
let spare: Upstream;
let breaker: ReturnType<typeof startTlsBreaker>;
let gateway: PaidGateway;

/** A gateway of its own process: which authorities it trusts is settled when it starts. */
beforeAll(async () => {
  const key = certificate("key");
  const at = (name: Shown) => startRawVendor({ cert: certificate(name), key });
  const others = { "other-name": at("other-name"), "other-address": at("other-name") };
  vendors = { sound: at("sound"), ...others, expired: at("expired"), stranger: at("stranger") };
  breaker = startTlsBreaker(vendors.sound);
  spare = startUpstream();
  spare.always(CLIENT_PATH.chat, ({ json }) => soundAnswerOf(FAULT_WIRES.chat, isStream(json) ? "stream" : "blocking"));
  gateway = new PaidGateway(spare.url);
  const vendorRow = (id: string, url: string) => ({
    ...{ id, dialect: "chat", base_url: `${url}/v1`, api_key: `vendor-key-of-${id}`, models: "any" },
  });
  const config = {
    vendors: [
      ...SHOWN.map((name) =>
        vendorRow(name, vendors[name].url.replace("127.0.0.1", name === BY_ADDRESS ? "127.0.0.1" : "localhost")),
      ),
      vendorRow(NAMELESS, "http://vendor.example:81"),
      vendorRow("broken", breaker.url.replace("127.0.0.1", "localhost")),
      vendorRow("spare", spare.url),
    ],
    // Each cell has a model of its own, and by that a breaker.
    models: [
      ...CELLS.map((cell) => ({
        id: modelOf(cell),
        pricing: { input: 3, output: 15 },
        routes: [cell.vendor, "spare"]
          .slice(0, cell.routes)
          .map((vendor) => ({ vendor, model: `${HIDDEN_MODEL}-${modelOf(cell).slice(4)}` })),
      })),
      { id: "broken/m", pricing: { input: 3, output: 15 } },
      { id: "broken/image", modality: "image", pricing: { per_image: 0.01 } },
    ],
    plans: { paying: { requests_per_minute: 1_000_000, concurrent_generations: 100_000, spending_window_usd: 0 } },
    local_discovery: false,
  };
  gateway.configure(config);
  await gateway.fund([FUNDS_NANO]);
  const env = { NODE_EXTRA_CA_CERTS: new URL("authority.txt", CERTIFICATES).pathname };
  await gateway.start({ env, prefix: hasOwnResolver ? OWN_RESOLVER : [] });
});
afterAll(async () => {
  await gateway.kill();
  gateway.remove();
  for (const closable of [...Object.values(vendors), breaker, spare]) closable.close();
  mute?.close();
  rmSync(folder, { recursive: true, force: true });
});

const isStream = (json: unknown) => (json as { stream?: boolean }).stream === true;

/** What a vendor over TLS answers, as bytes. */
function answerTo(mode: Mode): string {
  const text = mode === "stream" ? soundStreamOf(FAULT_WIRES.chat) : JSON.stringify(FAULT_WIRES.chat.reply());
  const type = mode === "stream" ? "text/event-stream" : "application/json";
  return `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  fetch(gateway.url + path, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${gateway.accounts[0]?.key}`, ...headers },
    body: JSON.stringify(body),
  });

describe("TLS that breaks when a request is at its vendor: it may have run, and is not sent again", () => {
  afterEach(() => {
    expect(vendors.sound.calls.length).toBe(1);
    vendors.sound.reset();
  });

  test.each(MODES)("%s", async (mode) => {
    vendors.sound.answer({ pieces: [answerTo(mode)], finish: "keep" });
    const response = await post(CLIENT_PATH.chat, askAs("chat", "broken/m", mode));
    expect([response.status, response.headers.get("x-should-retry")]).toEqual([502, "false"]);
    expect(readErrorOf("chat", await response.json()).code).toBe("upstream_error");
  });

  test("an image", async () => {
    vendors.sound.answer({ pieces: [answerTo("blocking")], finish: "keep" });
    const order = { model: "broken/image", prompt: "a lighthouse" };
    const response = await post("/v1/images/generations", order, { prefer: "wait=30" });
    expect(await response.json()).toMatchObject({ status: "failed", error: { code: "upstream_error" } });
  });
});

type Seen = { status: number; headers: Headers; body: string; ms: number };

async function ask(cell: Cell): Promise<Seen> {
  const startedAt = performance.now();
  const response = await post(CLIENT_PATH[cell.client], askAs(cell.client, modelOf(cell), cell.mode));
  const body = await response.text();
  return { status: response.status, headers: response.headers, body, ms: performance.now() - startedAt };
}

function expectServed({ client, mode, routes, vendor }: Cell, { status, headers, body }: Seen): void {
  expect(status).toBe(200);
  // After 5 s the headers of a stream have gone out, as a name is given up.
  if (vendor !== NAMELESS || mode === "blocking") {
    expect(headers.get("x-sluice-attempts")).toBe(routes === 2 && vendor !== "sound" ? "2" : null);
  }
  if (mode === "blocking") {
    expect(saidWhole(client, body)).toBe(SAID);
    return;
  }
  const records = readRecords(body).filter(({ data }) => data !== "");
  expectFinishedAs(client, records);
  expect(saidTo(client, records)).toBe(SAID);
}

function expectUnreachable({ client }: Cell, { status, headers, body }: Seen): void {
  expect([status, headers.get("x-should-retry")]).toEqual([502, "true"]);
  expect(readErrorOf(client, JSON.parse(body)).code).toBe("upstream_unreachable");
  for (const word of ["vendor-key-of", HIDDEN_MODEL, "localhost", "vendor.example", "CERT"])
    expect(body).not.toContain(word);
}

const expectSeen = (cell: Cell, seen: Seen) =>
  cell.routes === 2 || cell.vendor === "sound" ? expectServed(cell, seen) : expectUnreachable(cell, seen);

/** How long a request may wait for a name, on a busy machine, ms. */
const SLOWEST_MS = 12_000;

describe("a vendor whose name is never found, or whose certificate is not its own", () => {
  test("gets no byte of a request; the next route is taken, nothing is charged for it", async () => {
    // All at once: those that wait for a name take seconds.
    const nameless = CELLS.filter(({ vendor }) => vendor === NAMELESS).map(
      async (cell) => [cell, await ask(cell)] as const,
    );
    for (const cell of CELLS) {
      if (cell.vendor === NAMELESS) continue;
      vendors.sound.answer({ pieces: [answerTo(cell.mode)], finish: "keep" });
      expectSeen(cell, await ask(cell));
      vendors.sound.forget();
    }
    for (const shown of SHOWN) {
      const calls = shown === "sound" ? cellsOf("sound").length : 0;
      expect([shown, vendors[shown].calls.length]).toEqual([shown, calls]);
    }
    expect(
      vendors.sound.calls.every((call) => call.includes("\r\nauthorization: Bearer vendor-key-of-sound\r\n")),
    ).toBe(true);
    for (const [cell, seen] of await Promise.all(nameless)) {
      expectSeen(cell, seen);
      // 2: a DNS hang is given up like a connection that does not come about (reliability 6.1).
      expect([modelOf(cell), seen.ms > 4_900 && seen.ms < SLOWEST_MS]).toEqual([modelOf(cell), true]);
    }
    const served = CELLS.filter(({ vendor, routes }) => vendor === "sound" || routes === 2).length;
    await gateway.stop();
    await gateway.withBooks(({ book, store }) => {
      const balance = book.balance(gateway.accounts[0]?.id ?? "");
      const posted = FUNDS_NANO - costOf(INPUT, OUTPUT) * BigInt(served);
      expect([balance.postedNano, balance.heldNano]).toEqual([posted, 0n]);
      const count = (table: string) => store.database.query(`SELECT count(*) FROM ${table}`).values()[0]?.[0];
      expect([count("usage"), count("ledger_hold")]).toEqual([BigInt(served), 0n]);
      expect(book.verify()).toEqual([]);
    });
  });
});
