import { describe, expect, spyOn, test } from "bun:test";
import { type TSchema, Type } from "@sinclair/typebox";
import { Elysia } from "elysia";
import { renderElysiaError } from "../../src/http/errors.ts";
import { healthRoutes } from "../../src/http/health.ts";
import { openapiDocument, openapiRoutes } from "../../src/http/openapi/openapi.ts";
import { errorReplies, jsonBody, jsonOrStream, jsonReply } from "../../src/http/openapi-detail.ts";
import { rootRoutes } from "../../src/http/root.ts";
import { isObject } from "../../src/lib/json.ts";
import { silentLog } from "../../src/observe/log.ts";
import { Open } from "../../src/wire/open.ts";

let healthy = true;

/** An app with one route of every kind that the document must get right. */
const makeApp = () =>
  new Elysia()
    .onError(({ code, error, request }) => renderElysiaError(code, error, request, silentLog))
    .use(openapiRoutes())
    .use(rootRoutes())
    .use(healthRoutes({ ready: () => healthy }))
    .post("/v1/things", () => "made", {
      parse: "none",
      detail: {
        tags: ["Things"],
        summary: "Make a thing",
        requestBody: jsonBody(() =>
          Open({
            name: Type.String(),
            kind: Type.Literal("a"),
            note: Type.Union([Type.String(), Type.Null()]),
            anything: Type.Optional(Open({})),
          }),
        ),
        responses: {
          "200": jsonOrStream(() => Open({ id: Type.String() }), "The thing."),
          ...errorReplies("messages", ["upstream_overloaded"]),
        },
      },
    })
    .get("/v1/things/:id", () => "thing", {
      detail: { responses: { "200": jsonReply(() => Open({ id: Type.String() }), "The thing.") } },
    })
    .get("/v1/bare", () => "bare")
    .get("/v1/secret-route", () => "hidden", { detail: { hide: true } });

type Node = Record<string, unknown>;
const node = (value: unknown): Node => {
  if (!isObject(value)) throw new Error(`not an object: ${JSON.stringify(value)}`);
  return value;
};
type App = Parameters<typeof openapiDocument>[0];
const readDocument = async (app: App = makeApp()) => node(await openapiDocument(app));

/** Every operation of the document as `[method, path, operation]`. */
function operationsOf(document: Node): [string, string, Node][] {
  return Object.entries(node(document["paths"])).flatMap(([path, methods]) =>
    Object.entries(node(methods)).map(([method, operation]): [string, string, Node] => [method, path, node(operation)]),
  );
}

describe("the document", () => {
  test("is made once, for whoever asks first: it needs no key, and making it takes its time", async () => {
    const routes = openapiRoutes();
    const app = new Elysia().use(routes).get("/v1/bare", () => "bare");
    const asked = spyOn(routes, "getGlobalRoutes" as never);
    const read = async () => (await app.handle(new Request("http://localhost/openapi/json"))).text();
    const [first, ...others] = await Promise.all([read(), read()]);
    const made = asked.mock.calls.length;
    expect(made).toBeGreaterThan(0);
    expect([...others, await read()]).toEqual([first ?? "", first ?? ""]);
    expect(asked.mock.calls.length).toBe(made);
    expect(first).toContain("/v1/bare");
  });

  test("says what it is, where it is served, and how to authenticate", async () => {
    const document = await readDocument();
    expect(document).toMatchObject({
      openapi: "3.1.0",
      info: { title: "Sluice", license: { name: "MIT" } },
      servers: [{ url: "/" }],
      security: [{ bearer: [] }, { apiKey: [] }],
      components: {
        securitySchemes: {
          bearer: { type: "http", scheme: "bearer" },
          apiKey: { type: "apiKey", in: "header", name: "x-api-key" },
        },
      },
    });
    expect(node(document["info"])["version"]).toMatch(/^\d+\.\d+\.\d+/);
  });

  test("holds the routes of the whole app and none that is hidden", async () => {
    const paths = Object.keys(node((await readDocument())["paths"])).sort();
    expect(paths).toEqual(["/healthz", "/readyz", "/v1/bare", "/v1/things", "/v1/things/{id}"]);
  });

  test("is sound by OpenAPI's rules: operation ids, parameters, responses", async () => {
    const operations = operationsOf(await readDocument());
    expect(operations).toHaveLength(5);
    const ids = operations.map(([, , operation]) => operation["operationId"]);
    expect(new Set(ids).size).toBe(ids.length);
    for (const [method, path, operation] of operations) {
      expect(["get", "post", "put", "patch", "delete"]).toContain(method);
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
      const parameters = (operation["parameters"] as Node[] | undefined) ?? [];
      expect(parameters.filter((each) => each["in"] === "path").map((each) => each["name"] as string)).toEqual(
        inPath as string[],
      );
      for (const each of parameters) if (each["in"] === "path") expect(each["required"]).toBe(true);
      const responses = Object.entries(node(operation["responses"]));
      expect(responses.length).toBeGreaterThan(0);
      for (const [status, response] of responses) {
        expect(status).toMatch(/^[1-5]\d\d$|^default$/);
        expect(typeof node(response)["description"]).toBe("string");
      }
    }
  });

  test("every reference leads somewhere", async () => {
    const document = await readDocument();
    const found: string[] = [];
    JSON.stringify(document, (key, value: unknown) => {
      if (key === "$ref") found.push(String(value));
      return value;
    });
    expect(found.length).toBeGreaterThan(5);
    for (const reference of found) {
      const target = reference
        .slice(2)
        .split("/")
        .reduce<unknown>((inside, step) => node(inside)[step], document);
      expect(isObject(target)).toBe(true);
    }
  });

  test("names bodies, replies and errors as the route said, without TypeBox's marks", async () => {
    const post = operationsOf(await readDocument()).find(([method]) => method === "post")?.[2] ?? {};
    expect(post["requestBody"]).toEqual({
      required: true,
      content: {
        "application/json": {
          schema: {
            type: "object",
            required: ["name", "kind", "note"],
            properties: {
              name: { type: "string" },
              kind: { type: "string", const: "a" },
              note: { anyOf: [{ type: "string" }, { type: "null" }] },
              // Without the mark, makers of clients let nothing into it.
              anything: { type: "object", properties: {}, additionalProperties: true },
            },
          },
        },
      },
    });
    const responses = node(post["responses"]);
    expect(Object.keys(responses)).toEqual(["200", "400", "401", "403", "413", "415", "429", "500", "529"]);
    const told = ["x-request-id", "request-id", "x-should-retry", "retry-after", "retry-after-ms"];
    expect(responses["529"]).toEqual({
      description: "Error: upstream_overloaded",
      content: { "application/json": { schema: { $ref: "#/components/schemas/MessagesError" } } },
      headers: Object.fromEntries(told.map((name) => [name, { $ref: `#/components/headers/${name}` }])),
    });
    // An address that comes with too many wrong keys is told its limit at every endpoint.
    expect(Object.keys(node(node(responses["429"])["headers"]))).toContain("x-ratelimit-remaining-requests");
    expect(Object.keys(node(node(responses["200"])["content"]))).toEqual(["application/json", "text/event-stream"]);
  });

  test("a body with examples says that it takes more fields: makers of clients would let none in", async () => {
    const body = () => Open({ parts: Type.Array(Open({ type: Type.String() })) }, { examples: [{ parts: [] }] });
    const app = makeApp().post("/v1/open", () => "", { parse: "none", detail: { requestBody: jsonBody(body) } });
    const operations = operationsOf(await readDocument(app));
    const open = operations.find(([, path]) => path === "/v1/open")?.[2];
    expect(JSON.stringify(open).match(/"additionalProperties":true/g)).toHaveLength(2);
  });

  test("two schemas of one name that differ are no document", async () => {
    const route = (schema: TSchema) => ({ detail: { responses: { "200": jsonReply(() => schema, "A thing.") } } });
    const thing = { title: "Thing" };
    const app = (other: TSchema) =>
      makeApp()
        .get("/v1/first", () => "", route(Open({ id: Type.String() }, thing)))
        .get("/v1/second", () => "", route(other));
    const schemas = node(node((await readDocument(app(Open({ id: Type.String() }, thing))))["components"])["schemas"]);
    expect(schemas["Thing"]).toMatchObject({ title: "Thing", properties: { id: { type: "string" } } });
    expect(readDocument(app(Open({ id: Type.Integer() }, thing)))).rejects.toThrow("no OpenAPI document");
  });

  test("is the same at the second asking, and grows with the app", async () => {
    const app = makeApp();
    expect(await readDocument(app)).toEqual(await readDocument(app));
    const other = makeApp().get("/v1/more", () => "more");
    expect(Object.keys(node((await readDocument(other))["paths"]))).toContain("/v1/more");
  });

  test.each([
    [undefined, "/"],
    ["https://gateway.example", "/"],
    ["https://gateway.example/llm", "/llm"],
  ])("of a gateway that is reached at %s says that it is at %s", async (publicUrl, url) => {
    const document = await openapiDocument(new Elysia().use(openapiRoutes(publicUrl)));
    expect(document).toMatchObject({ servers: [{ url }] });
  });

  test("an app without it is an error, not an empty document", async () => {
    await expect(openapiDocument(new Elysia())).rejects.toThrow();
  });
});

describe("pages", () => {
  const ask = (path: string, init?: RequestInit) => makeApp().handle(new Request(`http://localhost${path}`, init));
  const pages: [string, string][] = [
    ["/", "text/html"],
    ["/assets/root.css", "text/css"],
    ["/favicon.svg", "image/svg+xml"],
    ["/favicon.ico", "image/svg+xml"],
    ["/openapi", "text/html"],
    ["/openapi/page.css", "text/css"],
    ["/openapi/start.js", "text/javascript"],
    ["/openapi/viewer.css", "text/css"],
    ["/openapi/viewer.js", "text/javascript"],
  ];

  test.each(pages)("%s is %s, and may load nothing from elsewhere", async (path, type) => {
    const response = await ask(path);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toStartWith(type);
    const policy = response.headers.get("content-security-policy") ?? "";
    expect(policy).toStartWith("default-src 'none'; ");
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    expect(response.headers.get("referrer-policy")).toBe("no-referrer");
    expect((await response.bytes()).length).toBeGreaterThan(100);
  });

  test.each(["/", "/openapi"])(
    "%s holds no script or style of its own and links only to files that are there, also below a proxy's path",
    async (path) => {
      const html = await (await ask(path)).text();
      expect(html).not.toMatch(/<style|style=|<script(?![^>]*\bsrc=)|javascript:|\son\w+=/i);
      const links = [...html.matchAll(/(?:href|src)="([^"]+)"/g)].map((match) => match[1] ?? "");
      expect(links.length).toBeGreaterThan(2);
      for (const link of links) {
        const { origin, pathname } = new URL(link, `https://proxy.example/llm${path}`);
        expect([origin, pathname]).toEqual(["https://proxy.example", expect.stringMatching(/^\/llm\/(?!\/)/)]);
        if (link !== "v1/models") expect((await ask(pathname.slice("/llm".length))).status).toBe(200);
      }
    },
  );

  test("HEAD / is 200 without a body", async () => {
    const response = await ask("/", { method: "HEAD" });
    expect(response.status).toBe(200);
    expect(await response.text()).toBe("");
  });

  test.each(["/", "/openapi", "/openapi/json", "/healthz", "/readyz"])("POST %s is 405", async (path) => {
    const response = await ask(path, { method: "POST" });
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe("GET, HEAD");
  });

  test.each(["/page", "/document", "/swagger", "/swagger/json"])(
    "the generator's own %s is out of reach",
    async (path) => {
      expect((await ask(path)).status).toBe(404);
    },
  );
});

describe("health", () => {
  const ask = async (path: string) => {
    const response = await makeApp().handle(new Request(`http://localhost${path}`));
    return { status: response.status, body: (await response.json()) as unknown };
  };

  test("readiness follows the app, liveness does not", async () => {
    healthy = true;
    expect(await ask("/readyz")).toEqual({ status: 200, body: { status: "ok" } });
    healthy = false;
    expect(await ask("/readyz")).toEqual({ status: 503, body: { status: "unavailable" } });
    expect(await ask("/healthz")).toEqual({ status: 200, body: { status: "ok" } });
    healthy = true;
  });
});
