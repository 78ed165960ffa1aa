import type { Caller } from "../../accounts/caller.ts";
import { toGatewayError } from "../../canon/errors.ts";
import type { WebToolAnswer, WebToolFault, WebToolOrder } from "../../canon/web-tools.ts";
import { newId } from "../../lib/id.ts";
import { errorFields, type Log } from "../../observe/log.ts";
import type { PageFaultCode, PageResult } from "../fetch/results.ts";
import type { WebCall } from "./meter.ts";
import { isFault, readFetchArguments, readSearchArguments, type WebTools } from "./tools.ts";

/** A call of a generation has an id of its own, not the generation's request id: the ledger has a row for each. */
type Asked = WebToolOrder & { caller: Caller };

/** Whether a page's failure lies in its address, its content or this gateway. */
const FAULT_OF_PAGE: Readonly<Partial<Record<PageFaultCode, WebToolFault>>> = {
  invalid_url: "bad_arguments",
  blocked: "not_allowed",
  unsupported_content_type: "unsupported",
  busy: "too_many",
  internal: "unavailable",
};

const TOO_MANY = new Set(["rate_limit_exceeded", "concurrency_exceeded", "allowance_exhausted", "insufficient_quota"]);

function toFault(thrown: unknown): WebToolAnswer {
  const { code, message } = toGatewayError(thrown);
  const fault = TOO_MANY.has(code) ? "too_many" : code === "invalid_request" ? "bad_arguments" : "unavailable";
  return { kind: "fault", fault, message };
}

function toPage(result: PageResult | undefined): WebToolAnswer {
  if (!result || result.status === "error") {
    const fault = (result && FAULT_OF_PAGE[result.error.code]) ?? "not_accessible";
    return { kind: "fault", fault, message: result?.error.message ?? "The page could not be read." };
  }
  const { finalUrl: url, title = "", markdown: text } = result;
  return { kind: "page", page: { url, title, text } };
}

async function run(tools: WebTools, asked: Asked, call: WebCall): Promise<WebToolAnswer> {
  if (asked.name === "web_search") {
    const query = readSearchArguments(asked.arguments);
    if (isFault(query)) return { kind: "fault", fault: "bad_arguments", message: query.message };
    const { results, notes } = await tools.search(query, call);
    return { kind: "results", results, notes };
  }
  const wanted = readFetchArguments(asked.arguments);
  if (isFault(wanted)) return { kind: "fault", fault: "bad_arguments", message: wanted.message };
  const [page] = await tools.fetch(wanted.urls, wanted.max_content_tokens, call);
  return toPage(page);
}

/**
 * The web tools for models whose vendor has none: each use is one more call of the caller's allowance, with a usage row of its own.
 * The function rejects only when the signal is aborted; whatever else goes wrong is a fault with a sentence for the model.
 */
export function createServedTools(tools: WebTools, log: Log): (asked: Asked) => Promise<WebToolAnswer> {
  return async (asked) => {
    const { caller, dialect, signal, name, requestId } = asked;
    const call = { caller, requestId: newId("req"), dialect, signal };
    try {
      return await run(tools, asked, call);
    } catch (thrown) {
      signal.throwIfAborted();
      const answer = toFault(thrown);
      log.warn("served-tool", { request_id: requestId, call: call.requestId, tool: name, ...errorFields(thrown) });
      return answer;
    }
  };
}
