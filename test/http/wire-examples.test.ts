import { expect, test } from "bun:test";
import type { TSchema } from "@sinclair/typebox";
import { Errors } from "@sinclair/typebox/errors";
import * as admin from "../../src/wire/admin.ts";
import * as translate from "../../src/wire/debug-translate.ts";
import * as images from "../../src/wire/images.ts";
import * as messages from "../../src/wire/messages.ts";
import * as responses from "../../src/wire/responses.ts";
import * as web from "../../src/wire/web.ts";

/** Schemas are made when they are asked for; what asks for arguments, or is none, is not of them. */
function schemasOf(module: Record<string, unknown>): TSchema[] {
  return Object.values(module).flatMap((made) => {
    if (typeof made !== "function" || made.length > 0) return [];
    const schema: unknown = made();
    return typeof schema === "object" && schema !== null && "examples" in schema ? [schema as TSchema] : [];
  });
}

test("examples of the document are what their endpoints take", () => {
  const schemas = [admin, translate, images, messages, responses, web].flatMap(schemasOf);
  const examples = schemas.flatMap((schema) =>
    (schema["examples"] as unknown[]).map((example) => [schema.title, [...Errors(schema, example)].map((e) => e.path)]),
  );
  expect(examples.length).toBeGreaterThan(5);
  expect(examples.filter(([, faults]) => faults?.length !== 0)).toEqual([]);
});
