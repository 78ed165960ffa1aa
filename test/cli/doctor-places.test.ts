import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../../src/db/open.ts";
import { type StoreError, toStoreError } from "../../src/db/store-error.ts";
import { makeFolder, removeFolder } from "../support/binary.ts";
import { serve, sluice } from "./support.ts";

setDefaultTimeout(60_000);

let folder: string;
beforeEach(() => {
  folder = makeFolder();
});
afterEach(() => removeFolder(folder));

const storeFinding = async (data: string) => {
  const { code, stdout } = await sluice(folder, ["doctor", "--json", "--data", data]);
  const findings = JSON.parse(stdout) as { check: string; state: string; detail: string; advice?: string }[];
  return { code, ...findings.find(({ check }) => check === "store") };
};

describe("doctor, where there is no store yet,", () => {
  test("says that a start could make none below a file", async () => {
    const file = join(folder, "file");
    writeFileSync(file, "", { mode: 0o600 });
    for (const data of [file, join(file, "data", "deep")]) {
      expect(await storeFinding(data)).toMatchObject({
        code: 1,
        state: "fault",
        detail: `there is none, and ${file} is a file, not a folder`,
      });
      expect((await sluice(folder, ["serve", "--port", "0", "--data", data])).code).toBe(1);
    }
  });

  test.skipIf(process.platform === "win32")("or behind a link to a disk that is not mounted", async () => {
    const link = join(folder, "link");
    symlinkSync(join(folder, "disk", "sluice"), link);
    for (const data of [link, join(link, "deep")]) {
      const detail = `there is none, and ${link} is a link that leads nowhere`;
      expect(await storeFinding(data)).toMatchObject({ code: 1, state: "fault", detail });
      expect((await sluice(folder, ["serve", "--port", "0", "--data", data])).code).toBe(1);
    }
    const { stderr } = await sluice(folder, ["keys", "create", "--data", link]);
    expect(stderr).toContain("or a link that leads nowhere");
  });

  // Root may write anywhere.
  test.skipIf(process.geteuid?.() === 0 || process.platform === "win32")("or in a folder of others", async () => {
    const closed = join(folder, "closed");
    mkdirSync(closed, { mode: 0o500 });
    expect(await storeFinding(join(closed, "data"))).toMatchObject({
      code: 1,
      state: "fault",
      detail: `there is none, and ${closed} cannot be written by this user`,
    });
    chmodSync(closed, 0o700);
    expect(await storeFinding(join(closed, "data"))).toMatchObject({ code: 0, state: "note" });
  });

  test("tells what to do once, however many faults it is for", async () => {
    const path = join(folder, "bad.yaml");
    writeFileSync(path, "server:\n  port: x\n  host: 3\n");
    const { stdout } = await sluice(folder, ["doctor", "--config", path]);
    expect(stdout.match(/^fault {2}configuration/gm)).toHaveLength(2);
    expect(stdout.match(/ configuration: correct/g)).toHaveLength(1);
  });
});

// Root may look anywhere.
test.skipIf(process.geteuid?.() === 0 || process.platform === "win32")(
  "what may not be looked at is not told of as missing",
  async () => {
    const closed = join(folder, "services");
    const data = join(closed, "sluice");
    await sluice(folder, ["keys", "create", "--data", data]);
    writeFileSync(join(data, "sluice.yaml"), "");
    chmodSync(closed, 0o000);
    try {
      for (const args of [["keys", "list"], ["keys", "create"], ["usage"], ["backup", join(folder, "copy.db")]]) {
        const { code, stderr } = await sluice(folder, [...args, "--data", data]);
        expect([args, code, stderr]).toEqual([args, 1, expect.stringContaining("cannot be opened by this user")]);
      }
      const config = join(data, "sluice.yaml");
      const { stderr } = await sluice(folder, ["models", "--config", config]);
      expect(stderr).toStartWith(`error: ${config}: cannot be looked at (EACCES)`);
      expect((await sluice(folder, ["logs", "--data", data])).stderr).toContain("cannot be read (EACCES)");
      expect((await storeFinding(data)).detail).toContain("cannot be opened by this user");
    } finally {
      chmodSync(closed, 0o700);
    }
  },
);

test("doctor says why a vendor is not reached, and what to do of every fault", async () => {
  using upstream = Bun.serve({
    ...{ port: 0, hostname: "127.0.0.1" },
    fetch: ({ url }) => {
      if (url.includes("/busy/")) return new Response("", { status: 503 });
      return url.includes("/bare") ? new Response("", { status: 404 }) : new Response("<html>", { status: 200 });
    },
  });
  const rows = [
    ["none", "http://127.0.0.1:9/v1"],
    ["tls", `https://127.0.0.1:${upstream.port}/v1`],
    ["page", `${upstream.url}page/v1`],
    ["busy", `${upstream.url}busy/v1`],
    ["bare", `${upstream.url}bare`],
    ["old", `${upstream.url}bare/v1`],
    // As Google's address for models of other makers is, and DeepInfra's.
    ["inner", `${upstream.url}bare/v1/projects/p-1/endpoints/openapi`],
  ].map(([id, url]) => `  - { id: ${id}, dialect: chat, base_url: "${url}", api_key: k }\n`);
  const path = join(folder, "vendors.yaml");
  // Such a file may be for all to read: no fault of its mode.
  writeFileSync(path, `vendors:\n${rows.join("")}`, { mode: 0o644 });
  const { stdout } = await sluice(folder, ["doctor", "--json", "--config", path]);
  const findings = JSON.parse(stdout) as { check: string; state: string; detail: string; advice?: string }[];
  expect(findings.filter(({ check }) => check === "files")).toMatchObject([{ state: "ok" }]);
  const of = (id: string) => findings.find(({ check }) => check === `vendor ${id}`);
  expect(of("none")).toMatchObject({ detail: "127.0.0.1:9 cannot be reached: nothing listens there (ECONNREFUSED)" });
  expect(of("tls")?.detail).toContain("cannot be reached: no TLS connection came about (");
  expect(of("page")).toMatchObject({ state: "fault", advice: `check base_url: ${upstream.url}page/v1` });
  expect(of("busy")?.advice).toStartWith("try again later");
  expect(of("bare")).toMatchObject({
    state: "note",
    advice: `check base_url: most servers want /v1 at its end, and ${upstream.url}bare has none`,
  });
  for (const versioned of [of("old"), of("inner")]) {
    expect(versioned).toMatchObject({ state: "note", detail: of("bare")!.detail });
    expect(versioned?.advice).toBeUndefined();
  }
});

test("of a certificate whose time is another one, doctor says to look at the clock too", async () => {
  const certificates = join(import.meta.dir, "../fixtures/certificates");
  const file = (name: string) => Bun.file(join(certificates, `${name}.txt`));
  using vendor = Bun.serve({
    ...{ port: 0, hostname: "127.0.0.1", tls: { key: file("key"), cert: file("expired") } },
    fetch: () => Response.json({ data: [] }),
  });
  const path = join(folder, "late.yaml");
  const row = `{ id: late, dialect: chat, base_url: "https://127.0.0.1:${vendor.port}/v1", api_key: k }`;
  writeFileSync(path, `vendors: [ ${row} ]\nlocal_discovery: false\n`, { mode: 0o600 });
  const trusting = { NODE_EXTRA_CA_CERTS: join(certificates, "authority.txt") };
  const { stdout } = await sluice(folder, ["doctor", "--json", "--config", path], trusting);
  const findings = JSON.parse(stdout) as { check: string; detail: string; advice?: string }[];
  expect(findings.find(({ check }) => check === "vendor late")).toMatchObject({
    detail: `127.0.0.1:${vendor.port} cannot be reached: its certificate is not for this machine's time (CERT_HAS_EXPIRED)`,
    advice: "set this machine's clock if it is wrong; else the server's certificate has to be renewed",
  });
});

test("a folder of the server's that is a file is told at the start in a sentence, and by doctor", async () => {
  const data = join(folder, "data");
  mkdirSync(data, { mode: 0o700 });
  const files = ["requests", "images"].map((name) => join(data, name));
  for (const path of files) writeFileSync(path, "", { mode: 0o600 });
  const server = await serve(folder, ["--port", "0"]);
  const { error, ...others } = JSON.parse(/^\{.*"event":"request-log".*$/m.exec(server.stderr)?.[0] ?? "{}");
  expect(error).toBe(
    `Requests are not noted until the next start: ${files[0]} cannot be written (EEXIST). \`sluice doctor\` may say why.`,
  );
  expect(others["stack"]).toBeUndefined();
  await server.stop();
  const { code, stdout } = await sluice(folder, ["doctor", "--json"]);
  const findings = JSON.parse(stdout) as { check: string; detail: string; advice?: string }[];
  expect(code).toBe(1);
  expect(findings.filter(({ check }) => check === "files")).toEqual(
    files.map((path) => ({
      ...{ check: "files", state: "fault", detail: `${path} is a file, not a folder` },
      advice: `move ${path} away and start again`,
    })),
  );
});

test("doctor says so where no key is in force", async () => {
  openStore(join(folder, "data", "sluice.db")).close();
  const { stdout } = await sluice(folder, ["doctor", "--json"]);
  const findings = (JSON.parse(stdout) as { check: string; state: string; detail: string }[]).filter(({ check }) =>
    ["store", "keys", "ledger"].includes(check),
  );
  expect(findings.map(({ check, state, detail }) => [check, state, detail.replace(/^.*: sound/, "sound")])).toEqual([
    ["store", "ok", "sound; accounts: 0, keys in force: 0"],
    ["keys", "note", "there is no key in force"],
    ["ledger", "ok", "every charge, balance and link is right"],
  ]);
});

test("a disk without room for what processes share is told as full", () => {
  const thrown = Object.assign(new Error("disk I/O error"), { code: "SQLITE_IOERR_SHMSIZE" });
  const told = toStoreError(thrown, "/data/sluice.db") as StoreError;
  expect([told.fault, told.message]).toEqual(["disk-full", "The store /data/sluice.db cannot grow: the disk is full."]);
});

test.each(["SQLITE_IOERR_WRITE", "EDQUOT"])("%s: a quota that is used up is told of, where that may be it", (code) => {
  const told = toStoreError(Object.assign(new Error("disk I/O error"), { code }), "/data/sluice.db") as StoreError;
  expect(told.message).toMatch(/^The store \/data\/sluice.db cannot .*quota on .* used up\.$/);
});

test("doctor asks the bucket of the images: each one that is drawn for a wrong bucket is lost, and its vendor is paid", async () => {
  const listing = (xml: string, status = 200) => new Response(`<?xml version="1.0"?>${xml}`, { status });
  const asked: string[] = [];
  using bucket = Bun.serve({
    ...{ port: 0, hostname: "127.0.0.1" },
    fetch({ method, url, headers }) {
      asked.push(`${method} ${headers.get("x-amz-security-token")}`);
      if (url.includes("/pictures"))
        return listing("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>");
      return listing("<Error><Code>NoSuchBucket</Code><Message>It does not exist.</Message></Error>", 404);
    },
  });
  const examined = async (name: string, endpoint: string) => {
    const path = join(folder, "images.yaml");
    const keys = "access_key_id: id, secret_access_key: hidden-secret";
    writeFileSync(path, `images: { storage: { bucket: ${name}, endpoint: "${endpoint}", ${keys} } }\n`, {
      mode: 0o600,
    });
    // The token of another key, as it is there for Bedrock.
    const env = { AWS_SESSION_TOKEN: "token" };
    const { code, stdout } = await sluice(folder, ["doctor", "--json", "--config", path], env);
    expect(stdout).not.toContain("hidden-secret");
    const findings = JSON.parse(stdout) as { check: string; state: string; detail: string; advice?: string }[];
    return { code, ...findings.find(({ check }) => check === "images") };
  };
  const endpoint = bucket.url.origin;
  expect(await examined("pictures", endpoint)).toMatchObject({
    code: 0,
    state: "ok",
    detail: `the bucket pictures at ${endpoint} answers`,
  });
  expect(await examined("pitcures", endpoint)).toMatchObject({
    code: 1,
    state: "fault",
    detail: `the bucket pitcures at ${endpoint} cannot be used: NoSuchBucket`,
    advice: "check images.storage in the configuration file, and what its key may do: list, read, write and delete",
  });
  expect(new Set(asked)).toEqual(new Set(["GET null"]));
  expect((await examined("pictures", "http://127.0.0.1:9")).detail).toEndWith("cannot be used: ConnectionRefused");
});
