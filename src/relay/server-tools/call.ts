import type { WebToolAnswer } from "../../canon/web-tools.ts";
import {
  describePage,
  describeResults,
  type OfferedTool,
  type ServedCall,
  type ServedFault,
  type ServedOutcome,
} from "../../dialects/server-tools.ts";
import { isObject } from "../../lib/json.ts";
import { percentDecode } from "../../lib/percent-decode.ts";
import { errorFields } from "../../observe/log.ts";
import { MAX_CONTENT_TOKENS, MAX_DOMAINS, MAX_QUERY } from "../../wire/bounds.ts";
import type { Job } from "../job.ts";
import type { WebToolCall } from "../run-web-tool.ts";

/** Characters of an address (web-and-mcp.md A3). */
const MAX_URL = 2_048;

/** The arguments of a call, or why they are none. */
type Read = { subject: string; arguments: Record<string, unknown> } | { subject: string; fault: ServedFault };

const SENTENCES: Readonly<Record<ServedFault, string>> = {
  bad_arguments: "The arguments of this call are not as the tool's schema says.",
  not_allowed: "This address is outside of what may be used here.",
  not_accessible: "The page could not be had.",
  unsupported: "What is at this address cannot be read as text.",
  too_many: "The tool cannot be used at the moment: too many calls.",
  too_long: "This is too long.",
  used_up: "This tool has been used as often as it may be. Answer with what you have.",
  unavailable: "The tool is not to be had at the moment.",
};

/** A domain of a filter, perhaps with a path behind it, in parts that are spelt as those of addresses are (`xn--`, `%C3%B6`); a port says nothing. */
function splitDomain(entry: string): { host: string; path: string } {
  const bare = entry
    .trim()
    .replace(/^https?:\/\//i, "")
    .replace(/^(?:\*\.|\.)/, "")
    .replace(/^([^/]*\/[^*]*)\*.*$/s, "$1");
  const { hostname, pathname } = URL.parse(`http://${bare}`) ?? { hostname: "", pathname: "/" };
  return { host: hostname.replace(/^www\./, ""), path: pathname === "/" ? "" : pathname };
}

function lies(url: URL, entry: string): boolean {
  const { host, path } = splitDomain(entry);
  const own = url.hostname.replace(/^www\./, "").replace(/\.$/, "");
  const isBelow = host !== "" && (own === host || own.endsWith(`.${host}`));
  // Compared as its server reads it: `%61` is `a`.
  return isBelow && percentDecode(url.pathname).startsWith(percentDecode(path));
}

/** Whether a page may be shown or fetched by the client's own filters. */
export function isAllowed(address: string, { allowed, blocked }: OfferedTool): boolean {
  const url = URL.parse(address);
  if (!url) return false;
  if (blocked.some((entry) => lies(url, entry))) return false;
  return allowed.length === 0 || allowed.some((entry) => lies(url, entry));
}

/** The filters as the tools take them: hosts. What they say beyond that is applied to the results. */
function domainFilter({ allowed, blocked }: OfferedTool): string[] {
  const hosts = (entries: readonly string[]) => [
    ...new Set(entries.map((entry) => splitDomain(entry).host).filter((host) => host !== "")),
  ];
  if (allowed.length > 0) return hosts(allowed).slice(0, MAX_DOMAINS);
  const whole = blocked.filter((entry) => splitDomain(entry).path === "");
  return hosts(whole)
    .slice(0, MAX_DOMAINS)
    .map((host) => `-${host}`);
}

function readSearch(given: Record<string, unknown>, offered: OfferedTool): Read {
  const query = typeof given["query"] === "string" ? given["query"].trim() : "";
  if (query === "") return { subject: "", fault: "bad_arguments" };
  if (query.length > MAX_QUERY) return { subject: query.slice(0, MAX_QUERY).toWellFormed(), fault: "too_long" };
  const filter = domainFilter(offered);
  return {
    subject: query,
    arguments: {
      query,
      ...(offered.maxResults !== undefined && { max_results: offered.maxResults }),
      ...(filter.length > 0 && { search_domain_filter: filter }),
      ...(offered.country !== undefined && { country: offered.country }),
    },
  };
}

function readFetch(given: Record<string, unknown>, offered: OfferedTool): Read {
  const url = typeof given["url"] === "string" ? given["url"].trim() : "";
  if (url === "") return { subject: "", fault: "bad_arguments" };
  if (url.length > MAX_URL) return { subject: url.slice(0, MAX_URL).toWellFormed(), fault: "too_long" };
  if (!/^https?:\/\//i.test(url) || !isAllowed(url, offered)) return { subject: url, fault: "not_allowed" };
  const { maxContentTokens: most } = offered;
  // Clients of vendors that have no such bound ask for more.
  const room = most !== undefined && { max_content_tokens: Math.min(most, MAX_CONTENT_TOKENS) };
  return { subject: url, arguments: { urls: [url], ...room } };
}

function readArguments({ offered, arguments: text }: ServedCall): Read {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    // Cut off or never JSON: the model is told.
  }
  if (!isObject(given)) return { subject: "", fault: "bad_arguments" };
  return offered.tool === "web_search" ? readSearch(given, offered) : readFetch(given, offered);
}

/** The outcome of a call that was not run, or gave nothing. `message`: what the model reads of it. */
export function faultOf(call: ServedCall, fault: ServedFault, subject = "", message?: string): ServedOutcome {
  return { call, subject, kind: "fault", fault, text: message ?? SENTENCES[fault] };
}

function toOutcome(call: ServedCall, subject: string, answer: WebToolAnswer, now: number): ServedOutcome {
  if (answer.kind === "fault") return faultOf(call, answer.fault, subject, answer.message);
  if (answer.kind === "results") {
    const results = answer.results.filter(({ url }) => isAllowed(url, call.offered));
    return { call, subject, kind: "results", results, text: describeResults(results, answer.notes) };
  }
  const { page } = answer;
  // A redirect may lead out of what the client allows: what is found there is not shown.
  if (!isAllowed(page.url, call.offered)) return faultOf(call, "not_allowed", subject);
  return { call, subject, kind: "page", page, retrievedAt: new Date(now).toISOString(), text: describePage(page) };
}

/**
 * Runs one call of an offered tool for its request's caller. Whatever goes wrong with it is an outcome; throws the signal's reason once the
 * request is aborted.
 */
export async function runCall(call: ServedCall, job: Job): Promise<ServedOutcome> {
  const end = job.exchange.attempts.beginTool(call.offered.tool, call.id);
  const outcome = await run(call, job);
  end?.(outcome.kind === "fault" ? outcome.fault : undefined);
  return outcome;
}

async function run(call: ServedCall, { request, services, abort }: Job): Promise<ServedOutcome> {
  const read = readArguments(call);
  const { runWebTool } = services;
  if ("fault" in read) return faultOf(call, read.fault, read.subject);
  if (!runWebTool) return faultOf(call, "unavailable", read.subject);
  const { caller, requestId } = request;
  const asked: WebToolCall = {
    name: call.offered.tool,
    arguments: read.arguments,
    caller,
    requestId,
    dialect: request.client.name,
    signal: abort.signal,
  };
  try {
    return toOutcome(call, read.subject, await runWebTool(asked), services.clock.now());
  } catch (thrown) {
    abort.throwIfAborted();
    services.log.error("server-tool", { request_id: requestId, tool: asked.name, ...errorFields(thrown) });
    return faultOf(call, "unavailable", read.subject);
  }
}
