import { isObject } from "../lib/json.ts";
import { mayBeInexact, parseExactly } from "../lib/json-numbers.ts";
import { JsonText } from "../lib/json-text.ts";
import type { ClientDialect } from "./dialect.ts";
import { dialects } from "./index.ts";

type Wire = Record<string, unknown>;

/** Fields that both of OpenAI's dialects have, and that say nothing of the conversation. */
const SHARED_FIELDS: readonly string[] = ["stream", "stream_options", "prompt_cache_key", "metadata", "service_tier"];

/** What a body says, in its client's own dialect. `lost`: what of it could not be said there, by its place. */
export type Told = { body: JsonText; lost: readonly string[] };

const NOTHING: readonly string[] = [];

/**
 * A body in the dialect of its endpoint. Clients of many vendors send some of it, or all of it, in another one, and read an answer in this one. Throws
 * GatewayError (invalid_request) for a body that is none of that other dialect either.
 */
export function inOwnForms(client: ClientDialect, body: JsonText): Told {
  const { value } = body;
  if (!client.ownForms || !isObject(value)) return { body, lost: NOTHING };
  const isOwn = client.name === dialects.responses.name;
  if (!isOwn && value["messages"] === undefined && value["input"] != null) return asChat(value);
  const told = client.ownForms(value);
  if (!told) return { body, lost: NOTHING };
  // Whole numbers of its calls that are longer than a double is exact stay as they came.
  const exact = mayBeInexact(body.text) ? client.ownForms(parseExactly(body.text) as Wire) : undefined;
  return { body: new JsonText(body.edit((exact ?? told).edits)), lost: told.lost };
}

/**
 * A whole body of the responses dialect, as Cursor's agent sends it to the chat endpoint for OpenAI's models (gabrii/Cursor-Azure-GPT-5 #69,
 * BerriAI/litellm #34029).
 */
function asChat(value: Wire): Told {
  const { responses, chat } = dialects;
  responses.check(value);
  const { prompt, dropped } = responses.decodeRequest(value);
  const { model } = responses.intent(value);
  const written = chat.encodeRequest(prompt, { customTools: true }, model);
  const told: Wire = { model, ...written.body };
  for (const field of SHARED_FIELDS) if (value[field] != null) told[field] = value[field];
  const { reasoning } = value;
  if (isObject(reasoning) && reasoning["effort"] != null) told["reasoning_effort"] = reasoning["effort"];
  const isShared = (place: string) => SHARED_FIELDS.some((field) => place === field || place.startsWith(`${field}.`));
  const lost = [...dropped, ...written.dropped].filter((place) => !isShared(place));
  return { body: new JsonText(JSON.stringify(told)), lost };
}
