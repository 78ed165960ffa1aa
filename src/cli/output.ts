import { writeSync } from "node:fs";
import { errorCode } from "../lib/error-code.ts";
import { DONE, FAILED } from "./exit-codes.ts";

/** A command that could not do its work, for a reason a person can act on: exit code 1. */
export class Failure extends Error {
  override readonly name = "Failure";
}

/** A command line that cannot be meant so: exit code 2. */
export class WrongUsage extends Error {
  override readonly name = "WrongUsage";
}

const isNobodyReading = (thrown: unknown) => errorCode(thrown) === "EPIPE";

/** Of a server: its streams are still to be watched. */
let unwatched = false;

/**
 * What happens when this process's output cannot be written any more. A command whose reader went away (`sluice logs | head -1`) has nothing more to do
 * and ends with 0; one whose output cannot be kept (a full disk) says so and ends with 1. A server goes on without its log.
 * Without this, Bun ends the process with a trace.
 */
export function outliveReaders(endsWithThem: boolean): void {
  // Bun takes 3 ms to make the streams, which a server has no need of before it says something.
  if (endsWithThem) watchStreams(true);
  else unwatched = true;
}

/** The streams to write to. */
function streams(): Pick<NodeJS.Process, "stdout" | "stderr"> {
  if (unwatched) watchStreams(false);
  unwatched = false;
  return process;
}

function watchStreams(endsWithThem: boolean): void {
  process.stdout.on("error", (thrown) => {
    if (!endsWithThem) return;
    if (isNobodyReading(thrown)) process.exit(DONE);
    warn(`error: the output cannot be written (${errorCode(thrown) || "unknown"}); what of it is there is not whole`);
    process.exit(FAILED);
  });
  // Nobody is left who could be told.
  process.stderr.on("error", () => {});
}

/** Writes lines to standard output. */
export function print(...lines: string[]): void {
  streams().stdout.write(`${lines.join("\n")}\n`);
}

/** Writes a long text to standard output piece by piece, as fast as it is read there: what is not read yet would all be held in memory. */
export async function printPieces(pieces: Iterable<string>): Promise<void> {
  const { stdout } = streams();
  for (const piece of pieces) {
    if (stdout.write(piece)) continue;
    await new Promise<void>((resolve) => stdout.once("drain", resolve));
  }
}

const STDOUT = 1;

/** {@link print} past the stream, while nothing else is written: for the first lines of a server, which may never have more to say. */
export function printFirst(...lines: string[]): void {
  const bytes = Buffer.from(`${lines.join("\n")}\n`);
  let written = 0;
  try {
    while (written < bytes.length) written += writeSync(STDOUT, bytes, written);
  } catch {
    // A pipe that takes no more just now, or that nobody reads: the stream knows what to do with both.
    streams().stdout.write(bytes.subarray(written));
  }
}

/** Writes a sentence to standard error, where it does not mix with what a program reads. */
export function warn(sentence: string): void {
  streams().stderr.write(`${sentence}\n`);
}

/** {@link warn} of what is not as it should be, and goes on all the same. */
export function printWarnings(sentences: readonly string[]): void {
  for (const sentence of sentences) warn(`warning: ${sentence}`);
}

/** Writes a value as JSON that people can read too. */
export function printJson(value: unknown): void {
  print(toSafeJson(JSON.stringify(value, null, 2)));
}

/** True where colours are seen as such: a terminal, and the user has not said no (NO_COLOR, no-color.org). */
export function showsColour(): boolean {
  return process.stdout.isTTY === true && !process.env["NO_COLOR"] && process.env["TERM"] !== "dumb";
}

const CODES = { red: 31, green: 32, yellow: 33, bold: 1 } as const;

/** The text in a colour, or as it is where colours are not shown. */
export function paint(text: string, colour: keyof typeof CODES): string {
  return showsColour() ? `\x1b[${CODES[colour]}m${text}\x1b[0m` : text;
}

/** What a terminal obeys, or turns and hides what stands beside it, of what may stand in JSON as it is. */
const BARE_IN_JSON = /[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** The same JSON, in which a terminal finds nothing to obey: others named the models in it, and wrote the texts. */
export const toSafeJson = (json: string): string =>
  json.replace(BARE_IN_JSON, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** What a terminal obeys in a text, or turns what stands beside it, but for what a text is laid out with. */
const OBEYED = /(?![\t\n])[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu;

/** A text of several lines for a terminal, the further ones set in, so that none of them can be taken for one that we wrote. */
export const toShownText = (text: string): string => text.replace(OBEYED, "?").replaceAll("\n", "\n  ");
