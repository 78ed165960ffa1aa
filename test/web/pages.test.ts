import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { type ReadPage, readPage } from "../../src/web/extract/page.ts";
import { countWork } from "../support/wait.ts";

const FOLDER = join(import.meta.dir, "../fixtures/web-pages");
const BASE = "https://site.example/a/b/";

async function read(file: string, contentType: string): Promise<ReadPage> {
  const bytes = new Uint8Array(await Bun.file(join(FOLDER, file)).arrayBuffer());
  return readPage({ url: BASE + file, contentType, bytes, cut: false, maxTokens: 10_000 });
}

/** Every kind of page, written for these tests, with what its server says of it and what it says of itself. */
const PAGES: [file: string, contentType: string, about: Partial<ReadPage>][] = [
  [
    "article.html",
    "text/html; charset=utf-8",
    { kind: "html", title: "Why bridges hum", published: "2026-02-03T07:30:00Z", language: "en-GB" },
  ],
  ["docs.html", "text/html", { kind: "html", title: "Queues — Tuba 3 documentation", language: "en" }],
  ["tables.html", "application/xhtml+xml", { kind: "html", title: "Wire gauges" }],
  ["listing.html", "text/html", { kind: "html", title: "Latest - Harbour News" }],
  ["old-layout.html", "", { kind: "html", title: "Welcome to Olaf's page" }],
  ["legacy-charset.html", "text/html", { kind: "html", title: "Погода в порту" }],
  ["unnamed-charset.html", "text/html", { kind: "html", title: "港の天気" }],
  ["paper.pdf", "application/octet-stream", { kind: "pdf", title: "A short paper", published: "2026-01-02" }],
  ["feed.xml", "application/rss+xml", { kind: "xml", title: "Harbour News", published: "2026-11-21T06:00:00Z" }],
  ["atom.xml", "application/atom+xml", { kind: "xml", title: "Tuba releases", published: "2026-05-06T07:08:09Z" }],
  ["config.xml", "text/xml", { kind: "xml" }],
  ["data.json", "application/json", { kind: "json" }],
  ["readme.markdown", "text/markdown; charset=utf-8", { kind: "markdown", title: "Tuba" }],
  ["minutes.txt", "text/plain", { kind: "text" }],
  ["shell.html", "text/html", { kind: "html", title: "Dashboard" }],
];

describe("pages of every kind", () => {
  test.each(PAGES)("%s comes out as it should", async (file, contentType, about) => {
    const { markdown, tokens, totalTokens, truncated, note, ...found } = await read(file, contentType);
    const expected = await Bun.file(join(FOLDER, file.replace(/\.[^.]+$/, ".expected.md"))).text();
    expect(`${markdown}\n`).toBe(expected);
    expect(found).toEqual(about as typeof found);
    expect([truncated, tokens]).toEqual([false, totalTokens]);
    expect(note === undefined).toBe(file !== "shell.html");
  });

  test("a page that its programs would make is said to be one", async () => {
    expect((await read("shell.html", "text/html")).note).toContain("running programs");
  });

  /** A page of programs alone, with what it writes for search engines. */
  const shellWith = (data: unknown) =>
    `<title>Pilot</title><meta name="description" content="A pilot's work."><script type="application/ld+json">${
      typeof data === "string" ? data : JSON.stringify(data)
    }</script><script src="/app.js"></script><div id="root"></div>`;

  test.each([
    [
      "an article",
      {
        "@graph": [{ "@type": "WebPage" }, { "@type": "NewsArticle", articleBody: "The tide rose.\n\nIt is 3 * 4 m." }],
      },
      "# Pilot\n\nThe tide rose.\n\nIt is 3 * 4 m.",
    ],
    [
      "a job, as HTML",
      [
        {
          "@type": "JobPosting",
          title: "Pilot",
          description: "<p>Bring ships in.</p><ul><li>Day &amp; night</li></ul>",
        },
      ],
      "# Pilot\n\nBring ships in.\n\n- Day & night",
    ],
    [
      "a job, as HTML that was escaped once more",
      { "@type": "JobPosting", description: "&lt;p&gt;Bring ships in.&lt;/p&gt;&lt;p&gt;By night.&lt;/p&gt;" },
      "# Pilot\n\nBring ships in.\n\nBy night.",
    ],
    [
      "an article on programs, which is no HTML",
      { "@type": "TechArticle", articleBody: "If a <b and c> d, then a Map<string, number> of <T> is returned." },
      "# Pilot\n\nIf a \\<b and c> d, then a Map\\<string, number> of \\<T> is returned.",
    ],
    [
      "HTML that shows a tag",
      { "@type": "TechArticle", articleBody: "<p>A block is a &lt;div&gt;.</p><p>A line is a &lt;span&gt;.</p>" },
      "# Pilot\n\nA block is a \\<div>.\n\nA line is a \\<span>.",
    ],
    [
      "an article with characters as HTML has them",
      { "@type": "Article", articleBody: "The pilot&#8217;s boat &amp; the ship.\n\nIt is &lt; 3 m." },
      "# Pilot\n\nThe pilot’s boat & the ship.\n\nIt is < 3 m.",
    ],
    [
      "a question",
      { "@type": "QAPage", mainEntity: { "@type": "Question", text: "How high is the tide at noon?" } },
      "# Pilot\n\nHow high is the tide at noon?",
    ],
    ["less than its summary says", { "@type": "Thing", description: "Work." }, "# Pilot\n\nA pilot's work."],
    ["what is no JSON", '{"articleBody": "The tide rose and fell twice"', "# Pilot\n\nA pilot's work."],
  ])("such a page is read by what it writes for search engines: %s", async (_what, data, wanted) => {
    const bytes = new TextEncoder().encode(shellWith(data));
    const page = { url: BASE, contentType: "text/html", bytes, cut: false, maxTokens: 1_000 };
    const { markdown, note } = await readPage(page);
    expect(markdown).toBe(wanted);
    expect(note).toContain("running programs");
  });

  test("a page that has its text is read for that alone", async () => {
    const text = "The pilot comes aboard at the outer buoy, and leaves the ship behind the mole.";
    const data = shellWith({ articleBody: "Something else. ".repeat(50) });
    const bytes = new TextEncoder().encode(`${data}<main><p>${text}</p></main>`);
    const page = { url: BASE, contentType: "text/html", bytes, cut: false, maxTokens: 1_000 };
    expect((await readPage(page)).markdown).toBe(`# Pilot\n\n${text}`);
  });

  test("what its server says of a charset goes before what the page says", async () => {
    const bytes = new TextEncoder().encode('<meta charset="utf-8"><p>x</p>');
    const latin = Buffer.concat([bytes, Buffer.from([0xe9])]);
    const page = { url: BASE, bytes: new Uint8Array(latin), cut: false, maxTokens: 100 };
    expect((await readPage({ ...page, contentType: "text/html; charset=ISO-8859-1" })).markdown).toBe("x\n\né");
    expect((await readPage({ ...page, contentType: "text/html" })).markdown).toBe("x\n\n\ufffd");
  });

  test.each([
    ["in a comment", '<!-- <meta charset="koi8-r"> --><meta charset="windows-1251">'],
    ["in a program", '<script>w("<meta charset=koi8-r>")</script><meta charset=windows-1251>'],
    ["in a description", '<meta name="description" content="a; charset=koi8-r"><meta charset="windows-1251">'],
    ["behind a long head", `<script>${"x".repeat(9_000)}</script><meta charset="windows-1251">`],
    [
      "behind a sign that ends others",
      '<meta content="text/html; charset=windows-1251" data-x="a > b" http-equiv=Content-Type>',
    ],
    ["between quotes of its own", `<meta http-equiv="content-type" content="text/html; charset='windows-1251'">`],
  ])("a page's own word on its charset, and what is none: %s", async (_where, head) => {
    const bytes = new Uint8Array(Buffer.concat([Buffer.from(`${head}<p>`), Buffer.from([0xcf, 0xf0, 0xe8])]));
    const { markdown } = await readPage({ url: BASE, contentType: "text/html", bytes, cut: false, maxTokens: 100 });
    expect(markdown).toBe("При");
  });

  test.each([
    ["windows-1251", "cde020e4e2eef0e5", "На дворе"],
    ["KOI8-R", "eec120c4d7cfd2c5", "На дворе"],
    [
      "ISO-8859-7",
      "c720e8dcebe1f3f3e120def4e1ed20def1e5ece720eae1e920e720ecddf1e120e6e5f3f4de",
      "Η θάλασσα ήταν ήρεμη",
    ],
  ])(
    "a charset that nobody names is guessed from the text, whatever markup is around it: %s",
    async (_name, hex, words) => {
      const script = "<script>function go(name) { return document.getElementById(name).value; }</script>";
      const links = Array.from({ length: 20 }, (_, at) => [`<a href="/list/section-${at}/index.html">`, hex] as const);
      const parts = links.flatMap(([link, text]) => [Buffer.from(link), Buffer.from(text, "hex")]);
      const bytes = new Uint8Array(Buffer.concat([Buffer.from(script), ...parts]));
      const { markdown } = await readPage({ url: BASE, contentType: "text/html", bytes, cut: false, maxTokens: 2_000 });
      expect(markdown).toContain(words);
    },
  );

  test.each(["text/plain", "text/html"])(
    "Japanese mail in an archive that names no charset: %s",
    async (contentType) => {
      const kanji = "\x1b$B9A$NE75$\x1b(B";
      const bytes = Buffer.from(`${kanji} 2003\n`, "latin1");
      const page = { url: BASE, contentType, cut: false, maxTokens: 500 };
      expect((await readPage({ ...page, bytes })).markdown.trim()).toBe("港の天気 2003");
      const log = Buffer.from(`é \x1b$B is printed\n`);
      expect((await readPage({ ...page, bytes: log })).markdown).toContain("$B is printed");
    },
  );

  test("a list in UTF-8 stays in it where somebody put a name into it in another charset", async () => {
    const jose = Buffer.from("José", "latin1");
    const parts = [Buffer.from("Jürgen, Zoë, Søren, Łukasz, "), jose, Buffer.from(", Noël")];
    const page = { url: BASE, contentType: "text/plain", cut: false, maxTokens: 100 };
    const read = async (bytes: Buffer) => (await readPage({ ...page, bytes: new Uint8Array(bytes) })).markdown;
    expect(await read(Buffer.concat(parts))).toBe("Jürgen, Zoë, Søren, Łukasz, Jos\ufffd, Noël");
    expect(await read(Buffer.from("Jürgen, Zoë, Søren, José, Noël", "latin1"))).toBe("Jürgen, Zoë, Søren, José, Noël");
  });

  test("a content type that was sent twice is the last one", async () => {
    const bytes = new TextEncoder().encode("<p>Grüße</p>");
    for (const contentType of [
      "text/html, text/html; charset=utf-8",
      "text/plain,text/html",
      "text/html; charset=iso-8859-1, text/html; charset=utf-8",
      "text/html; charset=utf-8, text/html",
      "text/plain; charset=iso-8859-1, text/html",
    ]) {
      const { kind, markdown } = await readPage({ url: BASE, contentType, bytes, cut: false, maxTokens: 100 });
      expect([kind, markdown]).toEqual(["html", "Grüße"]);
    }
  });

  test.each([
    ["behind a program with a remark", "```sh\n# install it\nnpm i tuba\n```\n\n# Tuba\n\nx", "Tuba"],
    ["before one", "# Tuba\n~~~\n# install it\n~~~", "Tuba"],
    ["none but the remark in one", "## Use\n\n```sh\n\n# install it\n\n```", undefined],
  ])("the title of Markdown is its first heading: %s", async (_where, text, expected) => {
    const bytes = new TextEncoder().encode(text);
    const { title } = await readPage({ url: BASE, contentType: "text/markdown", bytes, cut: false, maxTokens: 100 });
    expect(title).toBe(expected);
  });

  test.each([
    ["as plain text", "text/plain", "import os\r\n\r\n\r\ndef f():\r\n    x()\r\n  \r\n\r\n\r\ndef g(): pass\r\n"],
    ["inside Markdown", "text/markdown", "```py\nimport os\n\n\ndef f():\n    x()\n\n\n\ndef g(): pass\n```"],
  ])("the lines of a program can be counted where it comes %s", async (_how, contentType, text) => {
    const bytes = new TextEncoder().encode(text);
    const { markdown } = await readPage({ url: BASE, contentType, bytes, cut: false, maxTokens: 100 });
    expect(markdown).toContain("import os\n\n\ndef f():\n    x()\n\n\n\ndef g(): pass");
  });

  const declared =
    '<?xml version="1.0" encoding="UTF-8"?>\n<?xml-stylesheet href="a.xsl"?>\n<!-- made by a program -->\n';
  test.each(["application/xhtml+xml", "application/xml", "text/xml"])(
    "a page by the rules of XML is a page, its elements closed where it closes them: %j",
    async (contentType) => {
      const head = '<head><title>Weirs</title><script src="a.js"/><style/></head>';
      const inside =
        '<h1>Weirs<a id="top"/></h1><p>The <i class="icon"/>first.</p><textarea/><p><![CDATA[a < b]]> <br/>last</p>';
      const doctype =
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">';
      const text = `${declared}${doctype}\n<html xmlns="http://www.w3.org/1999/xhtml">${head}<body>${inside}</body></html>`;
      const bytes = new TextEncoder().encode(text);
      const page = await readPage({ url: BASE, contentType, bytes, cut: false, maxTokens: 500 });
      expect([page.kind, page.title]).toEqual(["html", "Weirs"]);
      expect(page.markdown).toBe("# Weirs\n\nThe first.\n\na < b  \nlast");
    },
  );

  test.each([
    ["RSS", "<rss><channel><title>B</title><item><title>One</title><link>/1</link></item></channel></rss>"],
    ["Atom", '<feed><title>B</title><entry><title>One</title><link href="/1"/></entry></feed>'],
    ["RDF", "<rdf:RDF><channel><title>B</title></channel><item><title>One</title><link>/1</link></item></rdf:RDF>"],
  ])("a feed that its server calls HTML is one: %s", async (_form, feed) => {
    for (const before of ["", declared]) {
      const bytes = new TextEncoder().encode(before + feed);
      const page = { url: BASE, contentType: "text/html; charset=utf-8", bytes, cut: false, maxTokens: 500 };
      expect((await readPage(page)).markdown).toBe("# B\n\n- [One](https://site.example/1)");
    }
  });

  test("a date that says no zone is the same wherever this runs", () => {
    const dates = [
      ...["March 3, 2026", "3 Mar 2026", "03/03/2026", "2026/3/3", "Tue, 03 Mar 2026", "2026-03-03"],
      ...["2026-03-03T10:00:00", "2026-03-03 10:00", "Mar 3, 2026, 10:00 AM", "Tue, 03 Mar 2026 10:00:00"],
      ...["2026-03-03T10:00:00Z", "2026-03-03T12:00:00+02:00", "Tue, 03 Mar 2026 05:00:00 EST"],
      "Tue Mar 03 2026 12:00:00 GMT+0200 (CEST)",
    ];
    const page = (date: string) => `<meta property="article:published_time" content="${date}"><p>x</p>`;
    const file = Bun.fileURLToPath(new URL("../../src/web/extract/page.ts", import.meta.url));
    const script = `const { readPage } = await import(${JSON.stringify(file)});
      for (const html of ${JSON.stringify(dates.map(page))}) {
        const about = { url: ${JSON.stringify(BASE)}, contentType: "text/html", cut: false, maxTokens: 100 };
        console.log((await readPage({ ...about, bytes: new TextEncoder().encode(html) })).published);
      }`;
    for (const TZ of ["UTC", "Europe/Berlin", "America/New_York"]) {
      const { stdout } = Bun.spawnSync([process.execPath, "-e", script], { env: { ...process.env, TZ } });
      const expected = dates.map((_, at) => (at < 6 ? "2026-03-03" : "2026-03-03T10:00:00Z"));
      expect(stdout.toString().trim().split("\n")).toEqual(expected);
    }
  });

  test.each([
    ["01.03.2026", "2026-03-01"],
    ["1. 3. 2026", "2026-03-01"],
    ["24.12.2026", "2026-12-24"],
    ["01.03.2026 10:00", "2026-03-01T10:00:00Z"],
    ["01.13.2026", "2026-01-13"],
  ])("of a date with dots the day comes first: %s", async (date, expected) => {
    const bytes = new TextEncoder().encode(`<meta name="date" content="${date}"><p>x</p>`);
    const { published } = await readPage({ url: BASE, contentType: "text/html", bytes, cut: false, maxTokens: 100 });
    expect(published).toBe(expected);
  });

  test.each([
    ['<time pubdate datetime="2026-03-01">today</time>', "2026-03-01"],
    ['<time itemprop="datePublished" datetime="2026-03-01T10:00Z">today</time>', "2026-03-01T10:00:00Z"],
    ['<time datetime="2026-03-02">an event</time><time pubdate datetime="2026-03-01">today</time>', "2026-03-01"],
    ['<time datetime="2026-03-02">an event</time>', undefined],
    ['<meta itemprop="datePublished" content="2026-03-01">', "2026-03-01"],
    ['<META NAME="Date" CONTENT="2026-03-01">', "2026-03-01"],
  ])("a page's date may stand in its text, and be named in other letters: %s", async (html, expected) => {
    const bytes = new TextEncoder().encode(`<p>${html}</p>`);
    const { published } = await readPage({ url: BASE, contentType: "text/html", bytes, cut: false, maxTokens: 100 });
    expect(published).toBe(expected);
  });

  test.each([
    ["es", "10/05/2026 05:22 pm", "2026-05-10T17:22:00Z"],
    ["en-GB", "10/5/2026", "2026-05-10"],
    ["en-US", "10/05/2026", "2026-10-05"],
    ["en", "10/05/2026", "2026-10-05"],
    ["", "10/05/2026", "2026-10-05"],
    ["de", "10/05/2026", "2026-10-05"],
    ["fr-FR", "05/13/2026", "2026-05-13"],
  ])("of a date with strokes the day comes first where its language has it so: %j %s", async (lang, date, expected) => {
    const linked = `<script type="application/ld+json">${JSON.stringify({ datePublished: date })}</script>`;
    for (const head of [`<meta name="date" content="${date}">`, linked]) {
      const html = `<html${lang && ` lang="${lang}"`}><head>${head}</head><body><p>x</p></body></html>`;
      const about = { url: BASE, contentType: "text/html", cut: false, maxTokens: 100 };
      expect((await readPage({ ...about, bytes: new TextEncoder().encode(html) })).published).toBe(expected);
    }
  });

  test("the date of a work that a page refers to is not the page's, where it has its own", async () => {
    const cited = '<ol><li itemscope><meta itemprop="datePublished" content="1988"><p>An older one.</p></li></ol>';
    const html = `<head><meta name="dc.date" content="2026-01-30"></head><body><h1>Tides</h1>${cited}</body>`;
    const about = { url: BASE, contentType: "text/html", cut: false, maxTokens: 100 };
    expect((await readPage({ ...about, bytes: new TextEncoder().encode(html) })).published).toBe("2026-01-30");
  });

  test("a PDF file with something before it is one", async () => {
    const file = new Uint8Array(await Bun.file(join(FOLDER, "paper.pdf")).arrayBuffer());
    for (const [before, contentType] of [
      ["\r\n\r\n", "application/octet-stream"],
      ["\xef\xbb\xbf", "application/pdf"],
      ["Notice: undefined index in /page on line 3\n", "application/pdf"],
    ] as const) {
      const bytes = new Uint8Array(Buffer.concat([Buffer.from(before, "latin1"), file]));
      const { kind, title } = await readPage({ url: BASE, contentType, bytes, cut: false, maxTokens: 100 });
      expect([kind, title]).toEqual(["pdf", "A short paper"]);
    }
    const bytes = new TextEncoder().encode("Files that begin with %PDF- are PDF files.");
    const { kind } = await readPage({ url: BASE, contentType: "text/plain", bytes, cut: false, maxTokens: 100 });
    expect(kind).toBe("text");
  });

  test("titles and summaries of a feed are what their readers see", async () => {
    const read = async (text: string) => {
      const bytes = new TextEncoder().encode(text);
      return (await readPage({ url: BASE, contentType: "text/xml", bytes, cut: false, maxTokens: 500 })).markdown;
    };
    const entry = '<entry><title type="html">Tom &amp;amp; &lt;i>Jerry&lt;/i></title></entry>';
    expect(await read(`<feed><title type="html">&lt;b>Bold&lt;/b></title>${entry}</feed>`)).toBe(
      "# Bold\n\n- Tom & Jerry",
    );
    const item = "<item><title><![CDATA[It&#8217;s a List<T>]]></title><description>a &amp;amp; b</description></item>";
    expect(
      await read(`<rss><channel><title>N</title>${item}<item><title>a&lt;b&gt;</title></item></channel></rss>`),
    ).toBe("# N\n\n- It’s a List\\<T>\n  a & b\n\n- a\\<b>");
    const about = "<description>All &lt;b>news&lt;/b></description>";
    const parts =
      "<item><title>T</title><description>&lt;p>One.&lt;/p>&lt;p>Two&lt;br>three.&lt;/p></description></item>";
    expect(await read(`<rss><channel><title>N</title>${about}${parts}</channel></rss>`)).toBe(
      "# N\n\nAll news\n\n- T\n  One. Two three.",
    );
    const inside = '<entry><title>T</title><content type="xhtml"><div><p>One.</p><p>Two.</p></div></content></entry>';
    expect(await read(`<feed>${inside}</feed>`)).toBe("- T\n  One. Two.");
    for (const before of ["<description/>", '<media:content url="/a.png"/>', "<description> </description>"]) {
      const whole = `<item><title>T</title>${before}<content:encoded>&lt;p>All of it.&lt;/p></content:encoded></item>`;
      expect(await read(`<rss><channel>${whole}</channel></rss>`)).toBe("- T\n  All of it.");
    }
    const group =
      "<media:group><media:title>T</media:title><media:description>Of a film.</media:description></media:group>";
    expect(await read(`<feed><entry><title>T</title>${group}</entry></feed>`)).toBe("- T\n  Of a film.");
  });

  test("a feed that is longer than what is read of it is said to be cut", async () => {
    const item = (at: number) =>
      `<item><title>Entry ${at}</title><description>${"long ".repeat(9_000)}</description></item>`;
    const read = async (count: number) => {
      const text = `<rss><channel>${Array.from({ length: count }, (_, at) => item(at)).join("")}</channel></rss>`;
      const bytes = new TextEncoder().encode(text);
      return readPage({ url: BASE, bytes, contentType: "text/xml", cut: false, maxTokens: 100_000 });
    };
    expect((await read(60)).truncated).toBe(false);
    const { truncated, markdown } = await read(80);
    expect([truncated, markdown.includes("Entry 79")]).toEqual([true, false]);
    expect(markdown).toContain("[Cut here: about");
  });

  test("entries of a feed lead where its xml:base says", async () => {
    const entry = '<entry xml:base="posts/"><title>One</title><link href="1"/></entry>';
    const other = '<entry><title>Two</title><link href="2"/></entry>';
    const text = `<feed xml:base="https://blog.example/a/"><title>B</title>${entry}${other}</feed>`;
    const bytes = new TextEncoder().encode(text);
    const { markdown } = await readPage({ url: BASE, bytes, contentType: "text/xml", cut: false, maxTokens: 500 });
    expect(markdown).toBe("# B\n\n- [One](https://blog.example/a/posts/1)\n\n- [Two](https://blog.example/a/2)");
  });

  test("no text ends in half a character, and a long summary without blanks is cut too", async () => {
    const read = (text: string, contentType: string) =>
      readPage({ url: BASE, bytes: new TextEncoder().encode(text), contentType, cut: false, maxTokens: 9_000 });
    const { title } = await read(`<title>${"a".repeat(299)}\u{1f600}b</title><p>x</p>`, "text/html");
    expect(title).toBe("a".repeat(299));
    const long = `${"\u6f6e".repeat(599)}\u{1f600}${"\u6f6e".repeat(400)}`;
    const item = `<item><title>t</title><description>${long}</description></item>`;
    const { markdown } = await read(`<rss><channel>${item}</channel></rss>`, "text/xml");
    expect(markdown).toBe(`- t\n  ${"\u6f6e".repeat(599)}…`);
  });

  test.each([
    ["UTF-8", Buffer.from("\ufeff<p>Ebb – Flut</p>")],
    ["UTF-16", Buffer.from("\ufeff<p>Ebb – Flut</p>", "utf16le")],
    ["UTF-16, the larger byte first", Buffer.from("\ufeff<p>Ebb – Flut</p>", "utf16le").swap16()],
  ])("a mark at the beginning goes before what the server says: %s", async (_charset, bytes) => {
    const contentType = "text/html; charset=iso-8859-1";
    const { markdown } = await readPage({ url: BASE, contentType, bytes, cut: false, maxTokens: 100 });
    expect(markdown).toBe("Ebb – Flut");
  });

  test("a page that is cut within a letter is in UTF-8 all the same, few as its others may be", async () => {
    const bytes = new TextEncoder().encode(`<p>A café by the gates. ${"Tide. ".repeat(30)}é`).subarray(0, -1);
    const { markdown } = await readPage({ url: BASE, contentType: "text/html", bytes, cut: true, maxTokens: 1_000 });
    expect(markdown).toStartWith("A café by the gates. Tide.");
  });

  test("UTF-16 needs no mark where its server names it", async () => {
    const bytes = new Uint8Array(Buffer.from("<p>Grüße an alle</p>", "utf16le"));
    const page = { url: BASE, bytes, cut: false, maxTokens: 100 };
    expect((await readPage({ ...page, contentType: "text/html; charset=utf-16le" })).markdown).toBe("Grüße an alle");
    await expect(readPage({ ...page, contentType: "text/html" })).rejects.toThrow("cannot be read as text");
  });

  test.each([
    ["no bytes", "", "no text on this page"],
    ["a comment", "<!-- nothing", "no text on this page"],
    ["nothing to be seen", "<p>\u200b</p>", "no text on this page"],
    ["all of it too deep", `${"<div>".repeat(30_000)}x`, "nested too deeply"],
  ])("a page without text says why: %s", async (_name, text, why) => {
    const bytes = new TextEncoder().encode(text);
    const { note } = await readPage({ url: BASE, bytes, contentType: "text/html", cut: false, maxTokens: 100 });
    expect(note).toContain(why);
  });

  test.each([
    ["in an item of a list", "<ol><li><p>Do:</p><pre>PROGRAM</pre></li></ol>", "1. Do:\n\n   ```", "   ```"],
    ["an item by itself", "<ul><li><pre>PROGRAM</pre></li></ul>", "- ```", "  ```"],
    ["in a quotation", "<blockquote><p>Do:</p><pre>PROGRAM</pre></blockquote>", "> Do:\n>\n> ```", "> ```"],
  ])("a program that is cut has its end: %s", async (_name, html, start, end) => {
    const program = Array.from({ length: 400 }, (_, at) => `${at % 7 ? "call" : "> ``` call"}(${at})`).join("\n");
    const bytes = new TextEncoder().encode(html.replace("PROGRAM", program));
    const page = { url: BASE, bytes, contentType: "text/html", cut: false };
    for (const maxTokens of [20, 333, 1_000]) {
      const { tokens, markdown } = await readPage({ ...page, maxTokens });
      expect(tokens).toBeLessThanOrEqual(maxTokens);
      expect(markdown).toStartWith(start);
      expect(markdown).toContain(`\n${end}\n\n[Cut here`);
    }
    const bare = await readPage({ ...page, maxTokens: 3 });
    expect(bare.markdown).not.toContain("```");
  });

  test("no link is cut inside", async () => {
    const links = Array.from(
      { length: 90 },
      (_, at) => `<a href="/some/where/${at}/that/is/long">number ${at} of them</a>`,
    );
    const bytes = new TextEncoder().encode(`<p>See ${links.join(" and ")}</p>`);
    for (let maxTokens = 10; maxTokens < 300; maxTokens++) {
      const { markdown } = await readPage({ url: BASE, bytes, contentType: "text/html", cut: false, maxTokens });
      const left = markdown.replace(/\[Cut here.*$/, "").replaceAll(/\[number \d+ of them\]\(\S+\/long\)/g, "");
      expect(left).not.toMatch(/[[\]()]|http/);
    }
  });

  test("JSON that is cut keeps within its room, closed fence and all", async () => {
    const bytes = new TextEncoder().encode("[".repeat(200_000));
    const page = { url: BASE, bytes, contentType: "application/json", cut: false };
    for (const maxTokens of [7, 100, 10_000]) {
      const { tokens, markdown } = await readPage({ ...page, maxTokens });
      expect(tokens).toBeLessThanOrEqual(maxTokens);
      expect(markdown).toContain("\n```\n\n[Cut here");
    }
  });

  test("JSON in one line is laid out anew, but for what is nested so deep that this would fill the memory", async () => {
    const show = async (text: string) => {
      const bytes = new TextEncoder().encode(text);
      const page = { url: BASE, bytes, contentType: "application/json", cut: false, maxTokens: 100_000 };
      return (await readPage(page)).markdown;
    };
    expect(await show('{"a": ["[[[[", 1]}')).toBe('```json\n{\n  "a": [\n    "[[[[",\n    1\n  ]\n}\n```');
    expect(await show('{"a":"b \\" [ ","c":1}')).toBe('```json\n{\n  "a": "b \\" [ ",\n  "c": 1\n}\n```');
    // Many lists beside each other are not nested.
    expect((await show(`[${"[],".repeat(99)}{}]`)).split("\n")).toHaveLength(2 + 102);
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
    expect((await show(nested(64))).split("\n")).toHaveLength(2 * 64 + 1);
    const work = countWork();
    expect(await show(nested(5_000))).toBe(`\`\`\`json\n${nested(5_000)}\n\`\`\``);
    expect(work()).toBeLessThan(500);
  });

  test("Markdown that is HTML in truth, source and JSON that are not", async () => {
    const page = (text: string, contentType: string) =>
      readPage({ url: BASE, bytes: new TextEncoder().encode(text), contentType, cut: false, maxTokens: 100 });
    expect((await page("<!DOCTYPE html><p>Hi <b>you</b></p>", "text/markdown")).markdown).toBe("Hi **you**");
    // Source code comes as plain text, and is shown as such by browsers too.
    const source = "<!DOCTYPE html>\n<script src=a.js></script>";
    expect((await page(source, "text/plain; charset=utf-8")).markdown).toBe(source);
    expect((await page('"<html>"', "application/json")).kind).toBe("json");
    expect((await page("{oops", "application/json")).markdown).toBe("```json\n{oops\n```");
    // Numbers that would change are left as they stand.
    expect((await page("[12345678901234567890]", "application/json")).markdown).toContain("12345678901234567890");
    expect((await page('{"a b":  1}', "application/json")).markdown).toBe('```json\n{\n  "a b": 1\n}\n```');
    expect((await page("let a;", "text/javascript")).markdown).toBe("```javascript\nlet a;\n```");
    expect((await page("a,b\n1,2", "text/csv")).markdown).toBe("a,b\n1,2");
  });

  test.each([
    ["application/graphql", "type Gate { open: Boolean }"],
    ["application/x-perl", "print 'Grüße';\n"],
    ["application/vnd.oai.openapi", "openapi: 3.1.0"],
  ])("%s is text where its bytes are", async (contentType, text) => {
    const bytes = new TextEncoder().encode(text);
    const { kind, markdown } = await readPage({ url: BASE, contentType, bytes, cut: false, maxTokens: 100 });
    expect([kind, markdown]).toEqual(["text", text.trim()]);
  });

  test.each([
    ["application/vnd.ms-excel", "\xd0\xcf\x11\xe0"],
    ["application/gzip", "\x1f\x8b\x08"],
    ["application/wasm", "\0asm"],
    ["application/msword", ""],
    ["image/png", "\x89PNG\r\n"],
    ["application/zip", "PK\x03\x04"],
    ["video/mp4", "x"],
    ["application/octet-stream", "\0\0\x01"],
    ["text/plain", "a\0b"],
    ["application/pdf", "no pdf at all"],
    ["application/vnd.openxmlformats-officedocument.wordprocessingml.document", "PK\x03\x04\x14\0"],
  ])("%s cannot be read as text", async (contentType, text) => {
    const bytes = new Uint8Array(Buffer.from(text, "latin1"));
    const work = readPage({ url: BASE, bytes, contentType, cut: false, maxTokens: 100 });
    // A document of an office program has text: that is not denied.
    const message = `What is there (${contentType}) cannot be read as text.`;
    await expect(work).rejects.toMatchObject({ code: "unsupported_content_type", message });
  });

  test("a damaged and a cut PDF file are said to be", async () => {
    const whole = new Uint8Array(await Bun.file(join(FOLDER, "paper.pdf")).arrayBuffer());
    const page = { url: BASE, contentType: "application/pdf", maxTokens: 100 };
    const damaged = readPage({ ...page, bytes: new TextEncoder().encode("%PDF-1.4\nnothing"), cut: false });
    await expect(damaged).rejects.toMatchObject({ code: "unreadable", message: expect.stringContaining("damaged") });
    await expect(readPage({ ...page, bytes: whole, cut: true })).rejects.toMatchObject({ code: "unreadable" });
  });

  describe("a PDF file in a writing from the right", () => {
    type Word = [x: number, y: number, text: string];
    const code = (text: string) => Buffer.from(text, "utf16le").swap16().toString("hex");
    /** Words with their places as browsers draw them: letters from left to right, each 12 points wide. */
    const read = async (...words: Word[]) => {
      const seen = (text: string) =>
        /[\u0590-\u06ff\ufe70-\ufeff]/.test(text) ? Array.from(text).reverse().join("") : text;
      const draw = words.map(([x, y, text]) => `BT /F 12 Tf ${x} ${y} Td <${code(seen(text))}> Tj ET`).join("\n");
      const table =
        "begincmap 1 begincodespacerange <0000> <ffff> endcodespacerange 1 beginbfrange <0000> <ffff> <0000> endbfrange endcmap";
      const font =
        "<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/ToUnicode 5 0 R/DescendantFonts[<</Type/Font/Subtype/CIDFontType2/BaseFont/X/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>]>>";
      const file = [
        ...[
          "%PDF-1.4",
          "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj",
          "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj",
        ],
        `3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F ${font}>>>>>>endobj`,
        `4 0 obj<</Length ${draw.length}>>stream\n${draw}\nendstream endobj`,
        `5 0 obj<</Length ${table.length}>>stream\n${table}\nendstream endobj`,
        "trailer<</Root 1 0 R>>",
      ].join("\n");
      const bytes = new TextEncoder().encode(file);
      const { markdown } = await readPage({
        ...{ url: BASE, bytes, cut: false, maxTokens: 100 },
        contentType: "application/pdf",
      });
      return markdown.replace("## Page 1\n\n", "");
    };

    test.each<[string, Word[], string]>([
      [
        "words of a line",
        [
          [50, 700, "עולם"],
          [110, 700, "שלום"],
        ],
        "שלום עולם",
      ],
      [
        "letters of a word, in the form that they have in it",
        [
          [50, 700, "ﻢ"],
          [62, 700, "ﻟ"],
          [74, 700, "ﻌ"],
        ],
        "علم",
      ],
      [
        "a number and a name keep theirs",
        [
          [50, 700, "הייתה"],
          [120, 700, "2024"],
          [180, 700, "New"],
          [230, 700, "York"],
          [290, 700, "האחרונה"],
          [400, 700, "בשנת"],
        ],
        "בשנת האחרונה 2024 New York הייתה",
      ],
      [
        "signs, which look the other way",
        [
          [50, 700, ",("],
          [90, 700, "שלום"],
          [150, 700, ")"],
        ],
        "( שלום ),",
      ],
      [
        "a word in a line of another writing",
        [
          [50, 700, "The words"],
          [180, 700, "עולם"],
          [240, 700, "שלום"],
          [300, 700, "mean it well."],
        ],
        "The words שלום עולם mean it well.",
      ],
      [
        "lines",
        [
          [50, 700, "שתיים"],
          [130, 700, "אחת"],
          [50, 686, "ארבע"],
          [120, 686, "שלוש"],
        ],
        "אחת שתיים\nשלוש ארבע",
      ],
      [
        "cells, from the right",
        [
          [200, 700, "פרטי"],
          [260, 700, "שם"],
          [50, 700, "גיל"],
        ],
        "שם פרטי גיל",
      ],
      [
        "words that are in it already",
        [
          [110, 700, "שלום"],
          [50, 700, "עולם"],
        ],
        "שלום עולם",
      ],
    ])("is read in its order: %s", async (_name, words, text) => {
      expect(await read(...words)).toBe(text);
    });
  });

  describe("a PDF file whose letters' table is not in it", () => {
    /** Each font with its letters, on a line of its own. */
    const write = (...lines: [encoding: string, ordering: string, letters: string][]) => {
      const font = ([encoding, ordering]: string[], at: number) =>
        `/F${at} <</Type/Font/Subtype/Type0/BaseFont/X${at}/Encoding/${encoding}/DescendantFonts[<</Type/Font/Subtype/CIDFontType0/BaseFont/X${at}/CIDSystemInfo<</Registry(Adobe)/Ordering(${ordering})/Supplement 2>>>>]>>`;
      const line = ([, , letters]: string[], at: number) =>
        `BT /F${at} 12 Tf 50 ${700 - 100 * at} Td <${letters}> Tj ET`;
      const plain = "BT /P 12 Tf 50 100 Td (Plain) Tj ET";
      const draw = [...lines.map(line), plain].join("\n");
      const fonts = [...lines.map(font), "/P <</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"].join(" ");
      return [
        ...["%PDF-1.4", "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj"],
        "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj",
        `3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<<${fonts}>>>>>>endobj`,
        `4 0 obj<</Length ${draw.length}>>stream\n${draw}\nendstream endobj`,
        "trailer<</Root 1 0 R>>",
      ].join("\n");
    };
    const readFile = (file: string) =>
      readPage({
        ...{ url: BASE, bytes: new TextEncoder().encode(file), contentType: "application/pdf" },
        ...{ cut: false, maxTokens: 100 },
      });

    test.each([
      ["UniJIS-UCS2-H", "Japan1", "65E5672C00413042FF21", "日本AあＡ"],
      ["UniGB-UTF16-H", "GB1", "4E2D6587", "中文"],
      ["UniCNS-UCS2-H", "CNS1", "6F225B57", "漢字"],
      ["UniKS-UCS2-H", "Korea1", "D55CAE00", "한글"],
    ])("is read where it writes in Unicode: %s", async (encoding, ordering, letters, text) => {
      const { markdown, note } = await readFile(write([encoding, ordering, letters]));
      expect([markdown, note]).toEqual([`## Page 1\n\n${text}\n\nPlain`, undefined]);
    });

    test("says that text may be missing where it cannot be read, and gives the rest", async () => {
      const { markdown, note } = await readFile(
        write(["90ms-RKSJ-H", "Japan1", "93FA967B"], ["UniJIS-UCS2-H", "Japan1", "65E5672C"]),
      );
      expect(markdown).toBe("## Page 1\n\n日本\n\nPlain");
      expect(note).toContain("may be missing");
    });

    test("is not read by the numbers of another font", async () => {
      const { markdown, note } = await readFile(
        write(["UniJIS-UCS2-H", "Japan1", "65E5672C"], ["Identity-H", "Japan1", "04B004B1"]),
      );
      expect(markdown).toBe("## Page 1\n\n日本\n\nPlain");
      expect(note).toContain("may be missing");
    });

    test("says what may be the matter where nothing can be read", async () => {
      const nothing = write(["90ms-RKSJ-H", "Japan1", "93FA967B"]).replace("(Plain)", "()     ");
      const { markdown, note } = await readFile(nothing);
      expect([markdown, note]).toEqual(["", expect.stringContaining("letters whose table is not in the file")]);
    });
  });

  test.each([
    ["D:20260102030405Z", "2026-01-02"],
    ["20260102", "2026-01-02"],
    ["D:00000000000000", undefined],
    ["D:20261301", undefined],
  ])("a PDF file has the day that it names, if there is such a day: %s", async (written, expected) => {
    const file = [
      ...["%PDF-1.4", "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj", "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj"],
      "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]>>endobj",
      `4 0 obj<</CreationDate(${written})>>endobj`,
      "trailer<</Root 1 0 R/Info 4 0 R>>",
    ].join("\n");
    const bytes = new TextEncoder().encode(file);
    const page = { url: BASE, bytes, contentType: "application/pdf", cut: false, maxTokens: 100 };
    expect((await readPage(page)).published).toBe(expected);
  });

  test.each([
    ["as LaTeX sets them", `1.2 Ebb ${". ".repeat(40)}12`, "1.2 Ebb … 12"],
    ["as office programs do", `1.2 Ebb${".".repeat(60)}12`, "1.2 Ebb … 12"],
    ["and no others", "And so on... or on . . . and on.", "And so on... or on . . . and on."],
  ])("dots that lead to a page's number take no room in a PDF file's contents: %s", async (_how, line, shown) => {
    const draw = `BT /P 12 Tf 50 700 Td (${line}) Tj ET`;
    const file = [
      ...["%PDF-1.4", "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj", "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj"],
      "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</P 5 0 R>>>>>>endobj",
      `4 0 obj<</Length ${draw.length}>>stream\n${draw}\nendstream endobj`,
      "5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj",
      "trailer<</Root 1 0 R>>",
    ].join("\n");
    const bytes = new TextEncoder().encode(file);
    const page = { url: BASE, bytes, contentType: "application/pdf", cut: false, maxTokens: 100 };
    expect((await readPage(page)).markdown).toBe(`## Page 1\n\n${shown}`);
  });

  test("what is filled into a PDF file's form is told with its page, what is empty, hidden or secret is not", async () => {
    const place = (at: number) => `/Type/Annot/Subtype/Widget/P 3 0 R/Rect[50 ${700 - at * 30} 250 ${720 - at * 30}]`;
    const fields = [
      "/FT/Tx/T(form[0].name[0])/V(Ada\\nLovelace)/F 4",
      "/FT/Tx/T(empty)/F 4",
      "/FT/Tx/T(hidden)/V(no)/F 2",
      "/FT/Tx/T(secret)/V(no)/Ff 8192/F 4",
      "/FT/Ch/T(town)/V(Kiel)/Opt[(Kiel)(Bonn)]/F 4",
      "/FT/Btn/T(agreed)/V/Yes/AS/Yes/AP<</N<</Yes 5 0 R/Off 5 0 R>>>>/F 4",
      "/FT/Btn/T(refused)/V/Off/AS/Off/AP<</N<</Yes 5 0 R/Off 5 0 R>>>>/F 4",
    ];
    const all = fields.map((_, at) => `${10 + at} 0 R`).join(" ");
    const draw = "BT /P 12 Tf 50 740 Td (A form) Tj ET";
    const file = [
      ...["%PDF-1.4", `1 0 obj<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[${all}]>>>>endobj`],
      "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj",
      `3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Annots[${all}]/Contents 4 0 R/Resources<</Font<</P 6 0 R>>>>>>endobj`,
      `4 0 obj<</Length ${draw.length}>>stream\n${draw}\nendstream endobj`,
      "5 0 obj<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Length 0>>stream\n\nendstream endobj",
      "6 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj",
      ...fields.map((field, at) => `${10 + at} 0 obj<<${place(at)}${field}>>endobj`),
      "trailer<</Root 1 0 R>>",
    ].join("\n");
    const bytes = new TextEncoder().encode(file);
    const page = { url: BASE, bytes, contentType: "application/pdf", cut: false, maxTokens: 100 };
    const { markdown } = await readPage(page);
    expect(markdown).toBe("## Page 1\n\nA form\n\nname: Ada Lovelace\ntown: Kiel\nagreed: Yes");
  });

  test("pages of a PDF file are read until there is no room", async () => {
    const bytes = new Uint8Array(await Bun.file(join(FOLDER, "paper.pdf")).arrayBuffer());
    const read = await readPage({ url: BASE, contentType: "application/pdf", bytes, cut: false, maxTokens: 12 });
    expect(read.truncated).toBe(true);
    expect(read.markdown).not.toContain("Page two");
    expect(read.markdown).toContain("of more than");
  });

  test("signs that hide or turn text are gone", async () => {
    const text = "a\u202eb\u200bc\u{e0041}d\u0007e\u00adf \u{1f468}\u200d\u{1f469}";
    const bytes = new TextEncoder().encode(`<p>${text}</p>`);
    const { markdown } = await readPage({ url: BASE, contentType: "text/html", bytes, cut: false, maxTokens: 100 });
    expect(markdown).toBe("abcdef \u{1f468}\u200d\u{1f469}");
  });

  test("a title is one line, and holds no such signs either", async () => {
    const bytes = new TextEncoder().encode("<title>a\u202eb\u200b\n[2/2]\u{e0041} c</title><p>text</p>");
    const { title } = await readPage({ url: BASE, contentType: "text/html", bytes, cut: false, maxTokens: 100 });
    expect(title).toBe("ab [2/2] c");
  });
});

describe("what belongs to a page", () => {
  const TEXT = "The tide comes in twice a day, and goes out as often. ".repeat(8).trim();
  const SHORT = TEXT.slice(0, TEXT.length / 4).trim();
  const LINKS = Array.from({ length: 30 }, (_, at) => `<li><a href="/${at}">Entry ${at}</a></li>`).join("");
  const readHtml = async (html: string) => {
    const bytes = new TextEncoder().encode(html);
    return readPage({ url: BASE, contentType: "text/html", bytes, cut: false, maxTokens: 5_000 });
  };

  test.each([
    ["of Read the Docs", "wy-grid-for-nav", `<div role="main"><h1>Tides</h1><p>${TEXT}</p></div>`],
    ["of a component library", "has-data-[variant=inset]:bg-sidebar flex", `<main><h1>Tides</h1><p>${TEXT}</p></main>`],
    ["around plain parts", "page has-sidebar", `<div><h1>Tides</h1><p>${TEXT}</p></div>`],
  ])("a frame around everything is not taken for what stands in it: %s", async (_name, names, page) => {
    const beside = `<div class="sidebar"><p>All parts</p><ul>${LINKS}</ul></div>`;
    const { markdown } = await readHtml(`<body><div class="${names}">${beside}${page}</div></body>`);
    expect(markdown).toBe(`# Tides\n\n${TEXT}`);
  });

  test("what stands beside the text is not shown, however long it is, where no part is the main one either", async () => {
    const beside = `<div class="sidebar"><p>${TEXT}</p></div>`;
    const { markdown } = await readHtml(`<body>${beside}<div><h1>Tides</h1><p>${TEXT} ${TEXT}</p></div></body>`);
    expect(markdown).toBe(`# Tides\n\n${TEXT} ${TEXT}`);
  });

  test("a part of the site is none of the page inside the main part either, however long it is", async () => {
    const beside = `<div class="sidebar"><p>${TEXT}</p></div>`;
    const { markdown } = await readHtml(`<main><h1>Tides</h1><p>${TEXT} ${TEXT}</p>${beside}</main>`);
    expect(markdown).toBe(`# Tides\n\n${TEXT} ${TEXT}`);
  });

  test.each([
    ["a layout with room for a sidebar", "row fixed-sidebar-layout", "div"],
    ["an entry that can be shared", "entry share", "div"],
    ["a shop's tabs", "tab-menu--product", "div"],
    ["an article that has a hidden table of contents", "single-page hidden-contents-menu", "section"],
  ])("what holds the text is not taken for what its name has in it: %s", async (_name, names, element) => {
    const page = `<${element} class="${names}"><p>${TEXT}</p><p>${TEXT}</p></${element}><div class="sidebar"><p>${SHORT}</p></div>`;
    const talk = `<div id="talk">${`<p>${TEXT.replaceAll("tide", "ship")}</p>`.repeat(3)}</div>`;
    const { markdown } = await readHtml(`<body><article><h1>Tides</h1>${page}</article>${talk}</body>`);
    expect(markdown).toBe(`# Tides\n\n${TEXT}\n\n${TEXT}`);
  });

  test("a list of ways is none of the page, however long its links are, and what says more is", async () => {
    const ways = LINKS.replaceAll("Entry", "The entry of the day that is called");
    const menu = `<div class="menu"><p>${SHORT}</p><ul>${ways}</ul></div>`;
    const section = `<div id="TOC_TITLE_1"><p>${TEXT}</p></div>`;
    const { markdown } = await readHtml(`<body><div>${menu}<h1>Tides</h1>${section}<p>${TEXT}</p></div></body>`);
    expect(markdown).toBe(`# Tides\n\n${TEXT}\n\n${TEXT}`);
  });

  test("an accordion whose panels stand in what it calls its list of tabs is shown, a list of tabs alone is not", async () => {
    const panel = (at: number) =>
      `<div class="panel"><div role="tab"><h4><a href="#c${at}">Question ${at}</a></h4></div><div id="c${at}" class="collapse" role="tabpanel"><p>Answer ${at}</p></div></div>`;
    const tabs = `<div role="tablist"><a role="tab" href="#x">Map</a><a role="tab" href="#y">List</a><a role="tab" href="#z">Both</a></div>`;
    const accordion = `<div class="panel-group" role="tablist">${panel(1)}${panel(2)}</div>`;
    const { markdown } = await readHtml(`<main><h1>Tides</h1>${tabs}${accordion}</main>`);
    expect(markdown).toBe(["# Tides", "#### Question 1", "Answer 1", "#### Question 2", "Answer 2"].join("\n\n"));
  });

  test("of two main parts the one with the title is the page, however much its readers wrote in the other", async () => {
    const page = `<div><span role="main"><h1>Tides</h1><p>${TEXT}</p></span></div>`;
    const readers = `<div><span role="main"><h3>What readers say</h3>${`<p>${TEXT}</p>`.repeat(4)}</span></div>`;
    expect((await readHtml(`<body>${page}${readers}</body>`)).markdown).toBe(`# Tides\n\n${TEXT}`);
  });

  describe("the lead of an article", () => {
    const news = (title: string, before: string) =>
      `<body><div class="ticker"><p>${SHORT}</p></div><div class="news"><div class="article">${before}${title}<p>1 May</p><div class="teaser-text"><p>The tide is late.</p></div><div class="news-text-wrap" itemprop="articleBody"><p>${TEXT}</p><p>${TEXT}</p></div><p>More of it.</p></div></div></body>`;
    const READ = `1 May\n\nThe tide is late.\n\n${TEXT}\n\n${TEXT}`;

    test.each([
      ["# ", "<h1>Tides</h1>"],
      ["### ", '<div class="header"><h3 itemprop="headline">Tides</h3></div>'],
    ])("stands with its title before what a page calls the article, and is shown: %s", async (sign, title) => {
      const { markdown } = await readHtml(news(title, "<p>Harbour</p>"));
      expect(markdown).toBe(`${sign}Tides\n\n${READ}`);
    });

    test("is in an article that has its title, nor is what is too long for a lead one, or has no title before it", async () => {
      const own = `<article><h1>Tides</h1><p>${TEXT}</p><p>${TEXT}</p></article>`;
      expect((await readHtml(`<body><p>${SHORT}</p>${own}</body>`)).markdown).toBe(`# Tides\n\n${TEXT}\n\n${TEXT}`);
      const bare = `${TEXT}\n\n${TEXT}`;
      expect((await readHtml(news("", ""))).markdown).toBe(bare);
      const long = `<h1>Tides</h1><p>${TEXT}</p>`;
      expect((await readHtml(news(long, ""))).markdown).toContain(bare);
      expect((await readHtml(news(long, ""))).markdown).not.toContain("1 May");
    });
  });

  test("what is longer than a short page is not the page", async () => {
    const help = `<div id="help-popup"><h2>Keyboard shortcuts</h2><p>${TEXT}</p></div>`;
    const { markdown } = await readHtml(`<body>${help}<main><h1>Tides</h1><p>${SHORT}</p></main></body>`);
    expect(markdown).toBe(`# Tides\n\n${SHORT}`);
  });

  test("a page builder's parts are called widgets, a site's widgets are not the page", async () => {
    const part = (text: string) =>
      `<div class="elementor-element elementor-widget elementor-widget-text-editor"><div class="elementor-widget-container"><p>${text}</p></div></div>`;
    const beside = '<div id="text-2" class="widget widget_text"><p>Follow us</p></div>';
    const { markdown } = await readHtml(`<main>${part("A ticket is 42 USD.")}${beside}<p>${TEXT}</p></main>`);
    expect(markdown).toBe(`A ticket is 42 USD.\n\n${TEXT}`);
  });

  test.each([
    ["of a documentation", "section", "cookies", "Cookies"],
    ["of a numbered one", 'div class="section"', "file-menu-shell-and-editor", "2.1. File menu (Shell and Editor)¶"],
    ["in another alphabet", "section", "uber-navigation", "Über Navigation"],
  ])("a section that has its id from its heading is no part of the site: %s", async (_name, tag, id, heading) => {
    const end = tag.replace(/ .*/, "");
    const section = `<${tag} id="${id}"><span id="id1"></span><h2>${heading}</h2><p>How it is done.</p></${end}>`;
    const others = `<${tag} id="cookies"><h2>We value your privacy</h2></${end}><div id="share">Share this</div>`;
    const { markdown } = await readHtml(`<main><h1>Tides</h1>${section}${others}<p>${TEXT}</p></main>`);
    expect(markdown).toBe(`# Tides\n\n## ${heading}\n\nHow it is done.\n\n${TEXT}`);
  });

  describe("a table of contents", () => {
    const toc = (...links: string[]) =>
      `<div class="toc"><p><strong>Contents</strong></p><dl class="toc">${links.map((href, at) => `<dt><a href="${href}">Part ${at + 1}</a></dt>`).join("")}</dl></div>`;
    const title = '<div class="titlepage"><div><h2>Tides</h2></div></div>';

    test("under a heading is shown where it leads on to pages of their own", async () => {
      const links = ["ebb.html", "ebb.html#neap", "flow.html"];
      const { markdown } = await readHtml(`<div class="chapter">${title}${toc(...links)}<p>${TEXT}</p></div>`);
      const shown = links.map((href, at) => `- **[Part ${at + 1}](https://site.example/a/b/${href})**`).join("\n");
      expect(markdown).toBe(`## Tides\n\n**Contents**\n\n${shown}\n\n${TEXT}`);
    });

    test("at the end of the introduction to a part of a book is shown too", async () => {
      const intro = `<div class="partintro"><div></div><p>${TEXT}</p>${toc("ebb.html", "flow.html")}</div>`;
      const { markdown } = await readHtml(`<div class="part">${title}${intro}</div>`);
      expect(markdown).toStartWith(`## Tides\n\n${TEXT}\n\n**Contents**\n\n- **[Part 1](`);
    });

    test("is none of the page where it names places in it, or stands before every heading", async () => {
      const bare = `## Tides\n\n${TEXT}`;
      const ownPlaces = toc("#neap", "tides.html#spring");
      expect((await readHtml(`${title}${ownPlaces}<p>${TEXT}</p>`)).markdown).toBe(bare);
      const sites = toc("ebb.html", "flow.html");
      expect((await readHtml(`<div>${sites}</div><div>${title}<p>${TEXT}</p></div>`)).markdown).toBe(bare);
    });
  });

  test("places that links lead to are no parts of the site, nor are words with a tip", async () => {
    const terms = `<dl><dt id="term-cookie">Cookie</dt><dd>A small file.</dd></dl><h4 id="menu">Menu</h4>`;
    const { markdown } = await readHtml(
      `<main>${terms}<p>The <span class="tooltip">tide</span> rises. ${TEXT}</p><p>Choose <b class="menu">File</b> › <b class="menuitem">Save</b>.</p></main>`,
    );
    expect(markdown).toBe(
      `- **Cookie**\n  A small file.\n\n#### Menu\n\nThe tide rises. ${TEXT}\n\nChoose **File** › **Save**.`,
    );
  });

  test.each([
    ["a tip", '<aside class="starlight-aside"><p>Wait for the ebb.</p></aside>', "Wait for the ebb."],
    ["a short warning with a link", '<aside>Mind <a href="/g">it</a>.</aside>', "Mind [it](https://site.example/g)."],
    ["an example", '<aside class="example"><pre>open()</pre></aside>', "```\nopen()\n```"],
    [
      "footnotes",
      '<aside class="footnote-list"><aside role="doc-footnote"><a href="https://a.example/">a.example</a></aside></aside>',
      "[a.example](https://a.example/)",
    ],
  ])("what stands beside the text between its paragraphs is of it: %s", async (_name, aside, shown) => {
    const links = `<aside><h3>Read more</h3><ul>${LINKS}</ul></aside><aside class="ad"><p>Buy a boat.</p></aside>`;
    const beside = `<div><aside><p>Most read</p></aside></div><aside role="complementary">On tides</aside>`;
    const { markdown } = await readHtml(
      `<main><div><p>${TEXT}</p>${aside}${links}<p>The end.</p></div>${beside}</main>`,
    );
    expect(markdown).toBe(`${TEXT}\n\n${shown}\n\nThe end.`);
  });

  test("who said what is quoted is named, an article's own footer is not shown", async () => {
    const quoted = "<blockquote><p>It hums.</p><footer>Jane Roe in <cite>Bridges</cite></footer></blockquote>";
    const { markdown } = await readHtml(`<article><p>${TEXT}</p>${quoted}<footer>Filed under tides</footer></article>`);
    expect(markdown).toBe(`${TEXT}\n\n> It hums.\n>\n> Jane Roe in Bridges`);
  });

  test("a footnote's number is no sign of a heading, whatever its link is called", async () => {
    const number = '<a class="footnote-anchor" href="#footnote-1">1</a>';
    const { markdown } = await readHtml(`<h2>Tides<a class="anchor" href="#t">#</a></h2><p>${TEXT}${number}</p>`);
    expect(markdown).toBe(`## Tides\n\n${TEXT}[1]`);
  });

  test("a template that an element is made of is shown, others are not", async () => {
    const shown = `<template shadowrootmode="open"><p>${TEXT}</p></template>`;
    const { markdown } = await readHtml(
      `<main><tide-table>${shown}</tide-table><template><p>Row</p></template></main>`,
    );
    expect(markdown).toBe(TEXT);
  });

  test("a forum's thread stands where readers without programs find it; a notice to them is none", async () => {
    const thread = `<div id="main-outlet" class="wrap" role="main"><h1>Gates</h1><div class="post">${TEXT}</div></div>`;
    const served = `<noscript data-path="/t/gates/1"><header>Forum</header>${thread}</noscript><footer></footer>`;
    const { markdown, note } = await readHtml(
      `<body><script src="/a.js"></script><div id="app"></div>${served}</body>`,
    );
    expect([markdown, note]).toEqual([`# Gates\n\n${TEXT}`, undefined]);
    const notice = "<noscript>You need to enable programs to run this app.</noscript>";
    expect((await readHtml(`${notice}<main><p>${TEXT}</p></main>`)).markdown).toBe(TEXT);
  });

  test("parts that came late stand where they belong, also after the end of the page", async () => {
    const page = '<main><h1>Gates</h1><!--$?--><template id="B:0"></template><!--/$--><p>The end.</p></main>';
    const first = '<div hidden id="S:0"><h2>Hours</h2><template id="P:1"></template></div>';
    const second = `<div hidden id="S:1"><p>${TEXT}</p></div>`;
    const place = '<script>$RS=function(){};$RS("S:1","P:1")</script><script>$RC("B:0","S:0")</script>';
    const { markdown } = await readHtml(`<html><body>${page}</body></html>${first}${second}${place}`);
    expect(markdown).toBe(`# Gates\n\n## Hours\n\n${TEXT}\n\nThe end.`);
  });

  test("late parts that would stand in themselves are as hidden as before", async () => {
    const knot =
      '<div hidden id="S:0"><template id="B:0"></template></div><div hidden id="S:1"><template id="B:1"></template></div>';
    const script = '<script>$RC("B:0","S:0");$RC("B:0","S:1");$RC("B:1","S:0")</script>';
    expect((await readHtml(`<p>${TEXT}</p>${knot}${script}`)).markdown).toBe(TEXT);
  });

  test("what comes after the end of a body is read", async () => {
    const { markdown } = await readHtml(`<html><body><p>First.</p></body><p>${TEXT}</p></html><p>Last.</p>`);
    expect(markdown).toBe(`First.\n\n${TEXT}\n\nLast.`);
  });

  test("of a question and a long answer both are shown", async () => {
    const post = (text: string) => `<div class="post-layout"><div class="s-prose js-post-body">${text}</div></div>`;
    const { markdown } = await readHtml(
      `<main><h1>How?</h1>${post("<p>How do I open the gates?</p>")}${post(`<p>${TEXT}</p>`)}</main>`,
    );
    expect(markdown).toBe(`# How?\n\nHow do I open the gates?\n\n${TEXT}`);
  });

  test("formulas keep what belongs together", async () => {
    const math = (inner: string) => `<p>It is <math>${inner}</math>.</p>`;
    const half = "<mfrac><mn>1</mn><mn>2</mn></mfrac>";
    const power = "<msup><mn>10</mn><mrow><mi>n</mi><mo>+</mo><mn>1</mn></mrow></msup>";
    expect((await readHtml(math(half))).markdown).toContain("It is 1/2.");
    expect((await readHtml(math(power))).markdown).toContain("It is 10^(n+1).");
    expect((await readHtml(math(`<msqrt><msub><mi>a</mi><mi>i</mi></msub></msqrt>`))).markdown).toContain(
      "It is √(a_i).",
    );
    expect((await readHtml(`<p><math alttext="\\frac{1}{2}">${half}</math></p>`)).markdown).toContain("$\\frac{1}{2}$");
    expect((await readHtml('<p>So <script type="math/tex">E=mc^2</script> it is.</p>')).markdown).toContain(
      "So $E=mc^2$ it is.",
    );
  });

  test("a page that is made of frames leads to them", async () => {
    const frames = '<frame src="nav.html" name="nav"><frame src="/main.html" title="All classes">';
    const { markdown } = await readHtml(`<frameset>${frames}<noframes><p>Get a browser</p></noframes></frameset>`);
    expect(markdown).toBe(`[Frame: nav](${BASE}nav.html)\n\n[Frame: All classes](https://site.example/main.html)`);
  });

  test("so does a page around another one; one with more than that to say does not, nor is what nobody sees shown", async () => {
    const counter =
      '<noscript><iframe src="/count"></iframe></noscript><iframe src="/count" width="0" height="0"></iframe>';
    const around = `<title>Tides</title>${counter}<iframe src="https://docs.example/d/1" title="The table" width="100%" height="1000"></iframe>`;
    expect((await readHtml(around)).markdown).toBe("# Tides\n\n[Frame: The table](https://docs.example/d/1)");
    expect((await readHtml(`${around}<p>${TEXT}</p>`)).markdown).toBe(`# Tides\n\n${TEXT}`);
  });

  test("links are relative to the first base that has an address, if that is a place", async () => {
    const link = `<p><a href="x">here</a> ${TEXT}</p>`;
    expect((await readHtml(`<base target="_blank"><base href="/sub/"><base href="/no/">${link}`)).markdown).toContain(
      "(https://site.example/sub/x)",
    );
    expect((await readHtml(`<base href="javascript:void(0)">${link}`)).markdown).toContain(`(${BASE}x)`);
  });

  test("structured data makes no page: a short one with it is not waiting for programs", async () => {
    const data = '<script type="application/ld+json">{"@type":"WebPage"}</script>';
    expect((await readHtml(`${data}<p>Closed today.</p>`)).note).toBeUndefined();
    expect((await readHtml('<script type="module" src="/a.js"></script><div id="app"></div>')).note).toContain(
      "programs",
    );
  });

  test("of a wiki's page the languages and the ways to edit are gone, remarks and formulas are there", async () => {
    const language = (at: number) =>
      `<li class="interlanguage-link interwiki-l${at} mw-list-item"><a href="https://l${at}.wiki.example/">L${at}</a></li>`;
    const languages = Array.from({ length: 40 }, (_, at) => language(at)).join("");
    const header = `<header class="mw-body-header"><h1>Tide</h1><div class="mw-portlet-lang"><div class="vector-menu-content"><ul>${languages}</ul></div></div></header>`;
    const edit = '<span class="mw-editsection">[<a href="/w/edit">edit</a>]</span>';
    const remark =
      '<div role="note" class="hatnote navigation-not-searchable">Main article: <a href="/wiki/Ebb">Ebb</a></div>';
    const formula =
      '<span class="mwe-math-element"><span style="display: none;"><math alttext="{x^{2}}"><mi>x</mi></math></span><img src="/math/87f9.svg" class="mwe-math-fallback-image-inline mw-invert" aria-hidden="true" alt="{x^{2}}"></span>';
    const { markdown } = await readHtml(
      `<main>${header}<div><h2>Ebb</h2>${edit}</div>${remark}<p>It is ${formula} high. ${TEXT}</p></main>`,
    );
    expect(markdown).toBe(
      `# Tide\n\n## Ebb\n\nMain article: [Ebb](https://site.example/wiki/Ebb)\n\nIt is \${x^{2}}$ high. ${TEXT}`,
    );
  });

  test("a wiki's table of the links of a series is not the article, one that says something is", async () => {
    const links = Array.from({ length: 9 }, (_, at) => `<li><a href="/wiki/${at}">Link ${at}</a></li>`).join("");
    const series = `<table class="sidebar sidebar-collapse nomobile nowraplinks"><tr><th>Part of a series</th></tr><tr><td><ul>${links}</ul></td></tr></table>`;
    const facts = '<table class="sidebar-facts"><tr><th>Height</th><td>3 m</td></tr></table>';
    const { markdown } = await readHtml(`<main><p>${TEXT}</p>${series}${facts}</main>`);
    expect(markdown).toBe(`${TEXT}\n\n|  |  |\n| --- | --- |\n| Height | 3 m |`);
  });

  test("emphasis inside emphasis of its own kind is written once", async () => {
    const { markdown } = await readHtml(
      "<p><b><strong>High</strong></b>, <i>so <span><em>very</em></span></i>, <del>a <s>b</s></del>, <b>a <i>b <b>c</b></i></b>.</p>",
    );
    expect(markdown).toBe("**High**, *so very*, ~~a b~~, **a *b c***.");
  });

  const row = (at: number, code: string) =>
    `<tr><td id="LC${at}" class="blob-num" data-line-number="${at}"></td><td class="blob-code blob-code-inner">${code}</td></tr>`;
  const gitea = (at: number, code: string) =>
    `<tr>\n  <td class="lines-num"><span data-line-number="${at}"></span></td>\n  <td class="lines-code chroma"><code class="code-inner">${code}\n</code></td>\n</tr>`;
  const github = (at: number, code: string) =>
    `<div class="react-code-text react-code-line-contents" style="min-height:auto"><div><div id="LC${at}" class="react-file-line html-div" data-line-number="${at}">${code}</div></div></div>`;
  const latex = (code: string) =>
    `<div class="ltx_listingline"><span class="ltx_tag ltx_tag_listingline">1</span>${code}</div>`;
  test.each([
    [
      "of GitHub, which hides it from those who hear pages, in a place named after a menu",
      `<div id="highlighted-line-menu-positioner" class="position-relative"><div class="react-code-file-contents" role="presentation" aria-hidden="true"><div class="react-line-numbers"><div data-line-number="1" class="react-line-number react-code-text">1</div></div><div class="react-code-lines">${github(1, '<span class="pl-k">def</span> f():')}${github(2, "\n")}${github(3, "    pass")}</div></div></div>`,
      "```\ndef f():\n\n    pass\n```",
    ],
    [
      "of a paper by LaTeXML",
      `<div class="ltx_listing ltx_lstlisting"><div class="ltx_listing_data"><a href="data:text/plain;base64,ZA==" download="">⬇</a></div>${latex("def f():")}${latex('<span class="ltx_text ltx_lst_space">    </span>pass')}</div>`,
      "```\ndef f():\n    pass\n```",
    ],
    [
      "of W3Schools, written as words are",
      '<div class="w3-example"><div class="w3-code notranslate pythonHigh">\nif 5 &gt; 2:<br>&nbsp; print(<span>5</span><span> +</span> 1)<br>\n  &nbsp;&nbsp;x<br><br>\n</div></div>',
      "```\nif 5 > 2:\n  print(5 + 1)\n  x\n```",
    ],
    [
      "of Pastebin, a list of lines",
      '<ol class="asm"><li class="li1"><div class="de1">section .data</div></li>\n<li class="li1"><div class="de1">&nbsp; &nbsp; text db 1</div></li></ol>',
      "```\nsection .data\n    text db 1\n```",
    ],
    [
      "of Gitiles",
      '<table class="FileContents"><tr><td class="u-lineNum FileContents-lineNum" data-line-number="1"></td><td>def f():</td></tr><tr><td class="u-lineNum FileContents-lineNum" data-line-number="2"></td><td>    pass</td></tr></table>',
      "```\ndef f():\n    pass\n```",
    ],
    [
      "in a field where it can be changed and run",
      '<textarea class="Documentation-exampleCode code" spellcheck="false">func main() {\n\tif a &lt; b {\n</textarea><textarea name="comment"> </textarea><textarea>Share</textarea><textarea aria-readonly="true">a\nb</textarea>',
      "```\nfunc main() {\n\tif a < b {\n```",
    ],
    [
      "of a gist, a row for each line",
      `<table class="highlight">\n<tbody>\n${row(1, "def f():")}\n${row(2, "\n")}\n${row(3, "    pass")}\n</tbody></table>`,
      "```\ndef f():\n\n    pass\n```",
    ],
    [
      "of Gitea",
      `<table><tbody>${gitea(1, "def f():")}${gitea(2, "    pass")}</tbody></table>`,
      "```\ndef f():\n    pass\n```",
    ],
    [
      "of Doxygen",
      '<div class="fragment"><div class="line"><span class="lineno">    1</span>{</div>\n<div class="line"> </div>\n<div class="foldopen">\n<div class="line"><span class="lineno">    3</span>  int x;</div>\n<div class="line"><span class="lineno">    4</span>  int y;</div>\n</div>\n<div class="ttc"><div class="ttname">x</div></div></div>',
      "```\n{\n \n  int x;\n  int y;\n```",
    ],
    [
      "of Hugo, the numbers in a column",
      '<table class="lntable"><tr><td class="lntd"><pre><code><span class="lnt">1\n</span><span class="lnt">2\n</span></code></pre></td><td class="lntd"><pre><code class="language-go">a()\nb()</code></pre></td></tr></table>',
      "```go\na()\nb()\n```",
    ],
    [
      "of Hugo, the numbers in the lines",
      '<pre><code><span class="line"><span class="ln">1</span><span class="cl">a()</span></span></code></pre>',
      "```\na()\n```",
    ],
    [
      "whose own element asks for numbers",
      '<pre class="wp-block-code"><code lang="php" class="language-php line-numbers">a();</code></pre>',
      "```php\na();\n```",
    ],
    [
      "with an element for each line of a numbering script",
      '<pre><code><table class="hljs-ln"><tr><td class="hljs-ln-line hljs-ln-numbers"><div class="hljs-ln-n" data-line-number="1"></div></td><td class="hljs-ln-line hljs-ln-code">a()</td></tr></table></code></pre>',
      "```\na()\n```",
    ],
  ])("a program keeps its lines and blanks, and has no numbers in it: %s", async (_name, html, expected) => {
    expect((await readHtml(`<main><p>${TEXT}</p>${html}</main>`)).markdown).toBe(`${TEXT}\n\n${expected}`);
  });

  test("columns of a table that only keep others apart are left out, those with a heading are not", async () => {
    const { markdown } = await readHtml(
      `<main><p>${TEXT}</p><table><tr><td colspan=3>Sales</td><td></td><td>$</td><td>5</td></tr><tr><td>Cost</td><td></td><td></td><td></td><td colspan=2>3</td></tr></table><table><tr><th>A</th><th>Remarks</th></tr><tr><td>1</td><td></td></tr><tr><td>2</td><td></td></tr></table></main>`,
    );
    expect(markdown).toBe(
      `${TEXT}\n\n|  |  |  |\n| --- | --- | --- |\n| Sales | $ | 5 |\n| Cost | 3 |  |\n\n| A | Remarks |\n| --- | --- |\n| 1 |  |\n| 2 |  |`,
    );
  });

  test("a column that links again to what one with the same heading does is left out", async () => {
    const link = (name: string) => `<a href="/${name}">${name}</a>`;
    const row = (name: string, size: string) =>
      `<tr><td colspan=2>${link(name)}</td><td>${link(name)}</td><td>${size}</td></tr>`;
    const files = `<thead><tr><th colspan=2>Name</th><th>Name</th><th>Size</th></tr></thead>${row("src", "")}${row("a", "3")}`;
    const score =
      "<thead><tr><th>Game</th><th colspan=2>Score</th></tr></thead><tr><td>A</td><td>1</td><td>1</td></tr>";
    const { markdown } = await readHtml(
      `<main><p>${TEXT}</p><table>${files}</table><table>${score}</table><table><tr><td>${link("x")}</td><td>${link("x")}</td></tr></table></main>`,
    );
    const x = "[x](https://site.example/x)";
    expect(markdown).toBe(
      `${TEXT}\n\n| Name | Size |\n| --- | --- |\n| [src](https://site.example/src) |  |\n| [a](https://site.example/a) | 3 |\n\n| Game | Score | Score |\n| --- | --- | --- |\n| A | 1 | 1 |\n\n|  |  |\n| --- | --- |\n| ${x} | ${x} |`,
    );
  });

  test("a formula that a program is to draw is one, its signs untouched", async () => {
    const { markdown } = await readHtml(
      `<main><p>${TEXT} <span class="math notranslate nohighlight">\\(\\mathbf{a}_1 *b*\\)</span>, <span class="math-container">$x_i*$</span>, <span class="math">not one</span>.</p><div class="arithmatex">\\[\\sum_{i} *x*\\]</div><div class="math" id="eq"><span class="eqno">(3)<a class="headerlink" href="#eq">¶</a></span>\\[a_i *b*\\]</div></main>`,
    );
    expect(markdown).toBe(`${TEXT} $\\mathbf{a}_1 *b*$, $x_i*$, not one.\n\n$\\sum_{i} *x*$\n\n$a_i *b* \\tag{3}$`);
  });

  test("a footnote that stands in its sentence is in brackets, its number once", async () => {
    const mark = '<sup class="ltx_note_mark">1</sup>';
    const { markdown } = await readHtml(
      `<main><p>${TEXT} 28.4 BLEU<span class="ltx_note ltx_role_footnote">${mark}<span class="ltx_note_outer"><span class="ltx_note_content">${mark}<span class="ltx_tag ltx_tag_note">1</span>By <i>us</i>.</span></span></span>.</p></main>`,
    );
    expect(markdown).toBe(`${TEXT} 28.4 BLEU<sup>1</sup> (By *us*.).`);
  });

  test("a table whose rows are numbered only in part is a table", async () => {
    const { markdown } = await readHtml(
      `<main><p>${TEXT}</p><table>${row(1, "a")}<tr><td>b</td><td>c</td></tr></table></main>`,
    );
    expect(markdown).toContain("| b | c |");
  });

  test.each([
    [
      "ends with the head",
      "<thead><tr><th rowspan=2>A</th><th>B</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody>",
      "| A | B |\n| --- | --- |\n| 1 | 2 |",
    ],
    [
      "ends with its body",
      "<tr><th>A</th><th>B</th></tr><tbody><tr><td rowspan=9>x</td><td>1</td></tr><tr><td>2</td></tr></tbody><tbody><tr><td>y</td><td>3</td></tr></tbody>",
      "| A | B |\n| --- | --- |\n| x | 1 |\n| x | 2 |\n| y | 3 |",
    ],
    [
      "of none is over all that are left",
      "<tr><th>A</th><th>B</th></tr><tr><td rowspan=0>x</td><td>1</td></tr><tr><td>2</td></tr><tr><td>3</td></tr>",
      "| A | B |\n| --- | --- |\n| x | 1 |\n| x | 2 |\n| x | 3 |",
    ],
  ])("a cell over several rows: one that %s", async (_name, rows, expected) => {
    const { markdown } = await readHtml(`<main><p>${TEXT}</p><table>${rows}</table></main>`);
    expect(markdown).toBe(`${TEXT}\n\n${expected}`);
  });

  test("a signature keeps its stars, emphasis in a term or not", async () => {
    const star = "<em><span>**</span><span>kwargs</span></em>";
    const { markdown } = await readHtml(
      `<main><dl><dt>f(<em>x</em>, <b>y</b>, ${star})</dt><dd>${TEXT}</dd></dl><p>Name<span>*</span> and 2 * 3.</p></main>`,
    );
    expect(markdown).toBe(`- **f(*x*, y, *\\*\\*kwargs*)**\n  ${TEXT}\n\nName\\* and 2 * 3.`);
  });

  test("a table of whose cells no two in a row hold something only arranges them", async () => {
    const comment = '<table><tr><td><img src="s.gif"></td><td></td><td>bob<div>Yes, it rises.</div></td></tr></table>';
    expect((await readHtml(`<p>${TEXT}</p>${comment}`)).markdown).toBe(`${TEXT}\n\nbob\n\nYes, it rises.`);
    const table = "<table><tr><th>A</th><th>B</th></tr><tr><td></td><td>1</td></tr></table>";
    expect((await readHtml(`<p>${TEXT}</p>${table}`)).markdown).toContain("|  | 1 |");
  });

  test("a link that lies over a card leads to it by its name; a sign's, or one to a place beside its heading, does not", async () => {
    const { markdown } = await readHtml(
      `<main><p>${TEXT}</p><div><a href="/ebb" aria-label="The ebb"> </a><h3>The ebb</h3></div><a href="/share" aria-label="Share"><svg></svg></a><h2>Flood <a href="/tide#flood" aria-label="Permalink"></a></h2></main>`,
    );
    expect(markdown).toBe(`${TEXT}\n\n[The ebb](https://site.example/ebb)\n\n### The ebb\n\n## Flood`);
  });

  test("a list right inside a list belongs to the item before it", async () => {
    const list = "<ul><li>Low</li><ul><li>At noon</li></ul><ul> </ul><li>High</li></ul>";
    const { markdown } = await readHtml(`<main><p>${TEXT}</p>${list}</main>`);
    expect(markdown).toBe(`${TEXT}\n\n- Low\n  - At noon\n- High`);
  });

  test("a sign that links to its own heading, and a link without a word, are not shown", async () => {
    const text = `${TEXT} <a href="/x"> </a>Also.`;
    const { markdown } = await readHtml(`<main><h2>Tides <a href="#tides">#</a></h2><p>${text}</p></main>`);
    expect(markdown).toBe(`## Tides\n\n${TEXT} Also.`);
  });

  test("of a card that begins with its picture the title is the link", async () => {
    const card =
      '<a href="/gates"><figure><img src="/gate.png" alt="A gate"></figure><h3>Gates</h3><p>All of them.</p></a>';
    expect((await readHtml(`<main><p>${TEXT}</p>${card}</main>`)).markdown).toBe(
      `${TEXT}\n\n![A gate](https://site.example/gate.png)\n\n### [Gates](https://site.example/gates)\n\nAll of them.`,
    );
  });

  test("terms and what they mean belong together, whether each pair has an element around it or not", async () => {
    const [low, high] = ["<dt>Low</dt><dd>At noon.</dd>", "<dt>High</dt><dd><p>At six.</p><p>Or seven.</p></dd>"];
    for (const list of [`${low}${high}`, `<div>${low}</div><div>${high}</div>`])
      expect((await readHtml(`<main><p>${TEXT}</p><dl>${list}</dl></main>`)).markdown).toBe(
        `${TEXT}\n\n- **Low**\n  At noon.\n- **High**\n  At six.\n\n  Or seven.`,
      );
  });

  test("a picture in a sentence, words kept on one line and a component's slot do not part their paragraph", async () => {
    const { markdown } = await readHtml(
      `<main><p>${TEXT}</p><p>Good <picture><source srcset="a.webp"><img src="a.png" alt="star"></picture> news of <nobr>ISO 9001</nobr> and <slot>more</slot>.</p></main>`,
    );
    expect(markdown).toBe(`${TEXT}\n\nGood ![star](https://site.example/a/b/a.png) news of ISO 9001 and more.`);
  });

  test("a page's own elements among words are words, and parts of the page where they stand alone", async () => {
    const { markdown } = await readHtml(
      `<main><p>Fast <g-emoji>🚀</g-emoji>, as of <relative-time>May 1</relative-time>. ${TEXT}</p><x-card>One</x-card> <x-card>Two</x-card><div>In <x-part><p>parts</p></x-part></div></main>`,
    );
    expect(markdown).toBe(`Fast 🚀, as of May 1. ${TEXT}\n\nOne\n\nTwo\n\nIn\n\nparts`);
  });

  test("an element of a name that every object has is one of the page's own", async () => {
    const { markdown } = await readHtml(
      `<p>${TEXT}</p><h2>A Map<constructor> is <b>new <constructor>now</constructor></b></h2>`,
    );
    expect(markdown).toBe(`${TEXT}\n\n## A Map is **new now**`);
  });

  test("what stands in a list without an item around it is an item with all that it has", async () => {
    const { markdown } = await readHtml(
      `<p>${TEXT}</p><ul>*<a href="/a"><li>One <b>more</b></li></a><a href="/b">Two</a><em>Three</em><div>Four</div><li>Five</li></ul>`,
    );
    expect(markdown).toBe(
      `${TEXT}\n\n- \\*\n- [One **more**](https://site.example/a)\n- [Two](https://site.example/b)\n- *Three*\n- Four\n- Five`,
    );
  });

  test("a list as macOS' text programs write it is one, and no program", async () => {
    const { markdown } = await readHtml(
      `<p>${TEXT}</p><ol class="ol1"><li class="li1">Open <a href="/a">a</a></li><li class="li1"><b>Wait</b></li></ol>`,
    );
    expect(markdown).toBe(`${TEXT}\n\n1. Open [a](https://site.example/a)\n2. **Wait**`);
  });

  test("an item of a list has the number that it is given", async () => {
    const { markdown } = await readHtml(`<p>${TEXT}</p><ol><li>a</li><li value="7">g</li><li>h</li></ol>`);
    expect(markdown).toBe(`${TEXT}\n\n1. a\n7. g\n8. h`);
    const down = await readHtml(
      `<p>${TEXT}</p><ol reversed><li>c</li> <li>b</li> <li>a</li></ol><p>or</p><ol reversed start=5><li>e</li><li>d</li></ol>`,
    );
    expect(down.markdown).toBe(`${TEXT}\n\n3. c\n2. b\n1. a\n\nor\n\n5. e\n4. d`);
  });

  test.each([
    ["letters", 'type="a"', ["a.", "b."]],
    ["large letters", 'type=A start="26"', ["Z.", "AA."]],
    ["Roman numbers", 'type="i" start=9', ["ix.", "x."]],
    [
      "large Roman numbers, by its style",
      'style="list-style: upper-roman inside" start="1994"',
      ["MCMXCIV.", "MCMXCV."],
    ],
    ["letters by its style", 'style="color:red;list-style-type:lower-alpha" type="1"', ["a.", "b."]],
    ["letters by docutils' class", 'class="upperalpha simple"', ["A.", "B."]],
    ["Roman numbers by docutils' class", 'class="lowerroman" start="4"', ["iv.", "v."]],
    ["figures where there is none", 'type="a" start="0"', ["0.", "a."]],
    ["figures where Roman ones end", 'type="I" start="3999"', ["MMMCMXCIX.", "4000."]],
    ["figures", 'type="1"', ["1.", "2."]],
  ])("a list counts as it says: %s", async (_name, attributes, [one, two]) => {
    const { markdown } = await readHtml(`<p>${TEXT}</p><ol ${attributes}><li>x</li><li>y</li></ol>`);
    expect(markdown).toBe(`${TEXT}\n\n${one} x\n${two} y`);
  });

  test("a list of letters in an item stands right below it", async () => {
    const { markdown } = await readHtml(`<p>${TEXT}</p><ol><li>x<ol type=i><li>y</li></ol></li></ol>`);
    expect(markdown).toBe(`${TEXT}\n\n1. x\n   i. y`);
  });

  test("what is named as junk inside the main part is the page where it holds the heading, or is most of it", async () => {
    const dishes = (at: number) =>
      `<section class="menu-section"><h2>Course ${at}</h2><div class="menu-item">A dish with fresh herbs. ${SHORT}</div></section>`;
    const share = '<div class="share">Share this</div>';
    const menu = await readHtml(`<main><h1>Dinner</h1><p>${SHORT}</p>${dishes(1)}${dishes(2)}${dishes(3)}</main>`);
    expect(menu.markdown.match(/fresh herbs/g)).toHaveLength(3);
    const hero = `<section class="hero-banner"><h1>Tides</h1><p>${SHORT}</p></section>`;
    expect((await readHtml(`<main>${hero}<p>${TEXT}</p>${share}</main>`)).markdown).toBe(
      `# Tides\n\n${SHORT}\n\n${TEXT}`,
    );
  });

  test("a heading that is a button as a whole is shown, a button beside one is not", async () => {
    const question = '<h3><button type="button" aria-expanded="false">When is <b>low</b> tide?</button></h3>';
    const { markdown } = await readHtml(
      `<main>${question}<p>${TEXT}</p><h3>Gates <button>Copy link</button></h3><button>More</button></main>`,
    );
    expect(markdown).toBe(`### When is **low** tide?\n\n${TEXT}\n\n### Gates`);
    const name = "<h3>\n  <button>High tide</button>\n</h3>";
    expect((await readHtml(`<main>${name}<p>${TEXT}</p></main>`)).markdown).toBe(`### High tide\n\n${TEXT}`);
  });

  test("a question that is a button is shown with the answer behind it, a button that opens a menu is not", async () => {
    const asked = '<button class="accordion">How deep?</button><div class="panel"><p>Ten feet.</p></div>';
    const told = '<div><button aria-expanded="false">When?</button><div><p>At noon.</p></div></div>';
    const menu = `<button aria-expanded="false">More</button><ul>${LINKS}</ul>`;
    const { markdown } = await readHtml(`<main><p>${TEXT}</p>${asked}${told}<button>Buy now</button></main>`);
    expect(markdown).toBe(`${TEXT}\n\n**How deep?**\n\nTen feet.\n\n**When?**\n\nAt noon.`);
    expect((await readHtml(`<main><p>${TEXT}</p>${menu}</main>`)).markdown).not.toContain("More");
  });

  test.each([
    ["by its style", 'style="display:none"'],
    ["by an attribute", "hidden"],
    ["to readers of the screen", 'aria-hidden="true"'],
  ])("an answer that is hidden until its question is clicked is shown: hidden %s", async (_name, hidden) => {
    const asked = `<button aria-expanded="false">When?</button><div ${hidden}><p>At noon.</p></div>`;
    const headed = `<h3><button aria-expanded="false">How deep?</button></h3><div ${hidden}><p>Ten feet.</p></div>`;
    const menu = `<button aria-expanded="false">More</button><div ${hidden}><ul>${LINKS}</ul></div>`;
    const other = `<h3>Tides<button aria-expanded="false">Share it</button></h3><div ${hidden}><p>Unseen.</p></div>`;
    const { markdown } = await readHtml(`<main><p>${TEXT}</p>${asked}${headed}${menu}${other}</main>`);
    expect(markdown).toBe(`${TEXT}\n\n**When?**\n\nAt noon.\n\n### How deep?\n\nTen feet.\n\n### Tides`);
  });

  test("tabs that a page's own element makes are shown, though they are hidden until it does", async () => {
    const { markdown } = await readHtml(
      `<main><p>${TEXT}</p><awsdocs-tabs><dl style="display: none"><dt>CLI</dt><dd tab-id="cli"><p>Run it.</p></dd></dl></awsdocs-tabs><div><dl style="display: none"><dt>Other</dt></dl></div></main>`,
    );
    expect(markdown).toBe(`${TEXT}\n\n- **CLI**\n  Run it.`);
  });

  test("what stands beside the main part is not shown, nor are its article's neighbours where it is most of that", async () => {
    const beside = `<div><p>${TEXT.replaceAll("tide", "sponsor")}</p></div>`;
    const { markdown } = await readHtml(`${beside}<main><h1>Tide</h1><p>${TEXT}</p></main>${beside}`);
    expect(markdown).toBe(`# Tide\n\n${TEXT}`);
    const article = `<article><h1>Tide</h1><p>${TEXT} ${TEXT}</p></article>`;
    expect((await readHtml(`<main>${article}${beside}</main>`)).markdown).toBe(`# Tide\n\n${TEXT} ${TEXT}`);
    expect((await readHtml(`${article}${beside}${beside}`)).markdown).toBe(`# Tide\n\n${TEXT} ${TEXT}`);
  });

  test("of several articles all are shown, and a main part with next to nothing in it is not the page", async () => {
    const article = (name: string) => `<article><h2>${name}</h2><p>${TEXT}</p></article>`;
    const all = `## Ebb\n\n${TEXT}\n\n## Flood\n\n${TEXT}`;
    expect((await readHtml(`<main>${article("Ebb")}${article("Flood")}</main>`)).markdown).toBe(all);
    expect((await readHtml(`${article("Ebb")}${article("Flood")}`)).markdown).toBe(all);
    const { markdown } = await readHtml(`<main><p>Loading</p></main><div><p>${TEXT} ${TEXT}</p></div>`);
    expect(markdown).toBe(`Loading\n\n${TEXT} ${TEXT}`);
  });

  test("a page that stands in what looks like a site's own parts is shown all the same; a site's header is not", async () => {
    expect((await readHtml(`<aside><p>${TEXT}</p></aside>`)).markdown).toBe(TEXT);
    expect((await readHtml(`<header><p>Shop</p></header><p>${TEXT}</p>`)).markdown).toBe(TEXT);
  });

  test("an image without a description says nothing, nor does what only counts visitors or an item without anything", async () => {
    const { markdown } = await readHtml(
      `<main><p>${TEXT}<img src="a.png"><img src="b.png" alt=" "><img src="c.gif" alt="visit" width="1"></p><ul><li></li><li>x</li></ul><p>a<code></code>b</p></main>`,
    );
    expect(markdown).toBe(`${TEXT}\n\n- x\n\nab`);
  });

  test.each([
    ["<a href='S.html'>String</a>", "[`String`](https://site.example/a/b/S.html)"],
    [
      "static <span><a href='L.html'>List</a></span>&lt;<a href='S.html'>String</a>&gt; of(<a>x</a>)",
      "`static` [`List`](https://site.example/a/b/L.html)`<`[`String`](https://site.example/a/b/S.html)`> of(x)`",
    ],
    ["<a href='#here'>a</a> b", "`a b`"],
  ])("code in a line keeps the links in it, as of a signature's types: %s", async (code, written) => {
    expect((await readHtml(`<p>${TEXT} <code>${code}</code> is</p>`)).markdown).toBe(`${TEXT} ${written} is`);
  });

  test("a program in two forms of which pages show one at a time is two, also where each is one line", async () => {
    const codes = `<code class="language-js cjs">const path = require("path");</code><code class="language-js mjs">import path from "path";</code>`;
    const { markdown } = await readHtml(
      `<p>${TEXT}</p><pre><input class="js-flavor-toggle" type="checkbox">${codes}<button>copy</button></pre>`,
    );
    const fenced = (code: string) => `\`\`\`js\n${code}\n\`\`\``;
    expect(markdown).toBe(
      [TEXT, fenced('const path = require("path");'), fenced('import path from "path";')].join("\n\n"),
    );
    const lines = `<pre><code class="line">a</code>\n<code class="line marked">b</code></pre>`;
    expect((await readHtml(`<p>${TEXT}</p>${lines}`)).markdown).toBe(`${TEXT}\n\n\`\`\`\na\nb\n\`\`\``);
  });

  test("lines of code in a paragraph stay lines, in a cell and a heading too", async () => {
    const code = "<code>apt update<br />apt install <b>tuba</b></code>";
    const { markdown } = await readHtml(
      `<main><p>${TEXT}</p><p>Run ${code} now.</p><h2>${code}</h2><table><tr><th>a</th><th>b</th></tr><tr><td>${code}</td><td>x</td></tr></table></main>`,
    );
    const rows = "| a | b |\n| --- | --- |\n| `apt update`<br>`apt install tuba` | x |";
    expect(markdown).toBe(
      [TEXT, "Run `apt update`  \n`apt install tuba` now.", "## `apt update` `apt install tuba`", rows].join("\n\n"),
    );
  });

  test("blanks at the ends of a footnote's number, and a block in a cell, keep words apart", async () => {
    const { markdown } = await readHtml(
      `<main><p>${TEXT} ebb<sup> <a href="#n1">[1]</a> </sup>flood x<sup>2 </sup>y</p><table><tr><th>a</th><th>b</th></tr><tr><td>High<center>noon</center>tide</td><td>x</td></tr></table></main>`,
    );
    expect(markdown).toBe(`${TEXT} ebb [1] flood x<sup>2</sup> y\n\n| a | b |\n| --- | --- |\n| High noon tide | x |`);
  });

  test("signs alone on a line are neither an empty item, a rule nor a line under a heading", async () => {
    const { markdown } = await readHtml(
      `<main><p>${TEXT}</p><p>-</p><p>+</p><p>1.</p><p>Sum<br>=<br>--<br>3)</p></main>`,
    );
    expect(markdown).toBe([TEXT, "\\-", "\\+", "1\\.", "Sum  \n\\=  \n\\--  \n3\\)"].join("\n\n"));
  });

  test.each([
    [
      "Javadoc's summaries",
      '<div class="summary-table three-column-summary"><div class="table-header col-first">Type</div><div class="table-header col-second">Method</div><div class="table-header col-last">About</div><div class="col-first even-row-color"><code>int</code></div><div class="col-second even-row-color"><code><a href="#s">size</a>()</code></div><div class="col-last even-row-color">&nbsp;</div><div class="col-first odd-row-color"><code>void</code></div><div class="col-second odd-row-color"><code>clear()</code></div><div class="col-last odd-row-color"><div class="block">Drops all.</div></div></div>',
      "`int`",
    ],
    [
      "roles",
      '<x-grid role="table"><div role="rowgroup"><div role="row"><span role="columnheader">Type</span><span role="columnheader">Method</span><span role="columnheader">About</span></div></div><div><div role="row"><div><a role="cell" href="i"><code>int</code></a></div><span role="cell"><code>size()</code></span><span role="cell"></span></div><div role="row" hidden><span role="cell">x</span></div><div role="row"><span role="cell"><code>void</code></span><span role="cell"><code>clear()</code></span><span role="gridcell">Drops all.</span></div></div></x-grid>',
      "[`int`](https://site.example/a/b/i)",
    ],
  ])("a table that is made of other elements is one: %s", async (_how, table, type) => {
    const rows = ["| Type | Method | About |", "| --- | --- | --- |", `| ${type} | \`size()\` |  |`];
    const { markdown } = await readHtml(`<main><p>${TEXT}</p>${table}</main>`);
    expect(markdown).toBe(`${TEXT}\n\n${[...rows, "| `void` | `clear()` | Drops all. |"].join("\n")}`);
  });

  test("a table that is made of other elements, with words beside its cells, loses none", async () => {
    const row = '<div role="row"><p role="cell">High</p><p role="cell">noon</p></div>';
    const { markdown } = await readHtml(`<main><p>${TEXT}</p><div role="grid"><p>Tides</p>${row}${row}</div></main>`);
    expect(markdown).toBe([TEXT, "Tides", "High", "noon", "High", "noon"].join("\n\n"));
  });

  test("two tables that are made of other elements, in one that has no rows of its own, stay two", async () => {
    const row = (...cells: string[]) =>
      `<div role="row">${cells.map((cell) => `<p role="cell">${cell}</p>`).join("")}</div>`;
    const tables = [row("High", "noon") + row("Low", "dusk"), row("Anna", "12") + row("Bert", "15")];
    const grid = tables.map((rows) => `<div role="table">${rows}</div>`).join("");
    const { markdown } = await readHtml(`<main><p>${TEXT}</p><div role="grid">${grid}</div></main>`);
    const head = "|  |  |\n| --- | --- |\n";
    const written = ["| High | noon |\n| Low | dusk |", "| Anna | 12 |\n| Bert | 15 |"].map((rows) => head + rows);
    expect(markdown).toBe([TEXT, ...written].join("\n\n"));
  });

  test("how a word is read stands in brackets behind it", async () => {
    const { markdown } = await readHtml(`<p>${TEXT} <ruby>漢字<rp>(</rp><rt> かんじ </rt><rp>)</rp></ruby>.</p>`);
    expect(markdown).toBe(`${TEXT} 漢字(かんじ).`);
  });

  test.each(["language-plaintext", "lang-auto", "language-undefined"])(
    "a program whose language is said to be none has none: %s",
    async (name) => {
      const { markdown } = await readHtml(`<p>${TEXT}</p><pre><code class="${name}">a</code></pre>`);
      expect(markdown).toBe(`${TEXT}\n\n\`\`\`\na\n\`\`\``);
    },
  );

  test("what is typed in between what a program says, as DocBook writes it, is not lost", async () => {
    const { markdown } = await readHtml(
      `<p>${TEXT}</p><pre class="screen"><code class="computeroutput"># </code><strong class="userinput"><code>df -h\n</code></strong><code class="computeroutput">Size Used\n8G   24K\n# </code><strong class="userinput"><code>exit</code></strong></pre>`,
    );
    expect(markdown).toBe(`${TEXT}\n\n\`\`\`\n# df -h\nSize Used\n8G   24K\n# exit\n\`\`\``);
  });

  test("a box of DocBook's, called a sidebar, is part of the text; a site's is not", async () => {
    const box =
      '<div class="sidebar"><a id="basics"></a><div class="titlepage"><div><div><p class="title"><strong>Basics</strong></p></div></div></div><p>Ask apt.</p></div>';
    const { markdown } = await readHtml(
      `<div class="section"><h2>Packages</h2><p>${TEXT}</p>${box}</div><div class="sidebar"><p>Other books</p></div>`,
    );
    expect(markdown).toBe(`## Packages\n\n${TEXT}\n\n**Basics**\n\nAsk apt.`);
  });

  test("a section of a GNU manual is named by its heading, before which the ways to others stand", async () => {
    const ways =
      '<div class="header"><p>Previous: <a href="#a">A</a>, Up: <a href="#b">B</a> [<a href="#c">Contents</a>]</p></div>';
    const { markdown } = await readHtml(
      `<div><h2>1 Start</h2><p>${TEXT}</p><div class="section" id="Feedback">${ways}<h3>1.5 Feedback</h3><p>By mail.</p></div></div>`,
    );
    expect(markdown).toEndWith("### 1.5 Feedback\n\nBy mail.");
  });

  test("a program whose lines pandoc numbers is in its language", async () => {
    const { markdown } = await readHtml(
      `<p>${TEXT}</p><div class="sourceCode"><pre class="sourceCode numberSource python numberLines"><code class="sourceCode python">a</code></pre></div>`,
    );
    expect(markdown).toBe(`${TEXT}\n\n\`\`\`python\na\n\`\`\``);
  });

  const tab = (name: string) => `<li role="presentation"><a role="tab">${name}</a></li>`;
  const panel = (html: string) => `<div role="tabpanel" hidden>${html}</div>`;
  test.each([
    [
      "right behind their tabs",
      `<ul role="tablist">${tab("Linux")}${tab("macOS")}</ul>`,
      "**Linux**\n\napt\n\n**macOS**\n\nbrew",
    ],
    [
      "behind a part with their tabs",
      `<div><ul role="tablist">${tab("Linux")}${tab("macOS")}</ul></div>`,
      "**Linux**\n\napt\n\n**macOS**\n\nbrew",
    ],
    ["of which there are others than tabs", `<ul role="tablist">${tab("Linux")}</ul>`, "apt\n\nbrew"],
  ])("panels of tabs have their names: those %s", async (_name, tabs, expected) => {
    const { markdown } = await readHtml(
      `<main><p>${TEXT}</p><div>${tabs}<div>${panel("apt")}${panel("brew")}</div></div></main>`,
    );
    expect(markdown).toBe(`${TEXT}\n\n${expected}`);
  });

  test.each([
    ["the tabs say which", 'aria-controls="linux"', 'aria-controls="mac"', 'id="mac"', 'id="linux"'],
    ["the panels say whose", 'id="linux"', 'id="mac"', 'aria-labelledby="mac"', 'aria-labelledby="linux"'],
  ])(
    "panels in another order than their tabs have their own names where %s",
    async (_name, one, two, first, second) => {
      const { markdown } = await readHtml(
        `<main><p>${TEXT}</p><div><div role="tablist"><a role="tab" ${one}>Linux</a><a role="tab" ${two}>macOS</a></div><div role="tabpanel" ${first}>brew</div><div role="tabpanel" ${second}>apt</div></div></main>`,
      );
      expect(markdown).toBe(`${TEXT}\n\n**macOS**\n\nbrew\n\n**Linux**\n\napt`);
    },
  );

  test("panels and tabs whose names for each other are empty have theirs in their order", async () => {
    const blank = (name: string) => `<a role="tab" aria-controls="">${name}</a>`;
    const { markdown } = await readHtml(
      `<main><p>${TEXT}</p><div><div role="tablist">${blank("A")}${blank("B")}</div><div role="tabpanel" id="">one</div><div role="tabpanel" id="">two</div></div></main>`,
    );
    expect(markdown).toBe(`${TEXT}\n\n**A**\n\none\n\n**B**\n\ntwo`);
  });

  test.each([
    [
      "Material for MkDocs has them",
      '<div class="tabbed-set"><input checked id="t1" name="t" type="radio"><input id="t2" name="t" type="radio"><div class="tabbed-labels"><label for="t1">Linux</label><label for="t2">Windows</label></div>\n<div class="tabbed-content">\n<div class="tabbed-block"><pre>apt</pre></div>\n<div class="tabbed-block"><pre>choco</pre></div></div></div>',
      "**Linux**\n\n```\napt\n```\n\n**Windows**\n\n```\nchoco\n```",
    ],
    [
      "VitePress has them",
      '<div class="vp-code-group"><div class="tabs"><input type="radio" name="g" id="t1" checked><label for="t1">npm</label><input type="radio" name="g" id="t2"><label for="t2">pnpm</label></div><div class="blocks"><div class="language-sh active"><button class="copy"></button><span class="lang">sh</span><pre><code>npm i</code></pre></div><div class="language-sh"><button class="copy"></button><span class="lang">sh</span><pre><code>pnpm i</code></pre></div></div></div>',
      "**npm**\n\n```sh\nnpm i\n```\n\n**pnpm**\n\n```sh\npnpm i\n```",
    ],
    [
      "but not of a form",
      '<div><input type="radio" id="t1"><input type="radio" id="t2"><p><label for="t1">Red</label> <label for="t2">Blue</label></p><div><p>One.</p></div></div>',
      "Red Blue\n\nOne.",
    ],
  ])("panels that labels of radio buttons open have their names, as %s", async (_name, tabs, expected) => {
    const { markdown } = await readHtml(`<main><p>${TEXT}</p>${tabs}</main>`);
    expect(markdown).toBe(`${TEXT}\n\n${expected}`);
  });

  test("a heading is shown that is a link as a whole, whatever that is called; a link beside one is not", async () => {
    const heading =
      '<h2><a class="toc-backref" href="#id1" role="doc-backlink">Abstract</a><a class="headerlink" href="#abstract">¶</a></h2>';
    const edited = '<h3>Rationale <a class="share" href="/share">Share this</a></h3>';
    const { markdown } = await readHtml(`<main>${heading}<p>${TEXT}</p>${edited}<p>${TEXT}</p></main>`);
    expect(markdown).toBe(`## Abstract\n\n${TEXT}\n\n### Rationale\n\n${TEXT}`);
  });

  test("a form for comments, as WordPress has it below each article, is none of it", async () => {
    const form =
      '<div id="respond" class="comment-respond"><h3>Leave a Reply</h3><form><p>Your email address will not be published.</p></form></div>';
    const { markdown } = await readHtml(`<main><p>${TEXT}</p>${form}</main>`);
    expect(markdown).toBe(TEXT);
  });

  test("panels inside a panel have names of their own", async () => {
    const inner = `<div role="tablist">${tab("C")}</div>${panel("cc")}`;
    const { markdown } = await readHtml(
      `<main><p>${TEXT}</p><div><div role="tablist">${tab("A")}${tab("B")}</div>${panel(inner)}${panel("")}</div></main>`,
    );
    expect(markdown).toBe(`${TEXT}\n\n**A**\n\n**C**\n\ncc`);
  });

  test("a page that its programs would make says what it is about, where its head does", async () => {
    const head = (more: string) => `<html><head><title>Tides</title>${more}</head><body>`;
    const described = head('<meta name="description" content="How the  *moon*\nmoves the sea.">');
    const { markdown, note } = await readHtml(`${described}<div id="app"></div><script src="app.js"></script>`);
    expect(markdown).toBe("# Tides\n\nHow the \\*moon\\* moves the sea.");
    expect(note).toContain("running programs");
    const { markdown: named } = await readHtml(
      `${head('<meta property="og:description" content="The sea.">')}<script>app()</script>`,
    );
    expect(named).toBe("# Tides\n\nThe sea.");
    const { markdown: shown } = await readHtml(`${described}<main><p>${TEXT}</p></main><script>app()</script>`);
    expect(shown).toBe(`# Tides\n\n${TEXT}`);
  });

  test("panels that a reader opens are shown, what is hidden else is not", async () => {
    const tabs =
      '<ul role="tablist"><li role="tab">npm</li></ul><div role="tabpanel"><pre>npm i</pre></div><div role="tabpanel" hidden><pre>yarn add</pre></div>';
    const answer = '<h3 id="q">When?</h3><div role="region" aria-labelledby="q" hidden><p>At noon.</p></div>';
    const hidden =
      '<p hidden>No</p><div role="region" hidden>No</div><div aria-hidden="true">No</div><p style="display: none">No</p>';
    const { markdown } = await readHtml(`<main><p>${TEXT}</p>${tabs}${answer}${hidden}</main>`);
    expect(markdown).toBe(`${TEXT}\n\n\`\`\`\nnpm i\n\`\`\`\n\n\`\`\`\nyarn add\n\`\`\`\n\n### When?\n\nAt noon.`);
  });
});
