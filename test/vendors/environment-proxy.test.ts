import { describe, expect, test } from "bun:test";
import { createServer, type Server, type Socket } from "node:net";
import { Abort } from "../../src/lib/abort.ts";
import { environmentProxy, throughProxies } from "../../src/vendors/environment-proxy.ts";
import { listModels } from "../../src/vendors/models-list.ts";
import { send } from "../../src/vendors/send.ts";
import type { Vendor } from "../../src/vendors/vendor.ts";

const PROXY = "http://proxy.test:3128/";
const on = (more: Record<string, string>) => ({ SLUICE_USE_ENV_PROXY: "1", ...more });

const vendorAt = (baseUrl: string): Vendor => ({
  id: "lab",
  name: "Lab",
  dialect: "chat",
  baseUrl,
  auth: "bearer",
  apiKey: "sk-lab",
  models: "discover",
  quirks: {},
});

describe("which proxy", () => {
  const https = "https://api.vendor.test/v1";
  const http = "http://api.vendor.test/v1";
  test.each<[string, string, Record<string, string>, string | undefined]>([
    ["without the switch none", https, { HTTPS_PROXY: PROXY }, undefined],
    ["with it off none", https, { SLUICE_USE_ENV_PROXY: "0", HTTPS_PROXY: PROXY }, undefined],
    ["by the scheme", https, on({ HTTPS_PROXY: PROXY }), PROXY],
    ["of the other scheme not", https, on({ HTTP_PROXY: PROXY }), undefined],
    ["for http", http, on({ http_proxy: PROXY, HTTPS_PROXY: "http://other.test" }), PROXY],
    ["for all", http, on({ ALL_PROXY: PROXY }), PROXY],
    ["its own before that for all", https, on({ all_proxy: "http://other.test", https_proxy: PROXY }), PROXY],
    ["blank is none", https, on({ HTTPS_PROXY: " ", ALL_PROXY: PROXY }), PROXY],
    ["a bare address is an http proxy", https, on({ HTTPS_PROXY: "proxy.test:3128" }), PROXY],
    ["with a password", https, on({ HTTPS_PROXY: "http://u:p@proxy.test:3128" }), "http://u:p@proxy.test:3128/"],
    ["this machine never", "http://127.0.0.1:8080/v1", on({ ALL_PROXY: PROXY }), undefined],
    ["by name neither", "http://localhost:8080/v1", on({ ALL_PROXY: PROXY }), undefined],
  ])("%s", (_name, address, environment, wanted) => {
    expect(environmentProxy(address, environment)).toBe(wanted);
  });

  test.each<[string, boolean]>([
    ["*", true],
    ["api.vendor.test", true],
    ["API.Vendor.Test", true],
    ["vendor.test", true],
    [".vendor.test", true],
    ["*.vendor.test", true],
    ["api.vendor.test:443", true],
    ["other.test, vendor.test", true],
    ["other.test vendor.test", true],
    ["endor.test", false],
    ["sub.api.vendor.test", false],
    ["api.vendor.test:8443", false],
    ["", false],
    [",,", false],
  ])("NO_PROXY=%j", (list, excepted) => {
    const environment = on({ HTTPS_PROXY: PROXY, NO_PROXY: list });
    expect(environmentProxy(https, environment)).toBe(excepted ? undefined : PROXY);
  });

  test.each<[string, string, boolean]>([
    ["10.0.0.0/8", "http://10.1.2.3:8000/v1", true],
    ["192.168.0.0/16,10.0.0.0/8", "http://10.1.2.3:8000/v1", true],
    ["10.1.2.3", "http://10.1.2.3:8000/v1", true],
    ["10.1.2.3:8000", "http://10.1.2.3:8000/v1", true],
    ["10.1.2.3:81", "http://10.1.2.3:8000/v1", false],
    ["10.0.0.0/0", "http://192.0.2.1/v1", true],
    ["10.0.0.0/16", "http://10.1.2.3:8000/v1", false],
    ["10.0.0.0/33", "http://10.0.0.0/v1", false],
    ["10.0.0.0/", "http://10.0.0.0/v1", false],
    ["10.0.0.0/8/8", "http://10.0.0.0/v1", false],
    ["10.0.0.0/8", "http://10.vendor.test/v1", false],
    ["fd00::/8", "http://[fd12::1]:8000/v1", true],
    ["fd12::1", "http://[fd12::1]:8000/v1", true],
    ["[fd12::1]", "http://[fd12::1]:8000/v1", true],
    ["[fd12::1]:8000", "http://[fd12::1]:8000/v1", true],
    ["fd00::/8", "http://[fe80::1]/v1", false],
    ["::/0", "http://10.1.2.3/v1", false],
  ])("NO_PROXY=%j and %s", (list, address, excepted) => {
    const environment = on({ HTTP_PROXY: PROXY, NO_PROXY: list });
    expect(environmentProxy(address, environment)).toBe(excepted ? undefined : PROXY);
  });

  test.each(["socks5://proxy.test:1080", "http://", "http://[", "ftp://u:secret@proxy.test"])(
    "%s is refused",
    (value) => {
      const choose = () => environmentProxy(https, on({ HTTPS_PROXY: value }));
      expect(choose).toThrow("HTTPS_PROXY is no http or https proxy");
      expect(choose).not.toThrow("secret");
    },
  );

  test("each vendor has its own; the rows themselves stay as they were", () => {
    const rows = [vendorAt(https), vendorAt("http://127.0.0.1:9/v1")];
    const [far, near] = throughProxies(rows, on({ ALL_PROXY: PROXY }));
    expect(far).toEqual({ ...vendorAt(https), proxy: PROXY });
    expect(near).toBe(rows[1] as Vendor);
    expect(rows[0]).toEqual(vendorAt(https));
  });
});

/** A proxy that notes the first line of each call and closes the connection. */
async function startProxy(): Promise<{ url: string; lines: string[]; server: Server }> {
  const lines: string[] = [];
  const server = createServer((socket: Socket) => {
    socket.once("data", (data) => {
      lines.push(data.toString("latin1").split("\r\n")[0] ?? "");
      socket.end("HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}`, lines, server };
}

test("every kind of call goes through it: http in absolute form, https by CONNECT", async () => {
  const { url, lines, server } = await startProxy();
  try {
    const rows = [vendorAt("http://api.vendor.invalid/v1"), vendorAt("https://api.vendor.invalid:8443/v1")];
    const { signal } = new AbortController();
    for (const vendor of throughProxies(rows, on({ ALL_PROXY: url }))) {
      const sending = { path: "/chat/completions", body: "{}", headers: {}, abort: new Abort(), userAgent: "sluice/1" };
      await send(vendor, sending).then(
        (response) => expect(response.status).toBe(503),
        () => {},
      );
      await listModels(vendor, signal).catch(() => {});
    }
    expect(lines).toEqual([
      "POST http://api.vendor.invalid/v1/chat/completions HTTP/1.1",
      "GET http://api.vendor.invalid/v1/models HTTP/1.1",
      "CONNECT api.vendor.invalid:8443 HTTP/1.1",
      "CONNECT api.vendor.invalid:8443 HTTP/1.1",
    ]);
  } finally {
    server.close();
  }
});
