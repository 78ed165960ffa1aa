// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the references of a configuration file are written like this.
import { afterEach, describe, expect, test } from "bun:test";
import { chmodSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { faultLines, load, makeFolder, removeFolders, writeIn } from "./support.ts";

afterEach(removeFolders);

const SECRET = "sk-canary-0123456789";

/** A YAML file, and the lines it must be refused with (the file's path before each is left out here). */
const TABLE: readonly (readonly [name: string, yaml: string, ...lines: string[]])[] = [
  [
    "unknown key with a near match",
    "vendors:\n  - { id: lab, dialect: chat, base_ur: 'http://x/v1' }",
    'vendors[0].base_ur: unknown key; did you mean "base_url"?',
  ],
  [
    "two letters in each other's place",
    "limits: { lbocking_seconsd: 1 }\nvendors: [{ di: openai }]",
    'limits.lbocking_seconsd: unknown key; did you mean "blocking_seconds"?',
    'vendors[0].di: unknown key; did you mean "id"?',
    "vendors[0].id: expected a name of small letters, digits, dots, dashes and underscores (it is the prefix of the model IDs), found nothing",
  ],
  ["unknown section", "srever: { port: 1 }", 'srever: unknown key; did you mean "server"?'],
  [
    "unknown key far from all",
    "limits: { zzzzzzzzz: 1 }",
    "limits.zzzzzzzzz: unknown key; expected one of blocking_seconds",
  ],
  [
    "unknown quirk",
    "vendors: [{ id: openai, quirks: { no_stream_option: true } }]",
    'vendors[0].quirks.no_stream_option: unknown key; did you mean "no_stream_options"?',
  ],
  [
    "prototype key",
    "__proto__: { port: 1 }",
    "__proto__: unknown key; expected one of server, vendors, models, plans, web, limits, retention, images, request_log, telemetry, local_discovery",
  ],
  [
    "a bucket's address",
    "images: { storage: { bucket: b, access_key_id: a, secret_access_key: s, endpoint: 's3.example' } }",
    'images.storage.endpoint: expected a URL beginning with http:// or https://, without user name, query or fragment, found "s3.example"',
  ],
  [
    "a bucket without its secret",
    "images: { storage: { bucket: b, access_key_id: a } }",
    "images.storage.secret_access_key: expected an access key's secret, ${NAME} or file:PATH, found nothing",
  ],
  [
    "a collector's address and headers",
    `telemetry: { otlp_endpoint: 'otel:4317', headers: { "x a": ${SECRET}, x-b: "1\\n2", Host: c } }`,
    'telemetry.otlp_endpoint: expected a URL beginning with http:// or https://, without user name, query or fragment, found "otel:4317"',
    'telemetry.headers["x a"]: expected a header name',
    "telemetry.headers.x-b: expected text on one line without control characters",
    "telemetry.headers.Host: expected another header: this one is written by the gateway itself",
  ],
  [
    "hosts to fetch from that nothing could ever match",
    "web: { fetch: { allow_hosts: [wiki.lan, '*.lan', 'fd00::/8', '[::1]:8080', '10.0.0.7:81', 'http://wiki.lan', 10.0.0.0/99, '*', 'a b', 'x:99999'] } }",
    ...["http://wiki.lan", "10.0.0.0/99", "*", "a b", "x:99999"].map(
      (found, at) =>
        `web.fetch.allow_hosts[${at + 5}]: expected a host name, *.name, an IP address or a range such as 10.0.0.0/8, with or without :port, found "${found}"`,
    ),
  ],
  [
    "a plan that lets nothing through",
    "plans: { team: { requests_per_minute: 0 } }",
    "plans.team.requests_per_minute: expected a whole number, 1 or more, found 0",
  ],
  [
    "the third vendor's address",
    "vendors:\n  - { id: openai }\n  - { id: anthropic }\n  - { id: lab, dialect: chat, base_url: 'ftp://x' }",
    'vendors[2].base_url: expected a URL beginning with http:// or https://, without user name, query or fragment, found "ftp://x"',
  ],
  [
    "an address with a password",
    `vendors: [{ id: lab, dialect: chat, base_url: 'https://me:${SECRET}@x/v1' }]`,
    'vendors[0].base_url: expected a URL beginning with http:// or https://, without user name, query or fragment, found "https://…@x/v1"',
  ],
  [
    "an address with a user name alone, with a password alone, none at all, and one that is a path as well",
    "vendors: [{ id: openai, base_url: 'https://me@x/v1' }, { id: anthropic, base_url: 'https://:word@x' }, { id: openrouter, base_url: 'https://' }, { id: lab, dialect: chat, base_url: 'xhttp://x/responses' }]",
    ...["https://…@x/v1", "https://…@x", "https://", "xhttp://x/responses"].map(
      (found, at) =>
        `vendors[${at}].base_url: expected a URL beginning with http:// or https://, without user name, query or fragment, found "${found}"`,
    ),
  ],
  [
    "an address with a key in its query",
    `vendors: [{ id: lab, dialect: chat, base_url: 'https://x/v1?key=${SECRET}' }]`,
    'vendors[0].base_url: expected a URL beginning with http:// or https://, without user name, query or fragment, found "https://x/v1?…"',
  ],
  [
    "an address with a blank at its end, which would lie in the middle of every path",
    "vendors: [{ id: lab, dialect: chat, base_url: 'https://x/v1 ' }]",
    'vendors[0].base_url: expected a URL beginning with http:// or https://, without user name, query or fragment, found "https://x/v1 "',
  ],
  [
    "a dialect nobody speaks",
    "vendors: [{ id: openai, dialect: completions }]",
    'vendors[0].dialect: expected one of "chat", "messages", "responses", "gemini", found "completions"',
  ],
  [
    "a key of another kind",
    "vendors: [{ id: openai, api_key: 12345678 }]",
    "vendors[0].api_key: expected a key, ${NAME} or file:PATH, found a number",
  ],
  [
    "an empty key",
    'vendors: [{ id: openai, api_key: "" }]',
    "vendors[0].api_key: expected a key, ${NAME} or file:PATH, found an empty text",
  ],
  [
    "a key with a space in it",
    `vendors: [{ id: openai, api_key: "${SECRET} x" }]`,
    "vendors[0].api_key: expected printable characters without spaces and without quotes around them (not shown)",
  ],
  [
    "one bad key among several, and a search engine's",
    `vendors: [{ id: openai, api_keys: [sound, "${SECRET} x", other] }]\nweb: { search: { engines: { brave: { api_key: "'${SECRET}'" }, exa: { api_key: sound } } } }`,
    "vendors[0].api_keys[1]: expected printable characters without spaces and without quotes around them (not shown)",
    "web.search.engines.brave.api_key: expected printable characters without spaces and without quotes around them (not shown)",
  ],
  [
    "texts and lists that are too long",
    `vendors: [{ id: openai, name: ${"x".repeat(201)}, api_keys: [${`${SECRET},`.repeat(101)}] }]`,
    `vendors[0].name: expected a name of at most 200 characters, found "${"x".repeat(80)}…"`,
    "vendors[0].api_keys: expected a list of keys that are used in turn of at most 100, found a list",
  ],
  [
    "a header with a list",
    `vendors: [{ id: openai, headers: { x-key: [${SECRET}] } }]`,
    "vendors[0].headers.x-key: expected text, found a list",
  ],
  [
    "a header of the connection",
    "vendors: [{ id: openai, headers: { Host: evil } }]",
    "vendors[0].headers.Host: expected another header: this one is written by the gateway itself",
  ],
  [
    "a header with two lines",
    `vendors: [{ id: openai, headers: { x-a: "1\\nx-b: 2" } }]`,
    "vendors[0].headers.x-a: expected text on one line without control characters",
  ],
  [
    "the same vendor twice",
    "vendors: [{ id: openai }, { id: anthropic }, { id: openai }]",
    'vendors[2].id: expected an id used once, found "openai" again (first in vendors[0])',
  ],
  ["a built-in vendor", "vendors: [{ id: sluice }]", 'vendors[0].id: expected another id: "sluice" is built in'],
  [
    "a vendor's id with a slash",
    "vendors: [{ id: 'lab/a' }]",
    'vendors[0].id: expected a name of small letters, digits, dots, dashes and underscores (it is the prefix of the model IDs), found "lab/a"',
  ],
  [
    "no id",
    "vendors: [{ dialect: chat }]",
    "vendors[0].id: expected a name of small letters, digits, dots, dashes and underscores (it is the prefix of the model IDs), found nothing",
  ],
  [
    "a custom vendor without address and dialect",
    "vendors: [{ id: opnai }]",
    'vendors[0].dialect: expected a value, found nothing ("opnai": did you mean "openai"?)',
    'vendors[0].base_url: expected a value, found nothing ("opnai": did you mean "openai"?)',
  ],
  [
    "a vendor that only draws, without its address",
    "vendors: [{ id: zzzzzz, images: { wire: together } }]",
    'vendors[0].base_url: expected a value, found nothing ("zzzzzz": it is no built-in vendor)',
  ],
  [
    "nothing where a value belongs",
    "server: { cors_origins: [null] }",
    "server.cors_origins[0]: expected an origin such as https://app.example.com, found null",
  ],
  [
    "a policy for models that is none",
    "vendors: [{ id: openai, models: everything }]",
    'vendors[0].models: expected "discover", "any", "catalog" or a list of model names, found "everything"',
  ],
  [
    "a list of models with a number",
    "vendors: [{ id: openai, models: [gpt, 5] }]",
    "vendors[0].models[1]: expected a model name, found 5",
  ],
  [
    "a route to nowhere",
    "models: [{ id: lab/tiny, routes: [{ vendor: openruter, model: x }] }]",
    'models[0].routes[0].vendor: expected the id of a vendor, found "openruter"; did you mean "openrouter"?',
  ],
  [
    "a model without prefix",
    "models: [{ id: tiny }]",
    'models[0].id: expected a model ID of the form <vendor>/<model_name>, found "tiny"',
  ],
  [
    "a model with a blank before its name",
    'models: [{ id: "lab/Two Words" }, { id: "lab/ b" }]',
    'models[1].id: expected a model ID of the form <vendor>/<model_name>, found "lab/ b"',
  ],
  [
    "the same model twice",
    "models: [{ id: lab/a }, { id: lab/a }]",
    'models[1].id: expected an id used once, found "lab/a" again (first in models[0])',
  ],
  [
    "a price below zero",
    "models: [{ id: lab/a, pricing: { input: -1 } }]",
    "models[0].pricing.input: expected a price in USD, 0 or more, found -1",
  ],
  [
    "half a price",
    "models: [{ id: lab/a, pricing: { input: 1 } }]",
    "models[0].pricing.output: expected a price in USD, 0 or more, found nothing",
  ],
  [
    "a price of the cache alone, over a built-in model's own",
    "models: [{ id: anthropic/claude-opus-5, pricing: { input: 5, cache_read: 0.5 } }]",
    "models[0].pricing.output: expected a price in USD, 0 or more, found nothing",
  ],
  [
    "two prices of prompts of the same length",
    "models: [{ id: lab/a, pricing: { input: 1, output: 2, tiers: [{ input_tokens_above: 9, input: 2, output: 4 }, { input_tokens_above: 99, input: 3, output: 5 }, { input_tokens_above: 9, input: 3, output: 6 }] } }]",
    "models[0].pricing.tiers[2].input_tokens_above: expected a length used once, found 9 again (first in tiers[0])",
  ],
  [
    "a price by another name",
    "models: [{ id: lab/a, pricing: { inptu: 1 } }]",
    'models[0].pricing.inptu: unknown key; did you mean "input"?',
  ],
  [
    "a price that is a word",
    "models: [{ id: lab/a, pricing: cheap }]",
    'models[0].pricing: expected "free" or a mapping of prices in USD per 1M tokens, found "cheap"',
  ],
  [
    "a default that is no level",
    "models: [{ id: lab/a, reasoning_efforts: { levels: [low, high], default: medium } }]",
    'models[0].reasoning_efforts.default: expected one of "low", "high", found "medium"',
  ],
  [
    "a context of half a token",
    "models: [{ id: lab/a, context_length: 1.5 }]",
    "models[0].context_length: expected a whole number of tokens, found 1.5",
  ],
  [
    "an address that is an endpoint's own",
    "vendors: [{ id: lab, dialect: chat, base_url: 'http://x/v1/chat/completions' }, { id: two, dialect: messages, base_url: 'http://x/v1/messages/' }]",
    "vendors[0].base_url: expected an address without /chat/completions, which the gateway adds itself",
    "vendors[1].base_url: expected an address without /v1/messages/, which the gateway adds itself",
  ],
  [
    "plans that nobody could name",
    `plans: { "": {}, " a": {}, "a ": {}, "a b": {}, toString: {}, ${"a".repeat(100)}: {}, ${"b".repeat(101)}: {} }`,
    'plans[""]: expected an id of 1 to 100 characters that can be seen',
    'plans[" a"]: expected an id of 1 to 100 characters that can be seen',
    'plans["a "]: expected an id of 1 to 100 characters that can be seen',
    `plans.${"b".repeat(101)}: expected an id of 1 to 100 characters that can be seen`,
  ],
  [
    "figures above what there may be",
    "plans: { pro: { spending_window_usd: 1000001, images_per_day: 1000000001 } }\nlimits: { blocking_seconds: 3601 }",
    "plans.pro.spending_window_usd: expected an amount in USD, 0 or more and at most 1000000, found 1000001",
    "plans.pro.images_per_day: expected a whole number, 0 or more and at most 1000000000, found 1000000001",
    "limits.blocking_seconds: expected a whole number of seconds from 1 to 3600, found 3601",
  ],
  [
    "a quirk that is a word",
    "vendors: [{ id: openai, quirks: { web_tools: maybe } }]",
    'vendors[0].quirks.web_tools: expected true or false, found "maybe"',
  ],
  ["a port as text", 'server: { port: "4600" }', 'server.port: expected a port from 0 to 65535, found "4600"'],
  ["a port too high", "server: { port: 70000 }", "server.port: expected a port from 0 to 65535, found 70000"],
  ["a host that is none", "server: { host: 'a b' }", 'server.host: expected a host name or an IP address, found "a b"'],
  [
    "any origin",
    "server: { cors_origins: ['*', 'https://a.example/x', 'https://app://b'] }",
    'server.cors_origins[0]: expected an origin such as https://app.example.com, found "*"',
    'server.cors_origins[1]: expected an origin such as https://app.example.com, found "https://a.example/x"',
    'server.cors_origins[2]: expected an origin such as https://app.example.com, found "https://app://b"',
  ],
  [
    "any extension's origin",
    "server: { cors_origins: ['chrome-extension://*'] }",
    'server.cors_origins[0]: expected an origin such as https://app.example.com, found "chrome-extension://*"',
  ],
  [
    "the path of a program's page",
    "server: { cors_origins: ['app://obsidian.md/index.html'] }",
    'server.cors_origins[0]: expected an origin such as https://app.example.com, found "app://obsidian.md/index.html"',
  ],
  [
    "a proxy by name",
    "server: { trusted_proxies: [proxy.example] }",
    'server.trusted_proxies[0]: expected an IP address or a range such as 10.0.0.0/8, found "proxy.example"',
  ],
  [
    "a range that is too long",
    "server: { trusted_proxies: [10.0.0.0/8, 10.0.0.0/33] }",
    'server.trusted_proxies[1]: expected an IP address or a range such as 10.0.0.0/8, found "10.0.0.0/33"',
  ],
  ["a section of another kind", "vendors: { openai: {} }", "vendors: expected a list of vendors, found a mapping"],
  [
    "a plan of unknown figures",
    "plans: { pro: { speed: 9 } }",
    "plans.pro.speed: unknown key; expected one of metered, requests_per_minute, concurrent_generations, spending_window_usd, images_per_day, image_jobs_in_flight, web_calls_per_day, web_calls_per_minute, web_calls_concurrent, web_call_usd",
  ],
  [
    "an unset variable",
    'vendors: [{ id: openai, api_key: "${NOT_SET}" }]',
    "vendors[0].api_key: expected the environment variable NOT_SET to be set, found nothing",
  ],
  [
    "a reference with a default",
    'vendors: [{ id: openai, api_key: "${A:-b}" }]',
    "vendors[0].api_key: expected ${NAME} with the name of an environment variable (write $${ for a plain ${)",
  ],
  [
    "a reference that does not end",
    'vendors: [{ id: openai, api_key: "${A" }]',
    "vendors[0].api_key: expected ${NAME} with the name of an environment variable (write $${ for a plain ${)",
  ],
  [
    "several at once",
    "server: { port: x }\nvendors: [{ id: openai, auth: digest }]\nlocal_discovery: maybe",
    'server.port: expected a port from 0 to 65535, found "x"',
    'vendors[0].auth: expected one of "bearer", "x-api-key", "api-key", "x-goog-api-key", "x-key", "key", "basic", "service-account", "none", found "digest"',
    'local_discovery: expected true or false, found "maybe"',
  ],
  [
    "several at once of parts that have nothing to do with each other",
    "server: { public_url: 'ftp://a' }\nvendors: [{ id: openai }, { id: openai }]\nimages: { storage: { bucket: b, access_key_id: a, secret_access_key: s, endpoint: x } }\ntelemetry: { headers: { Host: c } }",
    'server.public_url: expected a URL beginning with http:// or https://, without user name, query or fragment, found "ftp://a"',
    'vendors[1].id: expected an id used once, found "openai" again (first in vendors[0])',
    'images.storage.endpoint: expected a URL beginning with http:// or https://, without user name, query or fragment, found "x"',
    "telemetry.headers.Host: expected another header: this one is written by the gateway itself",
  ],
];

describe("a bad configuration file", () => {
  for (const [name, yaml, ...lines] of TABLE) {
    test(name, () => {
      const folder = makeFolder();
      const path = writeIn(folder, "sluice.yaml", yaml);
      const found = faultLines(folder);
      expect([...found].sort()).toEqual(lines.map((line) => `${path}: ${line}`).sort());
      expect(found.join("\n")).not.toContain("canary");
    });
  }

  test("a value read from the environment is never shown, wherever it stands", () => {
    const folder = makeFolder();
    writeIn(
      folder,
      "sluice.yaml",
      "vendors:\n  - id: lab\n    dialect: ${KEY}\n    base_url: ${KEY}\n    api_key: ${KEY}\n",
    );
    const lines = faultLines(folder, { environment: { KEY: SECRET } }).join("\n");
    expect(lines).toContain(
      'vendors[0].dialect: expected one of "chat", "messages", "responses", "gemini", found "${KEY}"',
    );
    expect(lines).not.toContain("canary");
  });

  test.each([
    ["values that are none", (index: number) => `{ id: lab/${index}, context_length: no }`],
    ["routes to nowhere", (index: number) => `{ id: lab/${index}, routes: [{ vendor: zzzzzzz, model: a }] }`],
  ])("of %s at most twenty are listed, and it is said when there are more", (_name, row) => {
    const folder = makeFolder();
    const rows = (count: number) => Array.from({ length: count }, (_, index) => `  - ${row(index)}\n`).join("");
    const path = writeIn(folder, "sluice.yaml", `models:\n${rows(40)}`);
    const lines = faultLines(folder);
    expect(lines.slice(19)).toEqual([expect.stringContaining("models[19]."), `${path}: and there are more`]);
    writeIn(folder, "sluice.yaml", `models:\n${rows(20)}`);
    expect(faultLines(folder).slice(19)).toEqual([expect.stringContaining("models[19].")]);
  });
});

test("a default effort that is a level, the path of an account's key, and an engine that needs none are taken", () => {
  const folder = makeFolder();
  const text = [
    "models: [{ id: lab/a, reasoning_efforts: { levels: [low, high], default: high } }]",
    "vendors: [{ id: openai, auth: service-account, api_key: '/my keys/account.json' }]",
    "web: { search: { engines: { searxng: { base_url: 'http://10.0.0.7:8080' } } } }",
  ];
  writeIn(folder, "sluice.yaml", text.join("\n"));
  expect(load(folder).models).toMatchObject([{ id: "lab/a" }]);
});

test("prices of what draws are whole without prices of tokens", () => {
  const folder = makeFolder();
  const priced = [
    "{ id: lab/a, modality: image, pricing: { input: 5 } }",
    "{ id: lab/b, pricing: { per_image: 0.02 } }",
  ];
  writeIn(folder, "sluice.yaml", `models: [${priced.join(", ")}, { id: sluice/canvas, pricing: { input: 5 } }]`);
  expect(load(folder).models.map(({ id }) => id)).toEqual(["lab/a", "lab/b", "sluice/canvas"]);
});

describe("a file that is no configuration", () => {
  const UNREADABLE: readonly (readonly [name: string, file: string, content: string, line: string | RegExp])[] = [
    ["broken YAML", "sluice.yaml", "a: [1,\nb: 2", /YAML Parse error/],
    [
      "a reference between braces",
      "sluice.yaml",
      "a: { b: ${X}, c: 1 }",
      /between \{ and \} write "\$\{NAME\}" in quotes/,
    ],
    ["a tab", "sluice.yml", "a:\n\t- b", /Tab characters/],
    ["a section twice", "sluice.yaml", "vendors: []\nmodels: []\nvendors: []", ": vendors: expected once, found twice"],
    [
      "a vendor whose dash was forgotten",
      "sluice.yaml",
      "vendors:\n  - id: lab\n    base_url: http://a\n\n    # another one\n    id: second\n",
      ": vendors[0].id: expected once, found twice",
    ],
    [
      "a plan twice",
      "sluice.yaml",
      "plans:\n  gold: { metered: true }\n  gold: { metered: false }\n",
      ": plans.gold: expected once, found twice",
    ],
    [
      "a key of JSON twice",
      "sluice.json",
      '{\n  "limits": {\n    "blocking_seconds": 5,\n    "blocking_seconds": 7\n  }\n}',
      ": limits.blocking_seconds: expected once, found twice",
    ],
    ["two documents", "sluice.yaml", "a: 1\n---\nb: 2", ": expected a mapping, found a list"],
    ["a scalar", "sluice.yaml", "hello", ": expected a mapping, found string"],
    ["broken TOML", "sluice.toml", "a = ", /TOML Parse error: Missing value/],
    ["broken JSON", "sluice.json", "{", /JSON Parse error/],
    ["a JSON list", "sluice.json", "[]", ": expected a mapping, found a list"],
    [
      "a YAML alias of itself",
      "sluice.yaml",
      "plans: &a\n  b: *a\n",
      /expected at most 16 levels of nesting|Parse error/,
    ],
  ];
  for (const [name, file, content, line] of UNREADABLE) {
    test(name, () => {
      const folder = makeFolder();
      const path = writeIn(folder, file, content);
      const first = faultLines(folder)[0]!;
      expect(first.startsWith(path)).toBe(true);
      if (typeof line === "string") expect(first).toBe(path + line);
      else expect(first).toMatch(line);
    });
  }

  test("bytes that are not UTF-8", () => {
    const folder = makeFolder();
    const path = writeIn(folder, "sluice.yaml", "");
    writeFileSync(path, Buffer.from([0x61, 0xff, 0xfe]));
    expect(faultLines(folder)).toEqual([`${path}: expected text in UTF-8, found other bytes`]);
  });

  test("more than a megabyte", () => {
    const folder = makeFolder();
    const limits = "limits: { blocking_seconds: 7 } #";
    const path = writeIn(folder, "sluice.yaml", limits.padEnd(1_048_576, "#"));
    expect(load(folder).limits.blockingSeconds).toBe(7);
    writeIn(folder, "sluice.yaml", limits.padEnd(1_048_577, "#"));
    expect(faultLines(folder)).toEqual([`${path}: expected a file of at most 1048576 bytes, found 1048577`]);
  });

  test("a link that leads nowhere", () => {
    const folder = makeFolder();
    symlinkSync(join(folder, "gone.yaml"), join(folder, "sluice.yaml"));
    expect(faultLines(folder)).toEqual([`${folder}/sluice.yaml: cannot be read (ENOENT)`]);
  });

  test.skipIf(process.geteuid?.() === 0 || process.platform === "win32")("a folder that may not be looked into", () => {
    const folder = makeFolder();
    writeIn(folder, "sluice.yaml", "");
    chmodSync(folder, 0o000);
    try {
      expect(faultLines(folder)[0]).toContain("/sluice.yaml: cannot be looked at (EACCES)");
    } finally {
      chmodSync(folder, 0o700);
    }
  });

  test("two files in one folder", () => {
    const folder = makeFolder();
    const yaml = writeIn(folder, "sluice.yaml", "");
    const json = writeIn(folder, "sluice.json", "{}");
    expect(faultLines(folder)).toEqual([`${folder}: expected one configuration file, found 2: ${yaml}, ${json}`]);
  });

  test("a named file that is not there, and one of another kind", () => {
    const folder = makeFolder();
    expect(faultLines(folder, { flags: { config: "no.yaml" } })).toEqual([
      `${folder}/no.yaml: expected a configuration file, found nothing`,
    ]);
    for (const name of ["settings.ini", "settings"]) {
      const path = writeIn(folder, name, "a=1");
      expect(faultLines(folder, { flags: { config: path } })).toEqual([
        `${path}: expected a name ending in .yaml, .yml, .toml or .json`,
      ]);
    }
    expect(faultLines(folder, { flags: { config: "settings/no.yaml" } })).toEqual([
      `${folder}/settings/no.yaml: expected a configuration file, found nothing`,
    ]);
  });
});
