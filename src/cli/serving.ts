import { compileAsUsual } from "../lib/compiling.ts";
import type { ServeOptions } from "./options.ts";

/** The flags of `serve` that take a value, and the name of each one's option. */
const FLAGS: ReadonlyMap<string, Exclude<keyof ServeOptions, "asWorker">> = new Map([
  ["--data", "data"],
  ["--config", "config"],
  ["--host", "host"],
  ["--port", "port"],
  ["--public-url", "publicUrl"],
  ["--cdn-url", "cdnUrl"],
  ["--workers", "workers"],
]);

/**
 * The options of a plain command line of `serve`: that word or nothing, then flags, each once and with a value that is no flag itself.
 * Undefined for any other, which is left to the parser of the whole command line. A shortcut: to build that parser takes a tenth of a
 * server's start.
 */
export function readServeWords(words: readonly string[]): ServeOptions | undefined {
  const options: ServeOptions = {};
  for (let at = words[0] === "serve" ? 1 : 0; at < words.length; at++) {
    const word = words[at] ?? "";
    if (word === "--as-worker") {
      options.asWorker = true;
      continue;
    }
    const end = word.indexOf("=");
    const option = FLAGS.get(end < 0 ? word : word.slice(0, end));
    const value = end < 0 ? words[++at] : word.slice(end + 1);
    // A blank value is refused, by the parser of the whole command line.
    if (!option || option in options || !value?.trim() || value.startsWith("-")) return undefined;
    options[option] = value;
  }
  return options;
}

/** How long after its start a server compiles what runs often as early as usual (boot.ts), ms: its first requests run code once as well. */
const STARTED_MS = 500;

/** Serves, or works for a process that does. The exit code, or undefined while it goes on. */
export async function startServing(options: ServeOptions): Promise<number | undefined> {
  const code = await (options.asWorker
    ? (await import("./work.ts")).work()
    : (await import("./serve.ts")).serve(options));
  setTimeout(compileAsUsual, STARTED_MS).unref();
  return code;
}
