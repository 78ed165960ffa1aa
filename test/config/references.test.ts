// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references of a configuration file are written like this.
import { afterEach, describe, expect, test } from "bun:test";
import { chmodSync, chownSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { faultLines, load, makeFolder, removeFolders, writeIn } from "./support.ts";

afterEach(removeFolders);

const vendor = (fields: string) => `vendors:\n  - id: openai\n    ${fields}\n`;

describe("references", () => {
  test("variables are filled in, inside a text and alone, in every format", () => {
    const environment = { KEY: " sk-1 ", HOST: "lab.example", DIALECT: "chat" };
    const yaml = makeFolder();
    writeIn(
      yaml,
      "sluice.yaml",
      "vendors:\n  - id: lab\n    dialect: ${DIALECT}\n    base_url: https://${HOST}/v1//\n    api_key: ${KEY}\n",
    );
    const toml = makeFolder();
    writeIn(
      toml,
      "sluice.toml",
      '[[vendors]]\nid = "lab"\ndialect = "${DIALECT}"\nbase_url = "https://${HOST}/v1"\napi_key = "${KEY}"\n',
    );
    const json = makeFolder();
    writeIn(
      json,
      "sluice.json",
      '{"vendors":[{"id":"lab","dialect":"${DIALECT}","base_url":"https://${HOST}/v1","api_key":"${KEY}"}]}',
    );
    for (const folder of [yaml, toml, json]) {
      expect(load(folder, { environment }).vendors).toEqual([
        { id: "lab", dialect: "chat", base_url: "https://lab.example/v1", api_key: "sk-1" },
      ]);
    }
  });

  test("$${ is a plain ${, and what a variable holds is not looked at again", () => {
    const folder = makeFolder();
    writeIn(folder, "sluice.yaml", vendor('headers: { a: "$${KEY}", b: "x ${KEY} y" }'));
    expect(load(folder, { environment: { KEY: "${OTHER}", OTHER: "no" } }).vendors[0]?.headers).toEqual({
      a: "${KEY}",
      b: "x ${OTHER} y",
    });
  });

  test("a name that every object has is a variable that is not set", () => {
    const folder = makeFolder();
    writeIn(folder, "sluice.yaml", vendor("api_key: ${toString}"));
    expect(faultLines(folder)).toEqual([
      `${join(folder, "sluice.yaml")}: vendors[0].api_key: expected the environment variable toString to be set, found nothing`,
    ]);
  });

  // A variable may hold a secret, wherever it is written by a slip.
  const NOT_SHOWN: readonly (readonly [written: string, fault: string])[] = [
    [
      "server: { cors_origins: ['https://app.example', '${KEY}'] }",
      'server.cors_origins[1]: expected an origin such as https://app.example.com, found "${KEY}"',
    ],
    [
      "server: { trusted_proxies: ['${KEY}'] }",
      'server.trusted_proxies[0]: expected an IP address or a range such as 10.0.0.0/8, found "${KEY}"',
    ],
    [
      "web: { fetch: { allow_hosts: ['${KEY}/x'] } }",
      'web.fetch.allow_hosts[0]: expected a host name, *.name, an IP address or a range such as 10.0.0.0/8, with or without :port, found "${KEY}/x"',
    ],
    [
      "models: [{ id: openai/x, routes: [{ vendor: '${KEY}', model: x }] }]",
      'models[0].routes[0].vendor: expected the id of a vendor, found "${KEY}"',
    ],
    [
      "models: [{ id: 'openai/${KEY}' }, { id: 'openai/${KEY}' }]",
      'models[1].id: expected an id used once, found "openai/${KEY}" again (first in models[0])',
    ],
    [
      "vendors: [{ id: '${KEY}' }, { id: '${KEY}' }, { id: lab }]",
      'vendors[1].id: expected an id used once, found "${KEY}" again (first in vendors[0])',
    ],
  ];
  for (const [written, fault] of NOT_SHOWN) {
    test(`what a variable holds is not shown: ${written}`, () => {
      const folder = makeFolder();
      const path = writeIn(folder, "sluice.yaml", written);
      const lines = faultLines(folder, { environment: { KEY: "canary-0123456789" } });
      expect(lines.map((line) => line.slice(path.length + 2).replace(/^\d+: /, ""))).toContain(fault);
      expect(lines.join()).not.toContain("canary");
    });
  }

  test("null is not set, and a file of comments sets nothing", () => {
    const folder = makeFolder();
    writeIn(folder, "sluice.yaml", "# vendors:\n");
    expect(load(folder).server.port).toBe(4600);
    writeIn(folder, "sluice.yaml", "server: { public_url: null, port: null }\nvendors:\nmodels: ~\n");
    expect(load(folder)).toMatchObject({ server: { publicUrl: undefined, port: 4600 }, vendors: [], models: [] });
  });
});

describe("a key in a file", () => {
  test("is read, trimmed, relative to the configuration file, the home, or absolute", () => {
    const folder = makeFolder();
    const home = makeFolder();
    const path = writeIn(folder, "keys/openai", "sk-file\n");
    writeIn(home, "key", "sk-home");
    for (const [written, expected] of [
      ["keys/openai", "sk-file"],
      [path, "sk-file"],
      ["~/key", "sk-home"],
    ]) {
      writeIn(folder, "sluice.yaml", vendor(`api_key: file:${written}`));
      expect(load(folder, { home }).vendors[0]?.api_key).toBe(expected);
    }
  });

  test("is not read for other fields", () => {
    const folder = makeFolder();
    writeIn(folder, "name", "x");
    writeIn(folder, "sluice.yaml", vendor("name: file:name"));
    expect(load(folder).vendors[0]?.name).toBe("file:name");
  });

  test("is refused when others may read it, when missing, empty, of several lines, or a folder", () => {
    const folder = makeFolder();
    const config = writeIn(folder, "sluice.yaml", vendor("api_key: file:key"));
    const path = join(folder, "key");
    const line = () => faultLines(folder)[0]!.replace(`${config}: vendors[0].api_key: `, "");
    expect(line()).toBe(`expected a file at ${path}, found none that can be read (ENOENT)`);
    writeIn(folder, "key", "sk-canary");
    for (const mode of [0o644, 0o640, 0o604, 0o660]) {
      chmodSync(path, mode);
      expect(line()).toBe(`expected ${path} to have mode 0600, found 0${mode.toString(8)} (chmod 600 ${path})`);
    }
    chmodSync(path, 0o400);
    expect(load(folder).vendors[0]?.api_key).toBe("sk-canary");
    chmodSync(path, 0o600);
    writeIn(folder, "key", "sk-canary\nsecond");
    expect(line()).toBe(`expected ${path} to hold one line, found more`);
    writeIn(folder, "key", "x".repeat(65_537));
    expect(line()).toBe(`expected ${path} to hold a key, found 65537 bytes`);
    writeIn(folder, "key", "\n");
    expect(line()).toBe(`expected ${path} to hold a key, found it empty`);
    writeIn(folder, "sluice.yaml", vendor("api_key: file:folder"));
    mkdirSync(join(folder, "folder"));
    expect(line()).toBe(`expected a file at ${folder}/folder, found something else`);
  });

  test.skipIf(process.geteuid?.() !== 0)("is refused when it is another user's", () => {
    const folder = makeFolder();
    writeIn(folder, "sluice.yaml", vendor("api_key: file:key"));
    const path = writeIn(folder, "key", "sk-canary");
    chmodSync(path, 0o600);
    expect(load(folder).vendors[0]?.api_key).toBe("sk-canary");
    chownSync(path, 4_321, 4_321);
    expect(faultLines(folder)[0]).toContain(`expected ${path} to belong to user 0, found user 4321`);
  });
});
