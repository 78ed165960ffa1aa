import { Elysia } from "elysia";
import packageFile from "../../../package.json" with { type: "json" };
import { isEmpty, isObject } from "../../lib/json.ts";
import { toResponse } from "../answered.ts";
import { methodNotAllowed } from "../errors.ts";
import { HIDDEN, sharedSchemas } from "../openapi-detail.ts";
import { jsonText } from "../own-json.ts";
import { requestIdOf } from "../request.ts";
import { headersOf, sharedHeaders } from "./headers.ts";
import { servePage, VIEWER_FILES } from "./page.ts";

const SPEC_PATH = "/document";

/** All of the document that does not come from routes. `path`: where this gateway is reached, below its host. */
const describeGateway = (path: string) =>
  ({
    // The routes' schemas are JSON Schema as TypeBox writes it (const, null): what 3.1 takes and 3.0 does not.
    openapi: "3.1.0",
    info: {
      title: "Sluice",
      version: packageFile.version,
      description: packageFile.description,
      license: { name: packageFile.license, identifier: packageFile.license },
    },
    servers: [{ url: path, description: "This gateway" }],
    security: [{ bearer: [] }, { apiKey: [] }],
    components: {
      schemas: sharedSchemas(),
      headers: sharedHeaders(),
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", description: "An API key as `Authorization: Bearer <key>`." },
        apiKey: { type: "apiKey", in: "header", name: "x-api-key", description: "An API key as `x-api-key: <key>`." },
      },
    },
  }) as const;

const entriesOf = (value: unknown) => Object.entries(isObject(value) ? value : {});

/** Puts in what the generator leaves out: every response has a description, which OpenAPI demands, and names the headers it may carry. */
function completeDocument(document: unknown): Record<string, unknown> {
  if (!isObject(document)) throw new Error("the OpenAPI generator gave no document");
  for (const [path, operations] of entriesOf(document["paths"])) {
    for (const [method, operation] of entriesOf(operations)) {
      if (!isObject(operation)) continue;
      for (const [status, response] of entriesOf(operation["responses"])) {
        if (!isObject(response)) continue;
        response["description"] ??= "OK";
        response["headers"] ??= headersOf(path, method, operation, Number(status));
      }
    }
  }
  tidySchemas(document);
  return nameSchemas(document);
}

/**
 * Each schema that has a title stands once, under that name in `components.schemas`, and is referred to elsewhere: makers of clients name
 * their types by it, and some leave out an answer whose schema stands in two places of one operation. Throws Error where two that
 * differ have one title.
 */
function nameSchemas(document: Record<string, unknown>): Record<string, unknown> {
  const components = isObject(document["components"]) ? document["components"] : {};
  const schemas: Record<string, unknown> = { ...(isObject(components["schemas"]) ? components["schemas"] : {}) };
  const named = (node: unknown): unknown => {
    if (Array.isArray(node)) return node.map(named);
    if (!isObject(node)) return node;
    // Examples are data, in which a title names no schema.
    const own = Object.fromEntries(
      Object.entries(node).map(([key, value]) => [key, key === "examples" ? value : named(value)]),
    );
    const title = own["title"];
    if (typeof title !== "string") return own;
    schemas[title] ??= own;
    if (!Bun.deepEquals(schemas[title], own)) throw new Error(`two schemas have the title ${title}`);
    return { $ref: `#/components/schemas/${title}` };
  };
  return { ...document, paths: named(document["paths"]), components: { ...components, schemas } };
}

/**
 * `additionalProperties: true` is the rule of JSON Schema anyway; written out, the viewer's example bodies would hold an invented field.
 * It stays where makers of clients would let nothing else in: in bodies, which have examples of their own, and where no property is named. A
 * `pattern` beside an `enum` says the same in words that our own check reads; makers of checks stumble over the two.
 */
function tidySchemas(node: unknown, inExampled = false): void {
  if (Array.isArray(node)) for (const entry of node) tidySchemas(entry, inExampled);
  if (!isObject(node)) return;
  const exampled = inExampled || Array.isArray(node["examples"]);
  const named = !isObject(node["properties"]) || !isEmpty(node["properties"]);
  if (!exampled && named && node["additionalProperties"] === true) delete node["additionalProperties"];
  if (Array.isArray(node["enum"])) delete node["pattern"];
  for (const [key, inner] of Object.entries(node)) if (key !== "examples") tidySchemas(inner, exampled);
}

type Generator = { handle(request: Request): Promise<Response> };

/**
 * The generator of the document, for the app in which `routes` is mounted. It is loaded when the document is first asked for: it brings
 * along a schema library and a viewer's types, which would double the time of a start. It stands apart, so that its own page, which
 * loads a viewer from elsewhere, is in nobody's reach.
 */
async function loadGenerator(routes: Elysia, path: string): Promise<Generator> {
  const { swagger } = await import("@elysiajs/swagger");
  const generator = swagger({
    path: "/page",
    specPath: SPEC_PATH,
    documentation: describeGateway(path) as unknown as Record<string, never>,
    excludeMethods: ["OPTIONS", "HEAD"],
    excludeStaticFile: false,
  });
  // As Elysia does for a plugin it mounts: the routes to describe are those of the whole app.
  generator["getGlobalRoutes"] = () => routes["getGlobalRoutes"]();
  return generator;
}

/**
 * GET /openapi/json: the document, made from the `detail` of every route of the app it is mounted in (hidden ones left out).
 * GET /openapi: a page to read and try it, served whole from the executable; nothing is asked of another machine (contract 3).
 * `publicUrl`: as people reach the gateway, where that is known.
 */
export function openapiRoutes(publicUrl?: string) {
  const routes = new Elysia({ name: "sluice-openapi" });
  const generate = async () => {
    const generator = await loadGenerator(routes, publicUrl === undefined ? "/" : new URL(publicUrl).pathname);
    const response = await generator.handle(new Request(`http://localhost${SPEC_PATH}`));
    return JSON.stringify(completeDocument(await response.json()));
  };
  // Routes do not change while the app runs, and whoever asks needs no key: making it takes some 10 ms of everybody's time.
  let made: Promise<string> | undefined;
  const document = () => {
    made ??= generate().catch((thrown) => {
      made = undefined;
      throw thrown;
    });
    return made;
  };

  routes
    .get(
      "/openapi/json",
      async ({ request }) => toResponse(jsonText(await document(), requestIdOf(request), "no-cache")),
      HIDDEN,
    )
    .all("/openapi/json", methodNotAllowed("GET, HEAD"), HIDDEN)
    .all("/openapi", methodNotAllowed("GET, HEAD"), HIDDEN);
  for (const file of VIEWER_FILES) {
    routes.get(file.path, ({ request }) => servePage(request, file.body(), file.contentType), HIDDEN);
  }
  return routes;
}

/**
 * The OpenAPI document of an app in which {@link openapiRoutes} is mounted, without a server running.
 * Throws Error when the app does not answer with one.
 */
export async function openapiDocument(app: { handle(request: Request): Promise<Response> }): Promise<object> {
  const response = await app.handle(new Request("http://localhost/openapi/json"));
  const document: unknown = await response.json();
  if (!response.ok || !isObject(document)) throw new Error("the app has no OpenAPI document");
  return document;
}
