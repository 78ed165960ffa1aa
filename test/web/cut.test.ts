import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { cutBlocks, estimateTokens } from "../../src/web/extract/cut.ts";
import { readPage } from "../../src/web/extract/page.ts";
import { escapeText, tidyLine } from "../../src/web/markdown/inline.ts";
import { MAX_CHARACTERS, MAX_DEPTH, MAX_NODES, MAX_OPEN, parseTree, textOf } from "../../src/web/page-tree.ts";
import { countWork } from "../support/wait.ts";

const NOTE = /\[Cut here: about (\d+) of (?:more than )?(\d+) tokens are shown\.\]$/;

describe("the cut", () => {
  const block = fc.string({ minLength: 1, maxLength: 400, unit: fc.constantFrom(..."abc xyz.\n日本12,`|") });

  test("keeps within its room, keeps the beginning, and says what it did", () => {
    fc.assert(
      fc.property(fc.array(block, { maxLength: 30 }), fc.integer({ min: 1, max: 300 }), (blocks, room) => {
        const { markdown, tokens, totalTokens, truncated } = cutBlocks(blocks, room);
        expect(totalTokens).toBe(blocks.reduce((sum, each) => sum + estimateTokens(each), 0));
        expect(tokens).toBeLessThanOrEqual(room);
        expect(truncated).toBe(tokens < totalTokens);
        expect(NOTE.test(markdown)).toBe(truncated);
        if (!truncated) expect(markdown).toBe(blocks.join("\n\n"));
      }),
    );
  });

  test("ends with a whole block where that leaves enough", () => {
    const blocks = ["one ".repeat(40).trim(), "two ".repeat(40).trim(), "three ".repeat(40).trim()];
    const { markdown, tokens, totalTokens } = cutBlocks(blocks, 100);
    expect(markdown).toBe(`${blocks[0]}\n\n${blocks[1]}\n\n[Cut here: about 80 of 120 tokens are shown.]`);
    expect([tokens, totalTokens]).toEqual([80, 120]);
  });

  test("cuts inside a first block that is too large, at a line's or a sentence's end, and closes its fence", () => {
    const sentences = Array.from({ length: 50 }, (_, at) => `This is sentence number ${at}.`).join(" ");
    const prose = cutBlocks([sentences], 60);
    const [shown = "", note] = prose.markdown.split("\n\n");
    expect(shown).toMatch(/number \d+\.$/);
    expect([prose.tokens, note]).toEqual([
      estimateTokens(shown),
      `[Cut here: about ${prose.tokens} of ${prose.totalTokens} tokens are shown.]`,
    ]);
    const code = `\`\`\`js\n${"let a = 1;\n".repeat(100)}\`\`\``;
    const [fenced = ""] = cutBlocks([code], 60).markdown.split("\n\n");
    expect(fenced).toStartWith("```js\nlet a = 1;\n");
    expect(fenced).toEndWith("\nlet a = 1;\n```");
  });

  test.each([
    ["a list of letters", "b. ", "   "],
    ["a numbered list", "12. ", "    "],
    ["a quotation", "> ", "> "],
  ])("closes the fence of a program in %s", (_name, mark, pad) => {
    const lines = Array.from({ length: 60 }, () => `${pad}let a = 1;`);
    const { markdown } = cutBlocks([`${mark}\`\`\`js\n${lines.join("\n")}\n${pad}\`\`\``], 60);
    const [cut = ""] = markdown.split("\n\n[Cut here");
    expect(cut).toEndWith(`\n${pad}let a = 1;\n${mark.replace(/[^>\s]/g, " ")}\`\`\``);
  });

  test("says so where the rest was never read", () => {
    expect(cutBlocks(["all"], 10, false).markdown).toContain("of more than 1 tokens");
  });

  test("counts about what the vocabulary counts", () => {
    expect(estimateTokens("")).toBe(0);
    expect(estimateTokens("The quick brown fox jumps over the lazy dog.")).toBe(10);
    expect(estimateTokens("明日は晴れ")).toBe(5);
    expect(estimateTokens(" ".repeat(3200))).toBe(100);
  });
});

describe("text that looks like Markdown", () => {
  test.each([
    ["*a* **b**", "\\*a\\* \\*\\*b\\*\\*"],
    ["2 * 3", "2 * 3"],
    ["snake_case _x_", "snake_case \\_x\\_"],
    ["`tick`", "\\`tick\\`"],
    ["a <b> < c", "a \\<b> < c"],
    ["[x](y) [z]", "[x\\](y) [z]"],
    ["C:\\dir \\*", "C:\\dir \\\\\\*"],
  ])("%j is made harmless", (text, written) => {
    expect(escapeText(text)).toBe(written);
  });

  test("a tidy line has no blanks at its ends and no runs of them", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom("a", " ", "\n", "\t") }), (line) => {
        const tidy = tidyLine(line);
        expect(tidy).toBe(tidy.trim());
        expect(tidy).not.toMatch(/ {2}|[ ]\n|\n[ ]|\t/);
        expect(tidy.replace(/\s/g, "")).toBe(line.replace(/\s/g, ""));
      }),
    );
  });
});

describe("the tree", () => {
  test("is bounded in depth, and keeps the text of what lies deeper", () => {
    const { root, cut } = parseTree(`${"<div>".repeat(1_000)}deep${"</div>".repeat(1_000)}<p>after</p>`);
    let depth = 0;
    let at: (typeof root.children)[number] | undefined = root;
    while (at && typeof at !== "string") {
      at = at.children[0];
      depth++;
    }
    expect(at).toBe("deep");
    expect(depth).toBe(MAX_DEPTH + 1);
    expect(cut).toBe(true);
    expect(JSON.stringify(root.children.at(-1))).toContain("after");
  });

  test("is bounded in elements that are open, in nodes and in characters", () => {
    expect(parseTree("<b>".repeat(MAX_OPEN * 20)).cut).toBe(true);
    expect(parseTree("<br>".repeat(MAX_NODES + 70_000)).cut).toBe(true);
    expect(parseTree("a".repeat(MAX_CHARACTERS + 1)).cut).toBe(true);
    expect(parseTree("a".repeat(MAX_CHARACTERS)).cut).toBe(false);
  });

  test("the beginning of what was not read is no text", () => {
    const nested = parseTree("<table><tr><td>".repeat(30_000));
    expect([nested.cut, textOf(nested.root)]).toEqual([true, ""]);
    const long = parseTree(`${"a".repeat(MAX_CHARACTERS - 1)}<p>b</p>`);
    expect([long.cut, textOf(long.root).length]).toEqual([true, MAX_CHARACTERS - 1]);
  });
});

describe("hostile pages take a bounded time", () => {
  const rows: [name: string, text: string, type?: string][] = [
    ["30,000 nested elements", `${"<div>".repeat(30_000)}x${"</div>".repeat(30_000)}`],
    ["elements that are never closed", "<b>".repeat(300_000)],
    ["ends without beginnings", "<div>".repeat(60_000) + "</span>".repeat(150_000)],
    ["nested lists, tables and quotations", "<ul><li><table><tr><td><blockquote>".repeat(20_000)],
    ["backticks in code", `<pre>${"```\n".repeat(200_000)}</pre><code>${"` ".repeat(200_000)}</code>`],
    ["blanks before a letter", `<pre>${" ".repeat(1_000_000)}x</pre>`],
    ["line breaks", `<p>${"<br>".repeat(100_000)}x`],
    ["an attribute without end", `<div class="${"a ".repeat(700_000)}`],
    ["a comment without end", `<!--${"-".repeat(1_000_000)}`],
    ["names of languages", `<main>${'<span class="lang">x</span>'.repeat(70_000)}`],
    [
      "labels of buttons",
      `<main>${"<input type=radio id=a><div><label for=a>A</label><label for=a>B</label></div>".repeat(20_000)}`,
    ],
    ["cells over all rows", "<table>".concat(`<tr>${"<td rowspan=60000 colspan=9999>x".repeat(60)}`.repeat(500))],
    ["brackets of JSON", "[".repeat(200_000), "application/json"],
    ["blanks of JSON", `[1,${" ".repeat(250_000)}2]`, "application/json"],
    ["fences of Markdown", "```\n\n".repeat(100_000), "text/markdown"],
    ["elements of XML", "<a>".repeat(300_000), "application/xml"],
    ["lines without text", " \n".repeat(1_000_000), "text/plain"],
  ];
  test.each(rows)(
    "%s",
    async (_name, text, contentType = "text/html") => {
      const work = countWork();
      const bytes = new TextEncoder().encode(text);
      const page = { url: "https://x.example/", contentType, bytes, cut: false, maxTokens: 1_000 };
      const { markdown } = await readPage(page);
      expect(markdown.length).toBeLessThan(100_000);
      // Each takes a tenth of this alone; what is quadratic takes minutes.
      expect(work()).toBeLessThan(8_000);
    },
    20_000,
  );
});
