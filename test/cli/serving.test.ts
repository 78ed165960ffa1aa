import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createProgram } from "../../src/cli/program.ts";
import { readServeWords } from "../../src/cli/serving.ts";

/** The options that the parser of the whole command line hands to `serve`; undefined when it refuses, or runs something else. */
async function readWhole(words: readonly string[]): Promise<unknown> {
  const program = createProgram("0", () => {});
  const serve = program.commands.find((command) => command.name() === "serve")!;
  let options: unknown;
  serve.action((given) => {
    options = { ...given };
  });
  for (const command of [program, ...program.commands]) {
    command.configureOutput({ writeOut: () => {}, writeErr: () => {}, outputError: () => {} });
  }
  await program.parseAsync([...words], { from: "user" }).catch(() => undefined);
  return options;
}

/** Every flag of `serve` that takes a word, as the whole command line knows it. */
const FLAGS = createProgram("0", () => {})
  .commands.find((command) => command.name() === "serve")!
  .options.filter((option) => option.required)
  .map((option) => option.long!);

describe("a command line that plainly serves", () => {
  test("every flag of serve is known, in both spellings", async () => {
    expect(FLAGS.length).toBeGreaterThan(5);
    for (const words of [[], ["serve"], ["serve", "--as-worker"], ["--as-worker"]]) {
      expect(readServeWords(words)).toEqual((await readWhole(words)) as never);
    }
    for (const flag of FLAGS) {
      for (const words of [[flag, "7"], [`${flag}=7`], ["serve", flag, "a=b"]]) {
        expect(readServeWords(words)).toEqual((await readWhole(words)) as never);
        expect(Object.values(readServeWords(words) ?? {})).toHaveLength(1);
      }
    }
  });

  test("whatever else there is goes to the parser of the whole command line", () => {
    const others = ["--help", "-h", "--version", "-V", "help", "models", "serv", "--prot=1", "--port", "--port=", "x"];
    for (const word of others) {
      expect(readServeWords([word])).toBeUndefined();
      if (!word.startsWith("--port")) expect(readServeWords(["serve", "--port", "0", word])).toBeUndefined();
    }
    expect(readServeWords(["serve", "serve"])).toBeUndefined();
    expect(readServeWords(["--port", "1", "--port", "2"])).toBeUndefined();
    expect(readServeWords(["--port", "--help"])).toBeUndefined();
    for (const words of [["--data", " "], ["--data= "], ["--data", "\t"]])
      expect(readServeWords(words)).toBeUndefined();
    expect(readServeWords(["--port", "1", "serve"])).toBeUndefined();
    expect(readServeWords(["--as-worker=1"])).toBeUndefined();
  });

  test("what is read here is read there likewise, whatever the words", async () => {
    const word = fc.oneof(
      fc.constantFrom(
        "serve",
        "--as-worker",
        "--help",
        "-V",
        "--",
        "-",
        "",
        " ",
        "__proto__",
        "--__proto__=1",
        ...FLAGS,
      ),
      fc.constantFrom(...FLAGS).map((flag) => `${flag}=x y`),
      fc.string(),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(word, { maxLength: 5 }), async (words) => {
        const options = readServeWords(words);
        if (options) expect(options).toEqual((await readWhole(words)) as never);
      }),
      { numRuns: 200 },
    );
  });
});
