// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references of a configuration file are written like this.
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { faultOf, load, makeFolder, removeFolders, writeIn } from "./support.ts";

setDefaultTimeout(20_000);
afterEach(removeFolders);

/** What is told of a file, without the file's folder. */
function told(name: string, content: string): string {
  const folder = makeFolder();
  writeIn(folder, name, content);
  return faultOf(folder).lines.join("\n").replaceAll(`${folder}/`, "");
}

const VENDORS = `# what we call
vendors:
  - id: openai

  - id: lab
    dialect: chatt          # not a dialect
    base_url: http://x/v1
server: { port: 1,
  host: "?" }
`;

describe("a fault names its line", () => {
  test("of YAML and TOML, of a fault of the schema, of a reference, of what is missing inside", () => {
    expect(told("sluice.yaml", VENDORS)).toStartWith("sluice.yaml:6: vendors[1].dialect: expected one of");
    const unset = "\n# a key\nvendors:\n  - id: openai\n    api_key: ${UNSET_KEY}\n";
    expect(told("sluice.yaml", unset)).toStartWith("sluice.yaml:5: vendors[0].api_key: expected the environment");
    expect(told("sluice.yaml", "vendors:\n  - id: openai\n  - dialect: chat\n")).toStartWith(
      "sluice.yaml:3: vendors[1].id: expected a name",
    );
    expect(told("sluice.toml", '[limits]\nblocking_seconds = 9\n\n[server]\nport = "x"\n')).toStartWith(
      "sluice.toml:5: server.port: expected a port",
    );
  });

  test("of a key that is there twice, its second one", () => {
    const lost = "vendors:\n  - id: lab\n    base_url: http://a\n\n    # another one\n    id: second\n";
    expect(told("sluice.yaml", lost)).toBe("sluice.yaml:6: vendors[0].id: expected once, found twice");
    const json = '{\n  "limits": {\n    "blocking_seconds": 5,\n    "blocking_seconds": 7\n  }\n}';
    expect(told("sluice.json", json)).toBe("sluice.json:4: limits.blocking_seconds: expected once, found twice");
    const inline = "vendors:\n  - { id: lab, dialect: chat, base_url: 'http://a', models: any, id: other }\n";
    expect(told("sluice.yaml", inline)).toBe("sluice.yaml:2: vendors[0].id: expected once, found twice");
    const minified = '{"server":{"port":1},"limits":{},"server":{"host":"::1"}}';
    expect(told("sluice.json", minified)).toBe("sluice.json:1: server: expected once, found twice");
  });

  test("equal keys of several mappings, and what a text holds, are no key twice", () => {
    const folder = makeFolder();
    const vendor = (id: string) =>
      `  - id: ${id}\n    dialect: chat\n    base_url: http://x/v1\n    headers:\n      x-a: b\n    name: |\n      id: 1\n      id: 2\n`;
    writeIn(
      folder,
      "sluice.yaml",
      `vendors:\n${vendor("one")}${vendor("two")}plans:\n  a:\n    metered: true\n  b:\n    metered: true\n`,
    );
    expect(load(folder).vendors.map(({ id, name }) => [id, name])).toEqual([
      ["one", "id: 1\nid: 2\n"],
      ["two", "id: 1\nid: 2\n"],
    ]);
    const objects =
      '{\n  "vendors": [\n    {\n      "id": "openai"\n    },\n    {\n      "id": "anthropic"\n    }\n  ]\n}';
    rmSync(join(folder, "sluice.yaml"));
    const routes = "routes: [{ vendor: openai, model: a }, { vendor: openrouter, model: 'b, vendor: c' }]";
    writeIn(
      folder,
      "sluice.yaml",
      `models: [{ id: openai/m, ${routes} }, { id: openai/n, display_name: "{id: 1, id: 2}" }]\n`,
    );
    expect(load(folder).models.map(({ id }) => id)).toEqual(["openai/m", "openai/n"]);
    rmSync(join(folder, "sluice.yaml"));
    writeIn(folder, "sluice.json", objects);
    expect(load(folder).vendors.map(({ id }) => id)).toEqual(["openai", "anthropic"]);
  });

  test("and none where it cannot be known", () => {
    expect(told("sluice.yaml", "server: { port: 1,\n  host: '?' }\n")).toStartWith("sluice.yaml: server.host: ");
    expect(told("sluice.json", '{\n "srever": {}\n}')).toStartWith("sluice.json: srever: unknown key");
    expect(told("sluice.yaml", `${"#\n".repeat(20_000)}srever: 1\n`)).toStartWith("sluice.yaml: srever: ");
  });

  test("a text that cannot be parsed says from where on", () => {
    expect(told("sluice.yaml", "vendors:\n  - id: lab\n   dialect: chat\nweb: {}\n")).toEndWith(", in line 3 or below");
    expect(told("sluice.yaml", "vendors:\n  - id: lab\n    name: 'open\nweb: {}\n")).toEndWith(", in line 3 or below");
    expect(told("sluice.toml", "[server]\nport = = 3\n")).toEndWith(", in line 2 or below");
    expect(told("sluice.json", '{"vendors": [\n')).not.toContain("line");
  });
});

describe.if(process.platform !== "win32")("a configuration that comes through a pipe", () => {
  /** A FIFO that a process of its own writes to. */
  function pipe(name: string, writer: string): { folder: string; path: string } {
    const folder = makeFolder();
    const path = `${folder}/${name}`;
    Bun.spawnSync(["mkfifo", "-m", "600", path]);
    Bun.spawn(["sh", "-c", writer, path], { stdout: "ignore", stderr: "ignore" });
    return { folder, path };
  }

  test("is read once to its end, however it comes, and kept for the next time", () => {
    const { folder, path } = pipe("slow.yaml", '(echo "limits:"; sleep 0.2; echo "  blocking_seconds: 7") > "$0"');
    expect(load(folder, { flags: { config: path } }).limits.blockingSeconds).toBe(7);
    expect(load(folder, { flags: { config: path } }).limits.blockingSeconds).toBe(7);
  });

  test("is YAML where its name says nothing, and JSON with it", () => {
    const { folder, path } = pipe("63", `echo '{"limits": {"blocking_seconds": 8}}' > "$0"`);
    expect(load(folder, { flags: { config: path } }).limits.blockingSeconds).toBe(8);
  });

  test("that nobody ends, or that is too long, is refused and does not hang", () => {
    const idle = pipe("idle.yaml", "true");
    const began = Date.now();
    expect(faultOf(idle.folder, { flags: { config: idle.path } }).lines).toEqual([
      `${idle.path}: expected text that ends within 5 s, found a pipe that nobody ends`,
    ]);
    expect(Date.now() - began).toBeLessThan(12_000);
    const long = pipe("long.yaml", 'yes > "$0"');
    expect(faultOf(long.folder, { flags: { config: long.path } }).lines).toEqual([
      `${long.path}: expected at most 1048576 bytes, found more`,
    ]);
  });

  test("a folder is none", () => {
    const folder = makeFolder();
    writeIn(folder, "x.yaml/inside", "");
    expect(faultOf(folder, { flags: { config: "x.yaml" } }).lines).toEqual([
      `${folder}/x.yaml: expected a file, found a folder`,
    ]);
  });
});
