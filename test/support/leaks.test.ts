import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PLAIN_CONFIG, startApp, vendorAt } from "./app.ts";
import { AppWatch } from "./app-watch.ts";
import { makeFolder, removeFolder } from "./binary.ts";
import { holdsSecrets, LeakNet, leakNet, secretsOf, secretsOfEnvironment } from "./leaks.ts";
import { json, startUpstream } from "./upstream.ts";

const SECRET = "canary-4f9b2c+71/d0";
const SECRETS = new Map([[SECRET, "the canary"]]);
const KEY = `sk-sluice-${"a1B2".repeat(9)}Zz`;

test("the net finds a secret however it is written, and a key of a caller nobody told it of", () => {
  const base64 = (before: string) => Buffer.from(`${before}${SECRET}, and more`).toString("base64");
  for (const text of [
    `{"error":"no: ${SECRET}"}`,
    `?key=${encodeURIComponent(SECRET)}&a=b`,
    base64(""),
    base64("a"),
    base64("ab"),
    base64("abc"),
    Buffer.from(`user:${SECRET}`).toString("base64url"),
    `Bearer ${KEY}`,
    `{"key":"sk-sluice-admin-${KEY.slice(10)}"}`,
    `/mcp/web/t/slt-${KEY.slice(10)}`,
  ]) {
    const net = new LeakNet();
    net.look(text, "a place", SECRETS);
    expect([text, net.leaks.length]).toEqual([text, 1]);
    expect(() => net.check()).toThrow("where they must not be");
    expect(() => net.check()).not.toThrow();
  }
  const net = new LeakNet();
  for (const text of ["nothing", SECRET.slice(1), `sk-sluice-${"a".repeat(37)}`]) net.look(text, "a place", SECRETS);
  expect([net.leaks, net.seen.texts]).toEqual([[], 3]);
});

test("a leak in the log, in a refusal, in a header, in the store and of a prompt is found, each by its place", async () => {
  const net = new LeakNet();
  const watch = new AppWatch(SECRETS, net);
  const prompt = "please keep this sentence to yourself";
  const body = JSON.stringify({ messages: [{ content: prompt }] });
  const refusal = () => Promise.resolve(new Response(`{"message":"${SECRET}"}`, { status: 400 }));
  watch.asked("/v1/messages?beta=true", { method: "POST", body }, refusal());
  watch.asked("/v1/models", undefined, Promise.resolve(new Response("[]", { headers: { "x-note": SECRET } })));
  watch.line(`{"level":"info","error":"${prompt}, said ${SECRET}"}`);
  const gateway = await startApp();
  gateway.store.database.run("CREATE TABLE planted (text TEXT) STRICT");
  gateway.store.database.prepare("INSERT INTO planted VALUES (?)").run(SECRET);
  await watch.end(gateway.store);
  await gateway.stop();
  expect(net.leaks.map(({ secret, where }) => `${secret} in ${where}`).sort()).toEqual([
    "a prompt in the log",
    "the canary in a header of an answer of /v1/models",
    "the canary in an answer of /v1/messages",
    "the canary in the log",
    "the canary in the store",
  ]);
});

test("a gateway of a test is watched: a vendor's key that a bug puts into its log is found when it ends", async () => {
  const upstream = startUpstream();
  upstream.always("/v1/chat/completions", json({}, { status: 500 }));
  const vendor = vendorAt(upstream, "chat", "leaking");
  const gateway = await startApp({ vendors: [vendor] });
  gateway.app.services.log.info("planted", { key: `=${vendor.apiKey}=` });
  await gateway.stop();
  upstream.close();
  const found = leakNet.leaks.splice(0);
  expect(found.map(({ secret, where }) => `${secret} in ${where}`)).toEqual(["the key of leaking in the log"]);
});

test("files that a program left are looked through, and its environment tells what is secret", () => {
  const folder = makeFolder();
  mkdirSync(join(folder, "data", "images"), { recursive: true });
  writeFileSync(
    join(folder, "data", "images", "a.png"),
    Buffer.concat([Buffer.from([0, 255, 254]), Buffer.from(SECRET)]),
  );
  writeFileSync(join(folder, "sluice.yaml"), SECRET);
  const net = new LeakNet();
  net.lookInFolder(folder, SECRETS, holdsSecrets);
  expect(net.leaks.map(({ where }) => where)).toEqual([`file ${join("data", "images", "a.png")}`]);
  removeFolder(folder);
  const environment = { LAB_API_KEY: "key-0123456789", PATH: "/usr/bin:/bin", HTTPS_PROXY: "http://u:p%2Bssword1@h/" };
  expect([...secretsOfEnvironment(environment).keys()]).toEqual(["key-0123456789", "p+ssword1"]);
});

test("every kind of secret of the configuration is known to the net", () => {
  const upstream = { url: "http://127.0.0.1:1" } as ReturnType<typeof startUpstream>;
  const bucket = { bucket: "b", accessKeyId: "id", secretAccessKey: "bucket-secret" };
  const traces = { url: "http://127.0.0.1:1", headers: { "x-token": "trace-token" }, serviceName: "s" };
  const config = {
    ...PLAIN_CONFIG,
    search: [{ engine: "brave" as const, apiKey: "search-key" }],
    images: { keepDays: 1, bucket },
    traces,
  };
  const vendor = {
    ...vendorAt(upstream, "chat", "lab"),
    apiKeys: ["first-key", "second-key"],
    credentials: { secretAccessKey: "signing-secret", sessionToken: "session-token" },
    proxy: "http://user:proxy-password@127.0.0.1:3128",
  };
  expect([...secretsOf(config, [vendor]).keys()].sort()).toEqual(
    [
      ...["vendor-key-of-lab", "first-key", "second-key", "signing-secret", "session-token", "proxy-password"],
      ...["search-key", "bucket-secret", "trace-token"],
    ].sort(),
  );
});
