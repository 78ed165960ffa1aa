import { afterAll, beforeAll, expect, test } from "bun:test";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { temporaryFolders } from "../db/temp-folder.ts";
import { sluice } from "./support.ts";

const newFolder = temporaryFolders();
let proxy: Server;
let url: string;
let status = "503 No";
const lines: string[] = [];
beforeAll(async () => {
  proxy = createServer((socket) => {
    socket.once("data", (data) => {
      lines.push(data.toString("latin1").split("\r\n")[0] ?? "");
      socket.end(`HTTP/1.1 ${status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
    });
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(proxy.address() as { port: number }).port}`;
});
afterAll(() => {
  proxy.close();
});

/** Runs a command that asks a vendor for its models, in an environment with a proxy. */
async function runThrough(environment: Record<string, string>, command: string[], base_url: string) {
  const folder = newFolder();
  const file = join(folder, "sluice.json");
  const vendor = { id: "lab", dialect: "chat", base_url, auth: "none", models: "discover" };
  await Bun.write(file, JSON.stringify({ vendors: [vendor], local_discovery: false }));
  lines.length = 0;
  return sluice(folder, [...command, "--config", file], environment);
}

const listThrough = (environment: Record<string, string>) =>
  runThrough(environment, ["models"], "http://api.vendor.invalid/v1");

test("the environment's proxy is used where the operator wants it, and only there", async () => {
  const { stderr } = await listThrough({ HTTP_PROXY: url, SLUICE_USE_ENV_PROXY: "1" });
  expect(lines).toEqual(["GET http://api.vendor.invalid/v1/models HTTP/1.1"]);
  expect(stderr).not.toContain("ignores HTTP_PROXY");
  await listThrough({ HTTP_PROXY: url });
  expect(lines).toEqual([]);
  await listThrough({ HTTP_PROXY: url, NO_PROXY: "vendor.invalid", SLUICE_USE_ENV_PROXY: "1" });
  expect(lines).toEqual([]);
});

test("one that cannot be used stops the start, by name alone", async () => {
  const { code, stderr } = await listThrough({
    HTTP_PROXY: "socks5://u:secret@127.0.0.1:1",
    SLUICE_USE_ENV_PROXY: "1",
  });
  expect(code).toBe(1);
  expect(stderr).toContain("HTTP_PROXY is no http or https proxy");
  expect(stderr).not.toContain("secret");
});

test("of a vendor that its proxy keeps out of reach, the doctor says that it is the proxy, and shows no password", async () => {
  const askDoctor = async (address: string, scheme: string) => {
    const environment = { HTTP_PROXY: address, HTTPS_PROXY: address, SLUICE_USE_ENV_PROXY: "1" };
    const { stdout } = await runThrough(environment, ["doctor", "--json"], `${scheme}://api.vendor.invalid/v1`);
    expect(stdout).not.toContain("secret");
    return (JSON.parse(stdout) as { check: string }[]).find(({ check }) => check === "vendor lab");
  };
  const host = new URL(url).host;
  const through = (where: string, why: string) => ({
    state: "fault",
    detail: `api.vendor.invalid cannot be reached through the proxy ${where}: ${why}`,
    advice:
      "check HTTPS_PROXY and HTTP_PROXY, and the name and password that the proxy wants; NO_PROXY names who is called without it",
  });
  status = "407 Proxy Authentication Required";
  const found = await Promise.all([
    askDoctor("http://u:secret@127.0.0.1:9", "https"),
    askDoctor("http://proxy.invalid:9", "https"),
    askDoctor(url, "http"),
    askDoctor(url, "https"),
  ]);
  expect(found).toMatchObject([
    through("127.0.0.1:9", "nothing listens there (ECONNREFUSED)"),
    through("proxy.invalid:9", "its name is not known (ENOTFOUND)"),
    through(host, "it lets nobody through"),
    through(host, "it lets nobody through (ERR_PROXY_TUNNEL)"),
  ]);
});
