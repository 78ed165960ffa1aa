// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references of a configuration file are written like this.
import { afterEach, describe, expect, test } from "bun:test";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { faultLines, faultOf, load, makeFolder, removeFolders, writeIn } from "./support.ts";

afterEach(removeFolders);

const FILE = `
server: { host: 10.0.0.3, port: 3003, public_url: https://file.example/, cdn_url: https://files.example/x/, cors_origins: [https://File.example], trusted_proxies: [10.0.0.0/8, "::1"] }
limits: { blocking_seconds: 33 }
local_discovery: false
`;
const VARIABLES = {
  SLUICE_HOST: "10.0.0.2",
  SLUICE_PORT: "2002",
  SLUICE_PUBLIC_URL: "https://variable.example",
  SLUICE_CDN_URL: "https://cdn.example",
  SLUICE_CORS_ORIGINS: "https://a.example, https://b.example, App://obsidian.md, file://, null",
  SLUICE_TRUSTED_PROXIES: "192.0.2.1, fd00::/8",
  SLUICE_BLOCKING_SECONDS: "22",
  SLUICE_LOCAL_DISCOVERY: "yes",
  SLUICE_LOG_LEVEL: "info",
};

describe("order of sources", () => {
  test("nothing given: the defaults", () => {
    const folder = makeFolder();
    expect(load(folder)).toEqual({
      dataFolder: folder,
      file: undefined,
      places: expect.any(Array) as unknown as string[],
      server: {
        host: "127.0.0.1",
        port: 4600,
        portWasGiven: false,
        publicUrl: undefined,
        cdnUrl: undefined,
        corsOrigins: [],
        trustedProxies: [],
        allowedHosts: [],
      },
      vendors: [],
      models: [],
      plans: {},
      web: {},
      search: [{ engine: "tavily" }],
      limits: { blockingSeconds: 95 },
      records: { usageDays: 400, requestLog: { days: 14, maxBytes: 64 * 1024 * 1024, bodies: false } },
      images: { keepDays: 90, bucket: undefined },
      localDiscovery: true,
      traces: undefined,
      logLevel: "warn",
      warnings: [],
    });
  });

  test("the file wins over the defaults", () => {
    const folder = makeFolder();
    const path = writeIn(folder, "sluice.yaml", FILE);
    const config = load(folder);
    expect(config.file).toBe(path);
    expect(config.server).toEqual({
      host: "10.0.0.3",
      port: 3003,
      portWasGiven: true,
      publicUrl: "https://file.example",
      cdnUrl: "https://files.example/x",
      corsOrigins: ["https://file.example"],
      trustedProxies: ["10.0.0.0/8", "::1"],
      allowedHosts: ["file.example", "files.example", "10.0.0.3"],
    });
    expect(config.limits).toEqual({ blockingSeconds: 33 });
    expect(config.localDiscovery).toBe(false);
  });

  test("what the file says of the log of requests and of a bucket, and nothing that it does not say", () => {
    const folder = makeFolder();
    const bucket = { bucket: "b", access_key_id: "a", secret_access_key: "s" };
    const place = { endpoint: "https://s3.example", region: "eu", prefix: "p/", public_url: "https://cdn.example/x/" };
    const told = (storage: object) => {
      writeIn(folder, "sluice.json", JSON.stringify({ request_log: { enabled: false }, images: { storage } }));
      const { records, images } = load(folder);
      return [records.requestLog, images.bucket];
    };
    const keys = { bucket: "b", accessKeyId: "a", secretAccessKey: "s" };
    expect(told(bucket)).toStrictEqual([undefined, keys]);
    const { public_url: _written, ...rest } = place;
    expect(told({ ...bucket, ...place })).toStrictEqual([
      undefined,
      { ...keys, ...rest, publicUrl: "https://cdn.example/x" },
    ]);
  });

  test("variables win over the file, flags over variables", () => {
    const folder = makeFolder();
    writeIn(folder, "sluice.yaml", FILE);
    const byVariables = load(folder, { environment: VARIABLES });
    expect(byVariables.server).toMatchObject({ host: "10.0.0.2", port: 2002, publicUrl: "https://variable.example" });
    const origins = ["https://a.example", "https://b.example", "app://obsidian.md", "file://", "null"];
    expect(byVariables.server.corsOrigins).toEqual(origins);
    expect(byVariables.server.trustedProxies).toEqual(["192.0.2.1", "fd00::/8"]);
    expect(byVariables.limits.blockingSeconds).toBe(22);
    expect(byVariables.localDiscovery).toBe(true);
    expect(byVariables.logLevel).toBe("info");
    const flags = {
      host: "127.0.0.1",
      port: "1001",
      publicUrl: "https://flag.example/",
      cdnUrl: "http://flag.example:1/c",
    };
    const byFlags = load(folder, { environment: VARIABLES, flags });
    expect(byFlags.server).toMatchObject({ ...flags, port: 1001, publicUrl: "https://flag.example" });
    expect(byFlags.server.allowedHosts).toEqual(["flag.example"]);
  });

  test("an empty variable is one that is not set; blanks around a value do not count", () => {
    const config = load(makeFolder(), { environment: { SLUICE_HOST: "", SLUICE_PORT: " 5005 " } });
    expect(config.server).toMatchObject({ host: "127.0.0.1", port: 5005 });
  });

  test("the file is found by flag, by variable, in the data folder; relative to the working folder", () => {
    const folder = makeFolder();
    writeIn(folder, "sluice.json", '{"server":{"port":1}}');
    const toml = writeIn(folder, "a/other.toml", "[server]\nport = 2\n");
    const yaml = writeIn(folder, "third.yml", "server: { port: 3 }");
    expect(load(folder).server.port).toBe(1);
    expect(load(folder, { environment: { SLUICE_CONFIG: toml } }).server.port).toBe(2);
    expect(load(folder, { environment: { SLUICE_CONFIG: toml }, flags: { config: "third.yml" } })).toMatchObject({
      file: yaml,
      server: { port: 3 },
    });
  });

  test("the data folder: flag, variable, platform", () => {
    const folder = makeFolder();
    const place = (environment: Record<string, string>, platform: NodeJS.Platform, data?: string) =>
      load(folder, { environment, platform, home: "/home/ann", flags: { data } }).dataFolder;
    expect(place({ SLUICE_DATA: "/d/v" }, "linux", "/d/f")).toBe("/d/f");
    expect(place({ SLUICE_DATA: "relative" }, "linux")).toBe(join(folder, "relative"));
    expect(place({}, "linux")).toBe("/home/ann/.local/share/sluice");
    expect(place({ XDG_DATA_HOME: "/x" }, "linux")).toBe("/x/sluice");
    expect(place({ XDG_DATA_HOME: "x" }, "linux")).toBe("/home/ann/.local/share/sluice");
    expect(place({}, "darwin")).toBe("/home/ann/Library/Application Support/sluice");
    expect(place({ LOCALAPPDATA: "/l" }, "win32")).toBe("/l/sluice");
    const homeless = (environment: Record<string, string>) =>
      load(folder, { environment, platform: "linux", home: "", flags: { data: undefined } }).dataFolder;
    expect(homeless({ SLUICE_DATA: "/d/v" })).toBe("/d/v");
    expect(homeless({ XDG_DATA_HOME: "/x" })).toBe("/x/sluice");
    expect(() => homeless({})).toThrow("choose a folder with --data or SLUICE_DATA");
  });
});

describe("values of flags and variables", () => {
  const FAULTS: readonly (readonly [given: Parameters<typeof faultOf>[1], line: string, fromFlags: boolean])[] = [
    [{ flags: { port: "abc" } }, '--port: expected a port from 0 to 65535, found "abc"', true],
    [{ flags: { port: "65536" } }, '--port: expected a port from 0 to 65535, found "65536"', true],
    [
      { environment: { SLUICE_BLOCKING_SECONDS: "0" } },
      'SLUICE_BLOCKING_SECONDS: expected a whole number of seconds from 1 to 3600, found "0"',
      false,
    ],
    [{ environment: { SLUICE_USE_ENV_PROXY: "true" } }, 'SLUICE_USE_ENV_PROXY: expected 0 or 1, found "true"', false],
    [{ environment: { SLUICE_HTTP_CLIENT: "curl" } }, 'SLUICE_HTTP_CLIENT: expected fetch, found "curl"', false],
    [{ environment: { SLUICE_HTTP_SERVER: "Bun" } }, 'SLUICE_HTTP_SERVER: expected bun, found "Bun"', false],
    [{ environment: { SLUICE_PORT: "1e3" } }, 'SLUICE_PORT: expected a port from 0 to 65535, found "1e3"', false],
    [{ flags: { host: "x/y" } }, '--host: expected a host name or an IP address, found "x/y"', true],
    [{ flags: { host: "http://x" } }, '--host: expected a host name or an IP address, found "http://x"', true],
    [
      { flags: { publicUrl: "gate.example" } },
      '--public-url: expected a URL beginning with http:// or https://, without user name, query or fragment, found "gate.example"',
      true,
    ],
    [
      { environment: { SLUICE_LOCAL_DISCOVERY: "perhaps" } },
      'SLUICE_LOCAL_DISCOVERY: expected true or false, found "perhaps"',
      false,
    ],
    [
      { environment: { SLUICE_CORS_ORIGINS: "https://a.example,*" } },
      'SLUICE_CORS_ORIGINS: expected an origin such as https://app.example.com, or several separated by commas, found "https://a.example,*"',
      false,
    ],
  ];
  for (const [given, line, fromFlags] of FAULTS) {
    test(line, () => {
      const fault = faultOf(makeFolder(), given);
      expect(fault.lines).toEqual([line]);
      expect(fault.fromFlags).toBe(fromFlags);
    });
  }

  test("the least and the greatest there is, and words in any case", () => {
    const at = (port: string, seconds: string) =>
      load(makeFolder(), { flags: { port }, environment: { SLUICE_BLOCKING_SECONDS: seconds } });
    expect(at("0", "1")).toMatchObject({ server: { port: 0 }, limits: { blockingSeconds: 1 } });
    expect(at("65535", "3600")).toMatchObject({ server: { port: 65_535 }, limits: { blockingSeconds: 3_600 } });
    const words = { SLUICE_LOCAL_DISCOVERY: "Off", SLUICE_LOG_LEVEL: "ERROR" };
    expect(load(makeFolder(), { environment: words })).toMatchObject({ localDiscovery: false, logLevel: "error" });
  });

  test("an IPv6 address, in brackets or not", () => {
    expect(load(makeFolder(), { flags: { host: "[::1]" } }).server.host).toBe("::1");
    expect(load(makeFolder(), { flags: { host: "::1" } }).server).toMatchObject({ host: "::1", allowedHosts: [] });
    expect(load(makeFolder(), { flags: { host: "fd00::7" } }).server.allowedHosts).toEqual(["[fd00::7]"]);
  });

  test("an address of this machine is served by its name where it is the one listened on", () => {
    const served = (host: string) => load(makeFolder(), { flags: { host } }).server.allowedHosts;
    expect(served("127.0.0.2")).toEqual(["127.0.0.2"]);
    for (const host of ["127.0.0.1", "localhost", "LocalHost", "0.0.0.0", "::"]) expect(served(host)).toEqual([]);
  });

  test("variables a container platform sets for a service called sluice are not ours", () => {
    const environment = {
      SLUICE_PORT: "tcp://10.0.0.7:4600",
      SLUICE_PORT_4600_TCP_ADDR: "10.0.0.7",
      SLUICE_SERVICE_HOST: "10.0.0.7",
    };
    expect(load(makeFolder(), { environment })).toMatchObject({ server: { port: 4600 }, warnings: [] });
  });
});

describe("warnings", () => {
  const warnings = (given: Parameters<typeof load>[1]) => load(makeFolder(), given).warnings;

  test("none for the clients' key or for loopback", () => {
    expect(warnings({ environment: { SLUICE_API_KEY: "sk-x" }, flags: { host: "localhost" } })).toEqual([]);
  });

  test("a mistyped variable", () => {
    expect(warnings({ environment: { SLUICE_PROT: "1" } })).toEqual([
      "SLUICE_PROT is not a variable of Sluice; did you mean SLUICE_PORT?",
    ]);
  });

  test("an authority's file that is not there, or holds no certificate", () => {
    const at = (path: string) => warnings({ environment: { NODE_EXTRA_CA_CERTS: path } });
    const certificate = (name: string) =>
      Bun.fileURLToPath(new URL(`../fixtures/certificates/${name}.txt`, import.meta.url));
    expect([at(""), at(certificate("authority"))]).toEqual([[], []]);
    for (const path of [certificate("key"), "/nowhere/authority.pem"]) {
      const what = "the path of a certificate in PEM that can be read";
      expect(at(path)).toEqual([`NODE_EXTRA_CA_CERTS is left aside: expected ${what}, found "${path}".`]);
    }
  });

  test("a listener beyond this machine", () => {
    expect(warnings({ flags: { host: "0.0.0.0", publicUrl: "https://gate.example" } })).toEqual([]);
    expect(warnings({ flags: { host: "192.168.1.5" } })).toHaveLength(1);
    expect(warnings({ flags: { host: "0.0.0.0" } })).toHaveLength(2);
    // Written in another way it is the same address, of which the same is to be said and from which the same is answered.
    for (const [written, host] of Object.entries({
      "0": "0.0.0.0",
      "::0": "::",
      "127.1": "127.0.0.1",
      LocalHost: "localhost",
      "0:0:0:0:0:0:0:1": "::1",
    })) {
      const { server, warnings } = load(makeFolder(), { flags: { host: written } });
      expect({ written, host: server.host, allowedHosts: server.allowedHosts }).toEqual({
        written,
        host,
        allowedHosts: [],
      });
      expect(warnings).toHaveLength(["0", "::0"].includes(written) ? 2 : 0);
    }
    expect(faultLines(makeFolder(), { flags: { host: "256.1.1.1" } })).toEqual([
      '--host: expected a host name or an IP address, found "256.1.1.1"',
    ]);
  });

  test.each([
    "vendors: [{ id: openai, api_key: sk-plain }]",
    "vendors: [{ id: openai, api_keys: ['${KEY}', sk-plain] }]",
    "web: { search: { engines: { brave: { api_key: sk-plain } } } }",
    "images: { storage: { bucket: b, access_key_id: a, secret_access_key: sk-plain } }",
    "vendors: [{ id: openai, auth: none, headers: { Authorization: Bearer sk-plain } }]",
    "vendors: [{ id: openai, auth: none, query: api-version=1&key=sk-plain }]",
    "telemetry: { headers: { x-api-key: sk-plain } }",
  ])("a key others can read: %s", (text) => {
    const folder = makeFolder();
    const path = writeIn(folder, "sluice.yaml", text, 0o600);
    const given = { environment: { KEY: "sk-variable" } };
    expect(load(folder, given).warnings).toEqual([]);
    chmodSync(path, 0o644);
    const told = `${path} holds a key and can be read by other users: chmod 600 ${path}`;
    expect(load(folder, given).warnings).toContain(told);
    expect(load(folder, { ...given, platform: "win32" }).warnings).toEqual([]);
  });

  test("others may read a file that only says where its keys are", () => {
    const folder = makeFolder();
    writeIn(folder, "key", "sk-plain");
    const rows = [
      "{ id: openai, api_key: '${KEY}', headers: { X-Team: blue, X-Api-Key: '${KEY}' } }",
      "{ id: anthropic, api_keys: ['${KEY}', file:key], query: 'beta=true&key=${KEY}' }",
    ];
    writeIn(
      folder,
      "sluice.yaml",
      `vendors: [${rows.join(", ")}]\nweb: { fetch: { allow_hosts: [wiki.lan] } }\n`,
      0o644,
    );
    expect(load(folder, { environment: { KEY: "sk-variable" } }).warnings).toEqual([]);
  });

  test("a model whose vendor is nowhere", () => {
    const folder = makeFolder();
    const models =
      "[{ id: opnai/gpt-5 }, { id: lab/a }, { id: openai/b }, { id: x/c, routes: [{ vendor: lab, model: c }] }]";
    writeIn(folder, "sluice.yaml", `vendors: [{ id: lab, dialect: chat, base_url: 'http://x/v1' }]\nmodels: ${models}`);
    expect(load(folder).warnings).toEqual([
      "models[0]: opnai/gpt-5 has no vendor: there is no opnai; did you mean openai?",
    ]);
  });

  test("a way to a model that the list of its vendor's models leaves out", () => {
    const folder = makeFolder();
    const models = [
      "{ id: lab/a }",
      "{ id: lab/b }",
      "{ id: lab/c, routes: [{ vendor: lab, model: a }, { vendor: far, model: c }, { vendor: near, model: c }] }",
      "{ id: openai/gpt-5, context_length: 9 }",
    ];
    const vendors = [
      "{ id: lab, dialect: chat, base_url: 'http://x/v1', models: [a] }",
      "{ id: far, dialect: chat, base_url: 'http://y/v1', models: [a] }",
      "{ id: near, dialect: chat, base_url: 'http://z/v1', models: discover }",
      "{ id: openai, models: [gpt-4.1] }",
    ];
    writeIn(folder, "sluice.yaml", `vendors: [${vendors.join()}]\nmodels: [${models.join()}]`);
    expect(load(folder).warnings).toEqual([
      "models[1]: lab/b is not had from lab: the models of its row are a list without b.",
      "models[2]: lab/c is not had from far: the models of its row are a list without c.",
    ]);
  });

  test("the price of a token in place of a million's, as other programs write it; it is taken as it stands", () => {
    const folder = makeFolder();
    const models = [
      "{ id: lab/a, pricing: { input: 0.0000025, output: 0.00001 } }",
      "{ id: lab/b, pricing: { input: 1, output: 0, tiers: [{ input_tokens_above: 9, input: 3, output: 0.0001 }] } }",
      "{ id: lab/c, pricing: { input: 0, output: 0.001 } }",
    ];
    writeIn(
      folder,
      "sluice.yaml",
      `vendors: [{ id: lab, dialect: chat, base_url: 'http://x/v1' }]\nmodels: [${models.join()}]`,
    );
    expect(load(folder).warnings).toEqual([
      "lab/a: its price of 0.0000025 USD (input) is for 1,000,000 tokens, not for one.",
      "lab/b: its price of 0.0001 USD (output) is for 1,000,000 tokens, not for one.",
    ]);
  });

  test("longer prompts without the price of cached tokens that shorter ones have: they are taken as they stand", () => {
    const folder = makeFolder();
    const long = "input_tokens_above: 200000, input: 2, output: 4";
    const models = [
      `{ id: lab/a, pricing: { input: 1, output: 2, cache_read: 0.1, tiers: [{ ${long} }] } }`,
      `{ id: lab/b, pricing: { input: 1, output: 2, cache_read: 0.1, tiers: [{ ${long}, cache_read: 0.2 }] } }`,
      `{ id: lab/c, pricing: { input: 1, output: 2, tiers: [{ ${long} }] } }`,
    ];
    writeIn(
      folder,
      "sluice.yaml",
      `vendors: [{ id: lab, dialect: chat, base_url: 'http://x/v1' }]\nmodels: [${models.join()}]`,
    );
    expect(load(folder).warnings).toEqual([
      "lab/a: above 200000 tokens its prices have no cache_read: cached tokens cost as input there.",
    ]);
  });

  test("prices that lack what those of the built-in model have are told", () => {
    const folder = makeFolder();
    const models = [
      "{ id: anthropic/claude-haiku-4-5, pricing: { input: 2, output: 9 } }",
      "{ id: qwen/qwen3.7-plus, pricing: { input: 1, output: 2, cache_read: 0.1, cache_write: 1.2 } }",
      "{ id: zai/glm-5.3, pricing: { input: 2, output: 5, cache_read: 0.3 } }",
      "{ id: zai/glm-5.2, pricing: free }",
      "{ id: zai/glm-5.3-flash, access_tier: free }",
    ];
    writeIn(folder, "sluice.yaml", `models: [${models.join()}]`);
    const lack = "its prices replace all of the built-in ones, and lack";
    expect(load(folder).warnings).toEqual([
      `anthropic/claude-haiku-4-5: ${lack} cache_read, cache_write: tokens read from the cache cost as input, tokens written to the cache cost as input.`,
      `qwen/qwen3.7-plus: ${lack} tiers: long prompts cost as short ones.`,
    ]);
  });
});
