import { type GatewayError, toGatewayError } from "../../canon/errors.ts";
import { WEB_FRAME } from "../../canon/web-tools.ts";
import { isObject } from "../../lib/json.ts";
import { errorFields, type Log } from "../../observe/log.ts";
import { FetchArguments, SearchArguments } from "../../wire/web.ts";
import type { WebCall } from "../tools/meter.ts";
import { describePage, writePage, writeResults } from "../tools/text.ts";
import { isFault, readFetchArguments, readSearchArguments, type WebTools } from "../tools/tools.ts";
import { InvalidParams } from "./message.ts";

/** The key of a result's `_meta` that holds the state of the allowance: beside the text, so that it takes no room in a model's context (web-and-mcp.md F). */
const USAGE = "sluice/usage";
/** The key of `_meta` that holds facts of each page, for programs. */
const PAGES = "sluice/pages";

/** Both tools only read, and from the open web. */
const hints = (title: string) => ({
  ...{ title, readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true },
});

/** The tools in the form of `tools/list`, in fixed order (interface 2.7, web-and-mcp.md A3). */
export const TOOLS = [
  {
    name: "web_search",
    title: "Web search",
    description:
      "Searches the web. Returns ranked results with title, URL, snippet, source and publication date. Use web_fetch to read a result in full.",
    get inputSchema() {
      return SearchArguments();
    },
    annotations: hints("Web search"),
  },
  {
    name: "web_fetch",
    title: "Read web pages",
    description:
      "Reads up to 10 web pages and returns each in full as Markdown. PDF files, feeds, JSON and plain text are read too. Every page counts as one call.",
    get inputSchema() {
      return FetchArguments();
    },
    annotations: hints("Read web pages"),
  },
] as const;

export type ToolName = (typeof TOOLS)[number]["name"];

type TextBlock = { type: "text"; text: string };

/**
 * The result of `tools/call`. Where `structuredContent` is there, Claude Code, Codex and VS Code show it to their model and nothing of `content`: it must hold
 * all that the text says, or be absent. `isError`: the tool failed, or could not be run; nothing was charged. */
export type ToolResult = {
  content: TextBlock[];
  structuredContent?: Record<string, unknown>;
  isError: boolean;
  _meta?: Record<string, unknown>;
};

const text = (written: string): TextBlock => ({ type: "text", text: written.toWellFormed() });

type Runner = (args: unknown, tools: WebTools, call: WebCall) => Promise<ToolResult>;

const search: Runner = async (args, tools, call) => {
  const query = readSearchArguments(args);
  if (isFault(query)) throw new InvalidParams(query.message);
  const value = await tools.search(query, call);
  const { results, notes, cached } = value;
  const said = { query: value.query, notice: WEB_FRAME, ...(notes.length > 0 && { notes }) };
  const structuredContent = { ...said, results, cached };
  return { content: [text(writeResults(value))], structuredContent, isError: false };
};

const fetch: Runner = async (args, tools, call) => {
  const asked = readFetchArguments(args);
  if (isFault(asked)) throw new InvalidParams(asked.message);
  const pages = await tools.fetch(asked.urls, asked.max_content_tokens, call);
  return {
    content: pages.map((page, at) => text(writePage(page, at, pages.length))),
    _meta: { [PAGES]: pages.map(describePage) },
    // If some pages could be read it is a result; if none, a failure (web-and-mcp.md A3).
    isError: pages.every(({ status }) => status === "error"),
  };
};

const RUNNERS: ReadonlyMap<string, Runner> = new Map<ToolName, Runner>([
  ["web_search", search],
  ["web_fetch", fetch],
]);

/** A refusal or a failure as a result with `isError` (interface 7). */
function failed(error: GatewayError): ToolResult {
  const { reset_at } = error.extra;
  const structured = {
    error: { code: error.code, message: error.message, ...(reset_at !== undefined && { reset_at }) },
  };
  return { content: [text(error.message)], structuredContent: structured, isError: true };
}

/**
 * Runs a tool. Throws InvalidParams for an unknown tool and for arguments that are not valid; whatever goes wrong afterwards is a
 * result with `isError` (interface 4.9, 7). Throws the signal's reason once that is aborted.
 */
export async function callTool(
  name: string,
  args: unknown,
  { tools, log }: { tools: WebTools; log: Log },
  call: WebCall,
): Promise<ToolResult> {
  const run = RUNNERS.get(name);
  if (!run) throw new InvalidParams(`There is no tool ${JSON.stringify(name.slice(0, 100))} here.`);
  if (!isObject(args)) throw new InvalidParams("arguments must be an object.");
  let result: ToolResult;
  try {
    result = await run(args, tools, call);
  } catch (thrown) {
    call.signal.throwIfAborted();
    if (thrown instanceof InvalidParams) throw thrown;
    const error = toGatewayError(thrown);
    if (error.code === "internal_error") log.error("web-tool", { request: call.requestId, ...errorFields(thrown) });
    result = failed(error);
  }
  return { ...result, _meta: { ...result._meta, [USAGE]: tools.usage(call.caller) } };
}
