import { expect, test } from "bun:test";
import { openapiDocument } from "../../src/http/openapi/openapi.ts";
import { isObject } from "../../src/lib/json.ts";
import { startApp } from "../support/app.ts";

type Operation = { parameters?: { name: string; in: string; required?: boolean }[]; operationId?: string };

/** Endpoints of contract 3 that clients are to find in the document, and those that the interface adds. */
const PUBLIC: readonly string[] = [
  "POST /v1/chat/completions",
  "POST /v1/messages",
  "POST /v1/messages/count_tokens",
  "POST /v1/responses",
  "POST /v1/responses/input_tokens",
  "GET /v1/models",
  "GET /v1/models/{id}",
  "GET /v1/account",
  "GET /v1/usage",
  "GET /v1/usage/{request_id}",
  "GET /healthz",
  "GET /readyz",
];

test("an error's schema has what contract 6 promises of some refusals beside their words", async () => {
  const app = await startApp({});
  const { components } = (await openapiDocument(await app.app.gateway.routes())) as {
    components: { schemas: Record<string, { properties: { error: { properties: object; required: string[] } } }> };
  };
  await app.stop();
  for (const [name, required] of [
    ["ChatError", ["message", "type", "param", "code"]],
    ["MessagesError", ["type", "message", "code"]],
  ] as const) {
    const error = components.schemas[name]?.properties.error;
    expect(Object.keys(error?.properties ?? {})).toEqual(
      expect.arrayContaining(["message", "type", "code", "param", "affordable_output_tokens", "reset_at"]),
    );
    expect(error?.required).toEqual([...required]);
  }
});

test("the gateway's own document holds every endpoint, with every parameter of its path, under a name of its own", async () => {
  const app = await startApp({});
  const document = (await openapiDocument(await app.app.gateway.routes())) as {
    paths: Record<string, Record<string, Operation>>;
  };
  await app.stop();
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      path,
      name: `${method.toUpperCase()} ${path}`,
      operation,
    })),
  );
  const names = operations.map(({ name }) => name);
  for (const endpoint of PUBLIC) expect(names).toContain(endpoint);
  expect(names.filter((name) => name.includes("*"))).toEqual([]);
  const ids = operations.map(({ operation }) => operation.operationId);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { path, name, operation } of operations) {
    const inPath = (operation.parameters ?? []).filter((parameter) => parameter.in === "path");
    const wanted = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
    expect([name, inPath.map((parameter) => parameter.name)]).toEqual([name, wanted as string[]]);
    expect(inPath.every((parameter) => parameter.required === true)).toBe(true);
  }
});

test("a schema with a name stands once, under it; one of words alone has no pattern: makers of clients take no type twice", async () => {
  const app = await startApp({});
  const document = (await openapiDocument(await app.app.gateway.routes())) as {
    paths: object;
    components: { schemas: Record<string, { title?: string }> };
  };
  await app.stop();
  const inside: string[] = [];
  const look = (node: unknown) => {
    if (Array.isArray(node)) for (const entry of node) look(entry);
    if (!isObject(node)) return;
    if (typeof node["title"] === "string") inside.push(node["title"]);
    if (node["enum"] && node["pattern"]) inside.push(String(node["pattern"]));
    for (const [key, inner] of Object.entries(node)) if (key !== "examples") look(inner);
  };
  look(document.paths);
  for (const [name, { title, ...schema }] of Object.entries(document.components.schemas)) {
    expect(title ?? name).toBe(name);
    look(schema);
  }
  expect(inside).toEqual([]);
  expect(Object.keys(document.components.schemas)).toEqual(
    expect.arrayContaining(["Account", "ImageJob", "Key", "LedgerEntry", "McpReply", "Model", "UsageGroup", "Vendor"]),
  );
  expect(JSON.stringify(document.paths)).toContain('"$ref":"#/components/schemas/LedgerEntry"');
});
