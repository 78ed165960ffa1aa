/** A claim about this program, and the command that shows it. */
export type Proof = {
  /** What `--only` looks at, beside the claim. */
  name: string;
  claim: string;
  /** What is aimed at, as the issues have it. */
  aim: string;
  /** Arguments of `bun`: the program and how long it goes on; `quick` for a look in between. */
  full: readonly string[];
  quick?: readonly string[];
  /** The lines of its output that are the figure; absent: the last one. */
  figure?: RegExp;
  /** Its figures are counts, whatever else runs: such proofs run two by two, as what yields to all else, and the others by themselves afterwards. */
  onlyCounts?: true;
  /** Takes long, and a small part of a processor: runs beside those. */
  hardlyWorks?: true;
};

const program = (name: string) => `test/prove/${name}.ts`;
const tests = (...files: readonly string[]) => ["test", ...files];
/** What `bun test` says at its end. */
const COUNTS = /^ *\d+ (?:pass|fail|skip)$/;

/** Ledger, limits and keys (issue 4), then what other parts claim. Those that measure time want a machine that does nothing else. */
export const PROOFS: readonly Proof[] = [
  {
    name: "ledger-model",
    claim: "random ledger operations against a model",
    aim: "1,000,000: 0 differences",
    onlyCounts: true,
    full: [program("ledger-model"), "1000000"],
    quick: [program("ledger-model"), "50000"],
  },
  {
    name: "ledger-bank",
    claim: "64 clients, 5 accounts, a reader adding up",
    aim: "every total right; charged = the vendor's count",
    onlyCounts: true,
    full: [program("bank"), "20"],
    quick: [program("bank"), "3"],
  },
  {
    name: "ledger-race",
    claim: "200 requests at once on a wallet for 7",
    aim: "7 served, 193 x 402, 20 of 20 times",
    onlyCounts: true,
    full: [program("race"), "20"],
    quick: [program("race"), "3"],
  },
  {
    name: "ledger-kill",
    claim: "kill -9 under load",
    aim: "300 kills: 0 lost, 0 billed twice, 0 open holds",
    onlyCounts: true,
    full: [program("kill"), "300"],
    quick: [program("kill"), "15"],
  },
  {
    name: "ledger-torn",
    claim: "images of a torn write-ahead log",
    aim: "1,000: 0 bad, 300 states",
    onlyCounts: true,
    full: [program("torn-images"), "1200"],
    quick: [program("torn-images"), "200"],
  },
  {
    name: "ledger-fsync",
    claim: "syncs to disk, counted by strace",
    aim: "one for each settle, synchronous = 2",
    onlyCounts: true,
    full: [program("fsyncs"), "50"],
  },
  {
    name: "ledger-outcomes",
    claim: "every row of the outcome table, exact charges",
    aim: "0 fail",
    onlyCounts: true,
    full: tests("test/scenarios/charges.test.ts"),
    figure: COUNTS,
  },
  {
    name: "ledger-authorisation",
    claim: "routes x {no key, revoked, expired, hash, ...}",
    aim: "0 fail",
    onlyCounts: true,
    full: tests("test/accounts/authorisation.test.ts"),
    figure: COUNTS,
  },
  {
    name: "ledger-limits",
    claim: "laws of the limiter; the poller of 10,000 jobs",
    aim: "0 fail",
    onlyCounts: true,
    full: tests("test/limits", "test/laws/gcra.test.ts"),
    figure: COUNTS,
  },
  {
    name: "ledger-cost",
    claim: "hold and settle, durable, 64 at a time",
    aim: "40 us CPU; settle p99 10 ms",
    full: [program("ledger-cost")],
    figure: /^paid:/,
  },
  {
    name: "ledger-rate",
    claim: "paid requests of one process, 64 clients",
    aim: "5,000 a second where a passthrough does 15,000",
    full: [program("metered-rate"), "20000"],
    quick: [program("metered-rate"), "3000"],
  },
  {
    name: "workers",
    claim: "paid replies at two workers, 64 clients",
    aim: "of a stream's CPU less than half left to the one process",
    full: [program("workers"), "4000"],
    quick: [program("workers"), "2000"],
    figure: /^(?:short|stream|FAULT)/,
  },
  {
    name: "ledger-limiter",
    claim: "100,000 buckets; a check; 10,000 keys",
    aim: "20 MB; 0.3 us; nothing measurable",
    full: [program("limiter")],
    figure: / aim /,
  },
  {
    name: "ledger-usage",
    claim: "usage grouped over a million requests of a year",
    aim: "50 ms",
    full: [program("usage-million")],
    quick: [program("usage-million"), "100000"],
    figure: /^(?:grouped|sums|all within|\d+ FAILED)/,
  },
  {
    name: "jobs-kill",
    claim: "image jobs under kill -9",
    aim: "each ends once, billed once, drawn once",
    onlyCounts: true,
    full: [program("jobs-kill"), "300"],
    quick: [program("jobs-kill"), "10"],
    figure: /^\d+ kills/,
  },
  {
    name: "jobs-bench",
    claim: "image jobs: figures of issue 5",
    aim: "as its table says",
    full: [program("jobs-bench")],
    figure: /./,
  },
  {
    name: "release",
    claim: "the suite from outside, on this machine's release built from a clone",
    aim: "0 failed",
    full: [program("black-box")],
    quick: [program("black-box"), "--quick"],
    figure: /^(?:left out|failed:|\d+ passed|\S+ executable)/,
  },
  {
    name: "release-equal",
    claim: "two builds of one commit, from two folders",
    aim: "every file equal",
    onlyCounts: true,
    full: [program("reproducible")],
    quick: [program("reproducible"), "linux-x64"],
    figure: /^\d+ files/,
  },
  {
    name: "api-fuzz",
    claim: "random requests made from the executable's own document",
    aim: "0 faults, none above 1,000 ms, at most 20 MB grown",
    full: [program("openapi-fuzz"), "800"],
    quick: [program("openapi-fuzz"), "60"],
  },
  {
    name: "mcp",
    claim: "MCP tools/list, 32 connections",
    aim: "10,000 a second",
    full: [program("mcp")],
  },
  {
    name: "connections",
    claim: "10,000 silent streams and 500 active; 5,000 a vendor speaks on",
    aim: "10 KB and 60 KB each; a plain call p99 50 ms; nothing left",
    full: [program("connections")],
    quick: [program("connections"), "--quick"],
    figure: /aim|opened|memory|clients|faults$/,
  },
  {
    name: "disconnects",
    claim: "18,000 clients that leave, in four ways",
    aim: "5 MB more; all ended at the vendor, each one row",
    onlyCounts: true,
    full: [program("disconnects")],
    quick: [program("disconnects"), "--quick"],
    figure: /aim|rows|faults$/,
  },
  {
    name: "write-faults",
    claim: "each write of a scenario fails, in five ways, alone or with all behind it",
    aim: "400: nothing half done, 503, reads go on, serves again by itself",
    onlyCounts: true,
    full: [program("write-faults"), "400"],
    quick: [program("write-faults"), "30"],
    figure: /writes|answers|faults in/,
  },
  {
    name: "full-disk",
    claim: "a server whose files may not grow for a while, again and again",
    aim: "503 and no other loss, reads 200; ready 2.5 s after; 0 faults",
    onlyCounts: true,
    full: [program("full-disk"), "15"],
    quick: [program("full-disk"), "3"],
    figure: /times/,
  },
  {
    name: "backup-cycle",
    claim: "a backup every 10 s at full rate, restored elsewhere and checked",
    aim: "every copy right, with all acknowledged before it",
    onlyCounts: true,
    full: [program("backup-cycle"), "8", "10"],
    quick: [program("backup-cycle"), "3", "3"],
    figure: /answers|backup/,
  },
  {
    name: "recovery",
    claim: "start on what a dead process left: 10,000 open rows of each kind",
    aim: "first answer within 500 ms",
    full: [program("recovery"), "10000", "9"],
    quick: [program("recovery"), "10000", "2"],
    figure: /aim|faults$/,
  },
  {
    name: "retry-storm",
    claim: "a vendor that answers 503 to everything, clients with both SDKs' own retries",
    aim: "calls 1.2 x requests + 3; breaker open in 2 s; all served 35 s after it is mended",
    full: [program("retry-storm"), "30"],
    quick: [program("retry-storm"), "--quick"],
    figure: /aim/,
  },
  {
    name: "overload",
    claim: "1, 2, 5 and 10 times what it can do, paid and durable, clients that wait 10 s",
    aim: "at 10 x: 75 % of the most, p99 below 3 x unloaded, sheds told; 0 billed twice; back in 2 s",
    full: [program("overload")],
    quick: [program("overload"), "--quick"],
    figure: /: /,
  },
  {
    name: "soak",
    claim: "mixed traffic for minutes: streams, aborts, images, MCP, bad input, counts",
    aim: "memory: slope below 1 MB an hour or 3 MB in all; files and holds back; loop p99 20 ms",
    hardlyWorks: true,
    full: [program("soak"), "--minutes", "10"],
    quick: [program("soak"), "--quick"],
    figure: /memory|faults in|FAULT/,
  },
  {
    name: "slow-clients",
    claim: "200 that read 1 KB/s of 20 MB, 200 that send 1 KB/s, 500 half-open heads",
    aim: "all cut by rule; 100 MB more at most; other calls' p99 as before, by a fifth",
    full: [program("slow-clients")],
    quick: [program("slow-clients"), "--quick"],
    figure: /cut after|memory|FAULT/,
  },
];
