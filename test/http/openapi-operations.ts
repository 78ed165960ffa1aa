import type { Schema } from "../support/json-schema.ts";

export type Parameter = { name: string; in: "path" | "query" | "header"; required?: boolean; schema: Schema };
export type Operation = {
  name: string;
  method: string;
  path: string;
  parameters: Parameter[];
  body: Schema | undefined;
  responses: Record<string, { content?: Record<string, { schema: Schema }>; headers?: Record<string, Schema> }>;
};

/** The operations of a document, in its order. */
export function operationsOf(document: Schema): Operation[] {
  return Object.entries(document["paths"] as Record<string, Record<string, Schema>>).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, detail]) => {
      const body = detail["requestBody"] as { content: Record<string, { schema: Schema }> } | undefined;
      return {
        name: `${method.toUpperCase()} ${path}`,
        method: method.toUpperCase(),
        path,
        parameters: (detail["parameters"] ?? []) as Parameter[],
        body: body?.content["application/json"]?.schema,
        responses: detail["responses"] as Operation["responses"],
      };
    }),
  );
}
