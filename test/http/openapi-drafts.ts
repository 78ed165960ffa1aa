import fc from "fast-check";
import type { Schema } from "../support/json-schema.ts";
import { bodiesOf } from "./openapi-bodies.ts";
import { CALLERS, type CallerName, type FuzzLab, SOUND_MODELS } from "./openapi-fuzz-lab.ts";
import type { Operation, Parameter } from "./openapi-operations.ts";
import { ANYTHING, almostValid, slot, validValues } from "./openapi-values.ts";

/** `valid`: fits the document and has the right key; `almost`: fitted until something was changed; `wrong`: any JSON. */
const KINDS = ["valid", "almost", "wrong"] as const;
type Kind = (typeof KINDS)[number];

/** A request as it is made up, slots still in it. */
export type Draft = {
  kind: Kind;
  caller: CallerName;
  both: boolean;
  path: Record<string, unknown>;
  query: [string, unknown][];
  headers: [string, unknown][];
  body: unknown;
};

const isAdmin = ({ path }: Operation) => path.startsWith("/admin/") || path === "/metrics";
const drawsImages = ({ path }: Operation) => path.startsWith("/v1/images");
const PATH_SLOTS: Record<string, string> = {
  account: "accounts",
  key: "keys",
  token: "tokens",
  request_id: "requests",
  name: "files",
};

/** Text for a place in a path: never "", "." or "..", which make another path. */
const STEP = fc
  .oneof(
    fc.string({ minLength: 1, maxLength: 12 }),
    fc.string({ unit: "grapheme", minLength: 1, maxLength: 6 }),
    fc.constantFrom("%", "%00", "a%2Fb", "a\u0000", "x".repeat(3_000), "' OR 1=1 --", "0", "null", "..%2f..%2fetc"),
  )
  .filter((text) => !/^\.{1,2}$/.test(text) && text.isWellFormed());

function pathValues(operation: Operation, { name }: Parameter): fc.Arbitrary<unknown> {
  const known = drawsImages(operation) && name === "id" ? "jobs" : (PATH_SLOTS[name] ?? "");
  const right = known === "" ? fc.constantFrom(...SOUND_MODELS, "sluice/echo") : slot(known);
  return right;
}

function queryValues(operation: Operation, { name, schema }: Parameter, document: Schema): fc.Arbitrary<unknown> {
  const times = fc.constantFrom("2020-01-31", "2026-01-31T10:00:00Z", "0", "1790000000");
  const known: Record<string, fc.Arbitrary<unknown>> = {
    cursor: slot(`cursor ${operation.path}`),
    before: slot("before"),
    since: times,
    until: times,
    model: fc.constantFrom(...SOUND_MODELS),
    key: fc.oneof(slot("keys"), fc.constant("key_none")),
    account: slot("accounts"),
    probe: fc.constantFrom("true", "false"),
    after_id: fc.constantFrom(...SOUND_MODELS),
    before_id: fc.constantFrom(...SOUND_MODELS),
  };
  return known[name] ?? validValues(schema, document, () => undefined);
}

function headerValues({ name, schema }: Parameter, document: Schema): fc.Arbitrary<unknown> {
  const known: Record<string, fc.Arbitrary<unknown>> = {
    "Idempotency-Key": fc.oneof(fc.stringMatching(/^[\x21-\x7e]{1,40}$/), fc.constantFrom("one", "two")),
    // Longer ones are what they are for.
    Prefer: fc.constantFrom("wait=0", "respond-async", "wait"),
  };
  return known[name] ?? validValues(schema, document, () => undefined);
}

const HEADER_TEXT = fc.stringMatching(/^[\x21-\x7e]{0,30}$/);
const ODD_HEADERS = fc.oneof(
  fc.tuple(fc.constant("idempotency-key"), fc.oneof(HEADER_TEXT, fc.constant("k".repeat(256)))),
  fc.tuple(
    fc.constantFrom("anthropic-version", "anthropic-beta", "openai-beta", "mcp-protocol-version", "traceparent"),
    HEADER_TEXT,
  ),
  fc.tuple(
    fc.constantFrom("x-sluice-strict", "prefer", "if-none-match", "range", "accept-encoding", "cookie"),
    HEADER_TEXT,
  ),
  fc.constantFrom<[string, string]>(
    ["accept", "text/html"],
    ["accept", "text/csv"],
    ["content-type", "text/plain"],
    ["content-type", ""],
    ["content-encoding", "gzip"],
    ["range", "bytes=0-9"],
    ["range", "bytes=9999999-"],
    ["x-sluice-strict", "1"],
  ),
);

const weighted = (weights: Partial<Record<CallerName, number>>) =>
  fc.oneof(...CALLERS.map((name) => ({ weight: weights[name] ?? 0, arbitrary: fc.constant(name) })));

/** Optional parts that a valid request has now and then. */
const some = (parameters: Parameter[], make: (parameter: Parameter) => fc.Arbitrary<unknown>) =>
  fc
    .tuple(...parameters.map((parameter) => fc.tuple(fc.constant(parameter.name), make(parameter), fc.nat(3))))
    .map((made) =>
      made.filter(([, , chance]) => chance === 0).map(([name, value]): [string, unknown] => [name, value]),
    );

/** Requests of an operation, of every kind. */
export function draftsOf(operation: Operation, lab: Pick<FuzzLab, "document" | "page">): fc.Arbitrary<Draft> {
  const { document } = lab;
  const place = (where: Parameter["in"]) => operation.parameters.filter((parameter) => parameter.in === where);
  const valid = bodiesOf(operation, lab);
  const right = isAdmin(operation) ? "admin" : "user";
  const callers = weighted(
    isAdmin(operation)
      ? { admin: 16, user: 1, token: 1, stranger: 1, nobody: 1, revoked: 1 }
      : { user: 12, payer: 4, poor: 2, narrow: 2, token: 2, admin: 1, revoked: 1, stranger: 1, nobody: 1 },
  );
  const paths = place("path");
  const rightPath = fc.record(Object.fromEntries(paths.map((each) => [each.name, pathValues(operation, each)])));
  const anyPath = fc.record(
    Object.fromEntries(paths.map((each) => [each.name, fc.oneof(pathValues(operation, each), STEP)])),
  );
  const rightQuery = some(place("query"), (each) => queryValues(operation, each, document));
  const oddQuery = fc.array(
    fc.tuple(
      fc.constantFrom(...place("query").map(({ name }) => name), "beta", "key"),
      fc.oneof(HEADER_TEXT, fc.string({ maxLength: 9 }), fc.constantFrom("", "0", "-1", "1e3", "9".repeat(400))),
    ),
    { maxLength: 3 },
  );
  const rightHeaders = some(place("header"), (each) => headerValues(each, document));
  const oddHeaders = fc.array(ODD_HEADERS, { maxLength: 2 });
  const constant = { caller: fc.constant(right as CallerName), both: fc.constant(false) };
  const odd = { caller: callers, both: fc.nat(30).map((one) => one === 0), path: anyPath };
  const none = fc.constant(undefined);
  return fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        ...constant,
        kind: fc.constant<Kind>("valid"),
        path: rightPath,
        query: rightQuery,
        headers: rightHeaders,
        body: valid ?? none,
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        ...odd,
        kind: fc.constant<Kind>("almost"),
        query: fc.oneof(rightQuery, oddQuery),
        headers: oddHeaders,
        body: valid ? fc.oneof(valid, almostValid(valid), almostValid(valid)) : none,
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        ...odd,
        kind: fc.constant<Kind>("wrong"),
        query: oddQuery,
        headers: oddHeaders,
        body: valid ? ANYTHING : none,
      }),
    },
  );
}
