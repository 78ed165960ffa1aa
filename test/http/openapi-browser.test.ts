import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Elysia } from "elysia";
import { type BrowserContext, chromium } from "playwright-core";
import { createGuard } from "../../src/http/guard.ts";
import { healthRoutes } from "../../src/http/health.ts";
import { openapiRoutes } from "../../src/http/openapi/openapi.ts";
import { rootRoutes } from "../../src/http/root.ts";
import { CHROMIUM } from "../support/chromium.ts";
import { until } from "../support/wait.ts";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Of a page's own world. */
type Page = { getComputedStyle(of: unknown): { borderColor: string; color: string } };

/** Runs in a page: the texts that stand out too little from what is behind them (WCAG 2.2, 1.4.3), each with its contrast. */
const TOO_PALE = `(() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    const paper = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
    return layers.reverse().reduce((below, [r, g, b, a = 1]) => [r, g, b].map((v, i) => v * a + below[i] * (1 - a)), paper);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const style = getComputedStyle(element);
    if (!texts.currentNode.data.trim() || element.closest("option, script, noscript") || element.getClientRects().length === 0) continue;
    const [one, other] = [light(parse(style.color).slice(0, 3)), light(behind(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24;
    if (contrast < (isLarge ? 3 : 4.5)) found.add(texts.currentNode.data.trim() + ": " + contrast.toFixed(2));
  }
  return [...found];
})()`;

// Without a browser on the machine the pages are still checked by their headers and text in openapi.test.ts.
describe.skipIf(CHROMIUM === undefined)("the pages in a real browser", () => {
  const refused: string[] = [];
  const profile = mkdtempSync(join(tmpdir(), "sluice-browser-"));
  let app: Elysia;
  let context: BrowserContext;
  let origin = "";

  beforeAll(async () => {
    const guard = createGuard({ allowedHosts: [], corsOrigins: [] });
    app = new Elysia();
    app
      .onRequest(({ request }) => {
        const fault = guard(request);
        if (!fault) return;
        refused.push(`${request.method} ${request.url}`);
        return new Response(null, { status: 403 });
      })
      .use(rootRoutes())
      .use(healthRoutes({ ready: () => true }))
      // The viewer has a colour for each method: the gateway has these beside GET.
      .post("/probe", () => "")
      .delete("/probe", () => "")
      // The page is read beside the proxy, at the gateway itself.
      .use(openapiRoutes("https://gateway.example/ai"))
      .listen({ port: 0, hostname: "127.0.0.1", reusePort: false });
    origin = `http://127.0.0.1:${app.server?.port}`;
    context = await chromium.launchPersistentContext(profile, {
      executablePath: CHROMIUM ?? "",
      headless: true,
      args: FLAGS,
    });
  }, 30_000);

  afterAll(async () => {
    await context?.close();
    await app?.stop(true);
    rmSync(profile, { recursive: true, force: true });
  });

  /** A page that notes what it complains about and whom it asks. */
  async function open(path: string) {
    const page = await context.newPage();
    const complaints: string[] = [];
    const asked: string[] = [];
    page.on("console", (message) => complaints.push(`${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("response", (response) => {
      if (response.status() >= 400) complaints.push(`${response.status()} ${response.url()}`);
    });
    page.on("request", (request) => asked.push(request.url()));
    await page.goto(origin + path);
    const elsewhere = () => asked.filter((url) => !url.startsWith(`${origin}/`) && !url.startsWith("data:"));
    return { page, complaints, asked, elsewhere };
  }

  test("/openapi lists the interface, opens an operation and tries it, all by itself and without a complaint", async () => {
    const { page, complaints, asked, elsewhere } = await open("/openapi");
    const operation = page.locator("#operations-Operation-getHealthz");
    await page.getByRole("combobox", { name: "Server", exact: true }).waitFor();
    await operation.locator(".opblock-summary-control").click();
    await operation.getByRole("button", { name: "Try it out" }).click();
    await operation.locator(".execute").click();
    await operation.locator(".live-responses-table .response-col_status").getByText("200").first().waitFor();
    await page.locator(".authorize").first().click();
    await page.locator(".modal-ux").waitFor();
    // The viewer's own style sheet is in force.
    const border = await operation.evaluate(
      (element) => (globalThis as unknown as Page).getComputedStyle(element).borderColor,
    );
    expect(border).toBe("rgb(97, 175, 254)");
    expect(asked).toContain(`${origin}/healthz`);
    expect(elsewhere()).toEqual([]);
    expect(complaints).toEqual([]);
    expect(refused).toEqual([]);
  }, 30_000);

  test("/ shows its links, and they lead to the interface", async () => {
    const { page, complaints, elsewhere } = await open("/");
    await page.getByRole("link", { name: "The interface", exact: true }).click();
    await page.locator(".opblock").first().waitFor();
    expect(elsewhere()).toEqual([]);
    expect(complaints).toEqual([]);
    expect(refused).toEqual([]);
  }, 30_000);

  test("both pages follow the reader's scheme, also when it changes while they are open", async () => {
    for (const [path, shown] of [
      ["/", "a"],
      ["/openapi", ".swagger-ui .info .title"],
    ] as const) {
      const { page, complaints } = await open(path);
      await page.locator(shown).first().waitFor();
      // Text is dark on light, or light on dark.
      const scheme = async () => {
        const colour = await page
          .locator(shown)
          .first()
          .evaluate((element) => (globalThis as unknown as Page).getComputedStyle(element).color);
        return Number(/\d+/.exec(colour)?.[0]) > 127 ? "dark" : "light";
      };
      for (const colorScheme of ["light", "dark", "light"] as const) {
        await page.emulateMedia({ colorScheme });
        // The page hears of it a moment later.
        await until(async () => (await scheme()) === colorScheme, `${path} in its ${colorScheme} colours`);
      }
      expect(complaints).toEqual([]);
    }
  }, 30_000);

  test("every text of both pages stands out from what is behind it, in both schemes", async () => {
    for (const path of ["/", "/openapi"]) {
      const { page } = await open(path);
      await page
        .locator(path === "/" ? "h1" : ".opblock")
        .first()
        .waitFor();
      // One of each kind, and what can be tried.
      for (const kind of ["get", "post", "delete"]) {
        if (path === "/") break;
        await page.locator(`.opblock-${kind} .opblock-summary-control`).first().click();
        await page.getByRole("button", { name: "Try it out" }).first().click();
      }
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        const pale = async () => (await page.evaluate(TOO_PALE)) as string[];
        // The page hears of it a moment later, and its colours change by and by.
        await until(async () => (await pale()).length === 0, "nothing is too pale").catch(() => {});
        expect({ path, colorScheme, pale: await pale() }).toEqual({ path, colorScheme, pale: [] });
      }
    }
  }, 30_000);

  test("an open operation is no wider than a narrow phone", async () => {
    const { page } = await open("/openapi");
    await page.setViewportSize({ width: 320, height: 740 });
    const operation = page.locator("#operations-Operation-getHealthz");
    await operation.locator(".opblock-summary-control").click();
    await operation.locator(".responses-table").first().waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(320);
  }, 30_000);

  test("what the keyboard is at is marked, in both schemes", async () => {
    const { page } = await open("/openapi");
    const operation = page.locator(".opblock-summary-control").first();
    await operation.waitFor();
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await page.locator(".authorize").first().focus();
      const marks: string[] = [];
      for (let step = 0; step < 4; step++) {
        await page.keyboard.press("Tab");
        const mark = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle");
        marks.push(String(mark));
      }
      expect(marks).not.toContain("none");
    }
  }, 30_000);

  test("a page of another origin cannot read or run anything here", async () => {
    const stranger = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => new Response("<!doctype html><title>stranger</title>", { headers: { "content-type": "text/html" } }),
    });
    try {
      const page = await context.newPage();
      await page.goto(`http://127.0.0.1:${stranger.port}/`);
      const outcome = await page.evaluate(async (target) => {
        const attempt = async (options: RequestInit) => {
          try {
            const response = await fetch(target, options);
            return `${response.type} ${response.status}`;
          } catch {
            return "refused";
          }
        };
        return [await attempt({}), await attempt({ method: "POST", body: "{}" }), await attempt({ mode: "no-cors" })];
      }, `${origin}/healthz`);
      // An opaque answer tells a page nothing; the gateway's own word is in `refused`.
      expect(outcome).toEqual(["refused", "refused", "opaque 0"]);
      expect(refused).toEqual([`GET ${origin}/healthz`, `POST ${origin}/healthz`, `GET ${origin}/healthz`]);
    } finally {
      refused.length = 0;
      await stranger.stop(true);
    }
  }, 30_000);
});
