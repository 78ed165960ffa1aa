/**
 * Every proof by one command: `bun run prove`. Runs them, each a program of its own, and prints what each came to beside what is aimed at: those that only
 * count two by two, with the least right to the processor, and the long one that hardly works beside them; then those that measure, by themselves.
 * `--only WORD` runs those with a word in name or claim that begins so, `--quick` a small round of each, `--list` says what there is. Exits 1 unless
 * every one holds.
 */
import { cpus, release } from "node:os";
import { join } from "node:path";
import { readFlags } from "../../.release/flags.ts";
import { PROOFS, type Proof } from "./proofs.ts";

const ROOT = join(import.meta.dir, "../..");
/** A proof that takes longer has failed, ms. */
const MOST_MS = 30 * 60_000;
/** Lines of a failed proof's output that are shown. */
const SHOWN_LINES = 30;

type Result = { proof: Proof; holds: boolean; figures: string[]; output: string[]; seconds: number };

/** Lets whatever else wants the processor have it first, where a system has the command. */
const YIELDING = process.platform === "win32" ? [] : ["nice", "-n", "19"];

async function run(proof: Proof, quick: boolean): Promise<Result> {
  const startedAt = performance.now();
  const program = [process.execPath, ...((quick && proof.quick) || proof.full)];
  const child = Bun.spawn(proof.onlyCounts ? [...YIELDING, ...program] : program, {
    cwd: ROOT,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    timeout: MOST_MS,
  });
  const texts = await Promise.all([child.stdout.text(), child.stderr.text()]);
  const code = await child.exited;
  const output = texts.flatMap((text) => text.split("\n")).filter((line) => line.trim() !== "");
  const { figure } = proof;
  const said = figure ? output.filter((line) => figure.test(line)) : (texts[0] ?? "").trim().split("\n").slice(-1);
  const figures = said.map((line) => line.trim().replace(/ {2,}/g, "  "));
  return { proof, holds: code === 0, figures, output, seconds: (performance.now() - startedAt) / 1000 };
}

const cell = (text: string, width: number) => text.padEnd(width);

function show({ proof, holds, figures, output, seconds }: Result): void {
  const verdict = holds ? "holds" : "FAILS";
  console.log(`${cell(proof.name, 22)}${cell(verdict, 8)}${cell(`${seconds.toFixed(0)} s`, 7)}${proof.claim}`);
  console.log(`${cell("", 30)}${cell("aim", 7)}${proof.aim}`);
  for (const figure of figures) console.log(`${cell("", 30)}${cell("seen", 7)}${figure}`);
  if (!holds) for (const line of output.slice(-SHOWN_LINES)) console.log(`    | ${line}`);
}

const USAGE = "prove: [--only WORD] [--quick] [--list]";
const values = readFlags(USAGE, {
  only: { type: "string", default: "" },
  quick: { type: "boolean" },
  list: { type: "boolean" },
});
// At the beginning of a word: "race" is no part of "strace".
const wanted = new RegExp(`\\b${RegExp.escape(values.only)}`, "i");
const chosen = PROOFS.filter(({ name, claim }) => wanted.test(`${name} ${claim}`));
if (chosen.length === 0) {
  console.log(`No proof is called ${values.only}; there are: ${PROOFS.map(({ name }) => name).join(", ")}`);
  process.exit(2);
}
if (values.list) {
  for (const { name, claim, aim } of chosen) console.log(`${cell(name, 22)}${claim}: ${aim}`);
  process.exit(0);
}
const [processor] = cpus();
console.log(`${cpus().length} x ${processor?.model}, ${process.platform} ${release()}, Bun ${Bun.version}\n`);
const results: Result[] = [];

/** Runs what is left of them, one after the other. */
async function runAll(left: Proof[]): Promise<void> {
  for (let proof = left.shift(); proof; proof = left.shift()) {
    const result = await run(proof, values.quick === true);
    show(result);
    results.push(result);
  }
}

const counting = chosen.filter(({ onlyCounts }) => onlyCounts);
const hardlyWorking = chosen.filter(({ hardlyWorks }) => hardlyWorks);
await Promise.all([runAll(hardlyWorking), runAll(counting), runAll(counting)]);
await runAll(chosen.filter(({ onlyCounts, hardlyWorks }) => !onlyCounts && !hardlyWorks));
const failed = results.filter(({ holds }) => !holds).map(({ proof }) => proof.name);
console.log(
  `\n${results.length - failed.length} of ${results.length} hold${failed.length > 0 ? `; not: ${failed.join(", ")}` : ""}`,
);
process.exit(failed.length === 0 ? 0 : 1);
