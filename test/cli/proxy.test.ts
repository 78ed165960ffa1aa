import { afterAll, beforeAll, expect, test } from "bun:test";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { temporaryFolders } from "../db/temp-folder.ts";
import { sluice } from "./support.ts";

const newFolder = temporaryFolders();
let proxy: Server;
let url: string;
const lines: string[] = [];
beforeAll(async () => {
  proxy = createServer((socket) => {
    socket.once("data", (data) => {
      lines.push(data.toString("latin1").split("\r\n")[0] ?? "");
      socket.end("HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(proxy.address() as { port: number }).port}`;
});
afterAll(() => {
  proxy.close();
});

/** Lists the models of a vendor that lists its own, in an environment with a proxy. */
async function listThrough(environment: Record<string, string>) {
  const folder = newFolder();
  const file = join(folder, "sluice.json");
  const vendor = {
    id: "lab",
    dialect: "chat",
    base_url: "http://api.vendor.invalid/v1",
    auth: "none",
    models: "discover",
  };
  await Bun.write(file, JSON.stringify({ vendors: [vendor] }));
  lines.length = 0;
  return sluice(folder, ["models", "--config", file], environment);
}

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
