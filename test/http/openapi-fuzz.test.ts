import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Schema } from "../support/json-schema.ts";
import { EXCUSES } from "./openapi-excuses.ts";
import { Fuzz } from "./openapi-fuzz.ts";
import { type FuzzLab, startFuzzLab } from "./openapi-fuzz-lab.ts";
import { operationsOf } from "./openapi-operations.ts";

// Its world has to start first.
setDefaultTimeout(60_000);

/** Another one each time; a failure names it, and `FUZZ_SEED` plays it again. */
const SEED = Number(process.env["FUZZ_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
/** Requests of each operation: more than 3,000 together (reliability 8.1, G13). */
const EACH = 80;
/** A reply that takes longer hangs, however busy the machine is, ms; what it takes on a quiet one is a figure of the proofs. */
const HANGS_MS = 10_000;

let lab: FuzzLab;
const unhandled: unknown[] = [];
const note = (thrown: unknown) => void unhandled.push(thrown);
beforeAll(async () => {
  process.on("unhandledRejection", note);
  lab = await startFuzzLab();
});
afterAll(async () => {
  process.off("unhandledRejection", note);
  await lab.stop();
});

test("thousands of random requests made from the document: what comes back is what it declares", async () => {
  const { requests, faults, statuses } = await new Fuzz(lab, EXCUSES, HANGS_MS).run(SEED, EACH);
  expect({ seed: SEED, faults: faults.slice(0, 5), unhandled }).toEqual({ seed: SEED, faults: [], unhandled: [] });
  expect(requests).toBeGreaterThanOrEqual(3_000);
  for (const operation of operationsOf(lab.document)) {
    const seen = [...(statuses.get(operation.name)?.keys() ?? [])];
    const { name } = operation;
    // Each was reached, and each that reads a body or asks for a key was also asked wrongly.
    expect({ seed: SEED, name, served: seen.some((status) => status < 400) }).toMatchObject({ name, served: true });
    const open = name.endsWith("z");
    expect({ seed: SEED, name, refused: open || seen.some((status) => status >= 400) }).toMatchObject({
      refused: true,
    });
  }
  expect(lab.gateway.log.filter(({ event }) => event === "request-fault")).toEqual([]);
  expect(lab.gateway.app.book.verify()).toEqual([]);
});

test("a document that says something else is found out", async () => {
  const path = "/v1/account";
  const lie = (change: (operation: Schema, schemas: Schema) => void): FuzzLab => {
    const detail = structuredClone((lab.document["paths"] as Record<string, Schema>)[path]) as { get: Schema };
    const components = structuredClone(lab.document["components"]) as { schemas: Schema };
    change(detail.get, components.schemas);
    return { ...lab, document: { ...lab.document, components, paths: { [path]: detail } } };
  };
  const faultsOf = async (lying: FuzzLab) =>
    new Set((await new Fuzz(lying, [], HANGS_MS).run(SEED, 20)).faults.map(({ what }) => what));
  expect(await faultsOf(lie(() => undefined))).toEqual(new Set());
  const withoutStatus = lie(({ responses }) => {
    delete (responses as Schema)["200"];
  });
  expect(await faultsOf(withoutStatus)).toContain("status 200 is not declared");
  const otherType = lie((_operation, schemas) => {
    const text = JSON.stringify(schemas).replaceAll('"account"', '"acount"');
    Object.assign(schemas, JSON.parse(text));
  });
  expect([...(await faultsOf(otherType))].join()).toContain('its body: .object is not "acount"');
  const otherMedia = lie((operation) => {
    Object.assign(operation, JSON.parse(JSON.stringify(operation).replaceAll("application/json", "text/html")));
  });
  expect([...(await faultsOf(otherMedia))].join()).toContain("content of type application/json is not declared");
});
