import { Abort } from "../../lib/abort.ts";
import type { Clock } from "../../lib/clock.ts";
import { randomBase62 } from "../../lib/id.ts";
import { entryOf, isObject } from "../../lib/json.ts";
import type { Answer } from "../answer.ts";
import type { UpstreamRequest, Vendor } from "../vendor.ts";
import { builtinImages } from "./canvas.ts";
import { playEcho } from "./echo.ts";
import { errorResponse, perform } from "./perform.ts";
import { type Play, Refusal, refuse } from "./play.ts";
import { playScript } from "./script.ts";

/** Longest body that is played, characters: these models work inside the gateway's own process, and its other callers wait meanwhile. */
const MAX_BODY = 4 * 1024 * 1024;

/** The models by their names upstream. */
const MODELS: Readonly<Record<string, (body: Record<string, unknown>) => Play>> = {
  echo: playEcho,
  script: playScript,
};

/**
 * The vendor `sluice` (contract 10): an upstream inside this process that answers as a chat vendor on the network would, with `clock`
 * for its pauses. Its models are rows of the catalog like any others.
 */
export function builtinVendor(clock: Clock): Vendor {
  return {
    id: "sluice",
    name: "Sluice",
    dialect: "chat",
    baseUrl: "http://sluice.internal/v1",
    auth: "none",
    models: "catalog",
    quirks: {},
    serve: (request) => serve(request, clock),
    images: builtinImages(clock),
  };
}

async function serve(request: UpstreamRequest, clock: Clock): Promise<Response | Answer> {
  const abort = request.abort ?? Abort.of(request.signal);
  try {
    if (!new URL(request.url).pathname.endsWith("/chat/completions")) throw notFound("There is nothing at this path.");
    const body = readBody(request.body);
    const model = String(body["model"] ?? "");
    const name = model.replace(/^sluice\//, "");
    const play = entryOf(MODELS, name);
    if (!play) throw notFound("The built-in vendor has no model of this name.");
    const options = body["stream_options"];
    return await perform(play(body), {
      heading: { id: `chatcmpl-${randomBase62(24)}`, created: Math.floor(clock.now() / 1000), model },
      stream: body["stream"] === true,
      wantsUsage: isObject(options) && options["include_usage"] === true,
      clock,
      abort,
    });
  } catch (thrown) {
    if (thrown instanceof Refusal) return errorResponse(thrown.error);
    throw thrown;
  }
}

function readBody(text: string): Record<string, unknown> {
  if (text.length > MAX_BODY) throw refuse(`The built-in models take at most ${MAX_BODY} characters.`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Said below: what is no JSON is no object either.
    value = undefined;
  }
  if (!isObject(value)) throw refuse("The body is not a JSON object.");
  return value;
}

const notFound = (message: string) =>
  new Refusal({ status: 404, message, type: "invalid_request_error", code: "model_not_found" });
