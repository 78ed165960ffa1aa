import type { Fields } from "../../lib/http1/fields.ts";
import { listOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import type { Quirks } from "../dialect.ts";

/** Most betas of one request; clients send a handful. */
const MAX_BETAS = 64;

/**
 * The client's `anthropic-beta` header as the field `anthropic_beta` of the body, for vendors that read nothing from headers: those whose
 * version stands in the body too (Bedrock). A list the client wrote there itself goes first.
 */
export function headerEdits(body: Record<string, unknown>, headers: Fields, quirks: Quirks): Edits {
  if (quirks.versionInBody === undefined || quirks.publisherModels) return {};
  const said = headers.get("anthropic-beta") ?? "";
  const betas = said.split(",").map((beta) => beta.trim());
  const own = listOf(body["anthropic_beta"]);
  const added = betas.filter((beta) => beta !== "" && !own.includes(beta));
  return added.length === 0 ? {} : { anthropic_beta: [...new Set([...own, ...added])].slice(0, MAX_BETAS) };
}
