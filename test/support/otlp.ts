import { expect } from "bun:test";
import type { Span } from "../../src/observe/spans.ts";

// What OTLP over HTTP in JSON allows of what is sent here, and nothing else: opentelemetry-proto's trace.proto and the JSON mapping of its specification
// (IDs are hexadecimal, whole numbers of 64 bits are text, names are in lowerCamelCase, enumerations are numbers).

type Wire = Record<string, unknown>;

function read(value: unknown, at: string, needed: readonly string[], allowed: readonly string[] = []): Wire {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`${at}: no message`);
  const names = Object.keys(value);
  for (const name of needed) if (!names.includes(name)) throw new Error(`${at}: no ${name}`);
  for (const name of names) {
    if (![...needed, ...allowed].includes(name)) throw new Error(`${at}: ${name} is not known`);
  }
  return value as Wire;
}

function list(value: unknown, at: string): unknown[] {
  if (!Array.isArray(value)) throw new Error(`${at}: no list`);
  return value;
}

function match(value: unknown, form: RegExp, at: string): string {
  if (typeof value !== "string" || !form.test(value)) throw new Error(`${at}: ${JSON.stringify(value)}`);
  return value;
}

const TRACE_ID = /^(?!0+$)[0-9a-f]{32}$/;
const SPAN_ID = /^(?!0+$)[0-9a-f]{16}$/;
const NAMED = /^[^\s](?:.*[^\s])?$/;
const WHOLE = /^(?:0|-?[1-9]\d*)$/;

const FORMS: Readonly<Record<string, (value: unknown, at: string) => void>> = {
  stringValue: (value, at) => void match(value, /^.*$/s, at),
  intValue: (value, at) => void match(value, WHOLE, at),
  doubleValue: (value, at) => {
    if (typeof value !== "number" || !Number.isFinite(value)) throw new Error(`${at}: no number`);
  },
  boolValue: (value, at) => {
    if (typeof value !== "boolean") throw new Error(`${at}: no boolean`);
  },
  arrayValue: (value, at) => {
    for (const each of list(read(value, at, ["values"])["values"], at)) checkValue(each, at);
  },
};

function checkValue(value: unknown, at: string): void {
  const forms = Object.keys(read(value, at, [], Object.keys(FORMS)));
  if (forms.length !== 1) throw new Error(`${at}: one value is wanted`);
  const [form] = forms as [string];
  FORMS[form]?.((value as Wire)[form], `${at}.${form}`);
}

function checkAttributes(value: unknown, at: string): void {
  const seen = new Set<string>();
  for (const each of list(value, at)) {
    const { key, value: written } = read(each, at, ["key", "value"]);
    const name = match(key, /^[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+$/, at);
    if (seen.has(name)) throw new Error(`${at}: ${name} twice`);
    seen.add(name);
    checkValue(written, `${at}.${name}`);
  }
}

const SPAN = ["traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "attributes", "status"];

function checkSpan(value: unknown, at: string): Span {
  const span = read(value, at, SPAN, ["parentSpanId", "links"]);
  match(span["traceId"], TRACE_ID, `${at}.traceId`);
  match(span["spanId"], SPAN_ID, `${at}.spanId`);
  if ("parentSpanId" in span) match(span["parentSpanId"], SPAN_ID, `${at}.parentSpanId`);
  match(span["name"], NAMED, `${at}.name`);
  if (![1, 2, 3, 4, 5].includes(span["kind"] as number)) throw new Error(`${at}.kind`);
  const [from, to] = ["startTimeUnixNano", "endTimeUnixNano"].map((name) => BigInt(match(span[name], WHOLE, at)));
  if ((from as bigint) <= 0n || (to as bigint) < (from as bigint)) throw new Error(`${at}: ends before it begins`);
  checkAttributes(span["attributes"], `${at}.attributes`);
  for (const link of list(span["links"] ?? [], `${at}.links`)) {
    const { traceId, spanId } = read(link, `${at}.links`, ["traceId", "spanId"]);
    match(traceId, TRACE_ID, `${at}.links`);
    match(spanId, SPAN_ID, `${at}.links`);
  }
  const { code, message = "" } = read(span["status"], `${at}.status`, ["code"], ["message"]);
  if (![0, 1, 2].includes(code as number)) throw new Error(`${at}.status.code`);
  match(message, /^.*$/s, `${at}.status.message`);
  if (code !== 2 && message !== "") throw new Error(`${at}: words without a failure`);
  return value as Span;
}

/** The spans of an export, in their order. Throws for whatever is not as OTLP has it. */
export function readExport(sent: unknown): Span[] {
  return list(read(sent, "export", ["resourceSpans"])["resourceSpans"], "resourceSpans").flatMap((each) => {
    const { resource, scopeSpans } = read(each, "resourceSpans", ["resource", "scopeSpans"]);
    checkAttributes(read(resource, "resource", ["attributes"])["attributes"], "resource.attributes");
    return list(scopeSpans, "scopeSpans").flatMap((scoped) => {
      const { scope, spans } = read(scoped, "scopeSpans", ["scope", "spans"]);
      const { name } = read(scope, "scope", ["name"], ["version"]);
      match(name, NAMED, "scope.name");
      return list(spans, "spans").map((span, at) => checkSpan(span, `span ${at}`));
    });
  });
}

/** A span's attributes by their names, as plain values; whole numbers are text. */
export const attributesOf = (span: Span | undefined): Record<string, unknown> =>
  Object.fromEntries((span?.attributes ?? []).map(({ key, value }) => [key, Object.values(value)[0] as unknown]));

/** Below each own span its calls: no span is sent twice, and what has its parent among these lies in its trace, and begins after it. */
export function expectTree(spans: readonly Span[]): void {
  const byId = new Map(spans.map((span) => [span.spanId, span]));
  expect(byId.size).toBe(spans.length);
  for (const { parentSpanId, traceId, startTimeUnixNano: from } of spans) {
    const parent = parentSpanId === undefined ? undefined : byId.get(parentSpanId);
    if (!parent) continue;
    expect(parent.traceId).toBe(traceId);
    expect(BigInt(from)).toBeGreaterThanOrEqual(BigInt(parent.startTimeUnixNano));
  }
}
