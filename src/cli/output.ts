import { writeSync } from "node:fs";
import { errorCode } from "../lib/error-code.ts";
import { DONE, FAILED } from "./exit-codes.ts";

/** A command could not do its work, for a reason that a person can act on: exit code 1. */
export class Failure extends Error {
  override readonly name = "Failure";
}

/** The command line is wrong: exit code 2. */
export class WrongUsage extends Error {
  override readonly name = "WrongUsage";
}

const isNobodyReading = (thrown: unknown) => errorCode(thrown) === "EPIPE";

/** Whether this is a server whose output streams are not watched yet: they are from their first use on. */
let unwatched = false;

/**
 * Decides what happens when this process's output cannot be written any more. A command whose reader has gone (`sluice logs | head -1`) has nothing more
 * to do and ends with 0; one whose output cannot be stored (a full disk) says so and ends with 1. A server goes on without its log.
 * Without this, Bun ends the process with a trace.
 */
export function outliveReaders(endsWithThem: boolean): void {
  // Bun takes 3 ms to make the streams, which a server does not need before it prints something.
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
  // Nothing is left to say it to.
  process.stderr.on("error", () => {});
}

/** Writes lines to standard output. */
export function print(...lines: string[]): void {
  streams().stdout.write(`${lines.join("\n")}\n`);
}

/** Writes a long text to standard output piece by piece, as fast as it is read there: written at once, all of it would be held in memory. */
export async function printPieces(pieces: Iterable<string>): Promise<void> {
  const { stdout } = streams();
  for (const piece of pieces) {
    if (stdout.write(piece)) continue;
    await new Promise<void>((resolve) => stdout.once("drain", resolve));
  }
}

const STDOUT = 1;

/** {@link print} without the stream, where nothing else is being written: for a server's first lines, which may be all that it ever prints. */
export function printFirst(...lines: string[]): void {
  const bytes = Buffer.from(`${lines.join("\n")}\n`);
  let written = 0;
  try {
    while (written < bytes.length) written += writeSync(STDOUT, bytes, written);
  } catch {
    // The pipe is full, or nobody reads it: the stream handles both.
    streams().stdout.write(bytes.subarray(written));
  }
}

/** Writes a sentence to standard error, where it does not mix with what a program reads. */
export function warn(sentence: string): void {
  streams().stderr.write(`${sentence}\n`);
}

/** {@link warn} of something that is not as it should be, where the command goes on all the same. */
export function printWarnings(sentences: readonly string[]): void {
  for (const sentence of sentences) warn(`warning: ${sentence}`);
}

/** Writes a value as indented JSON. */
export function printJson(value: unknown): void {
  print(toSafeJson(JSON.stringify(value, null, 2)));
}

/** Whether colours are shown: the output is a terminal, and the user has not switched them off (NO_COLOR, no-color.org). */
export function showsColour(): boolean {
  return process.stdout.isTTY === true && !process.env["NO_COLOR"] && process.env["TERM"] !== "dumb";
}

const CODES = { red: 31, green: 32, yellow: 33, bold: 1 } as const;

/** The text in a colour, or as it is where colours are not shown. */
export function paint(text: string, colour: keyof typeof CODES): string {
  return showsColour() ? `\x1b[${CODES[colour]}m${text}\x1b[0m` : text;
}

/** Those characters which JSON may hold unescaped that a terminal takes as commands, or that turn or hide the text around them. */
const BARE_IN_JSON = /[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** The same JSON with these characters escaped: names of models and texts in it come from others. */
export const toSafeJson = (json: string): string =>
  json.replace(BARE_IN_JSON, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** Characters of a text that a terminal takes as commands, or that turn the text around them; not those that lay a text out. */
const OBEYED = /(?![\t\n])[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu;

/** A text of several lines for a terminal. All but the first are indented, so that none can be taken for a line of this program's own. */
export const toShownText = (text: string): string => text.replace(OBEYED, "?").replaceAll("\n", "\n  ");
