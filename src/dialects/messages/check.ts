import { fieldFault, GatewayError, invalidField } from "../../canon/errors.ts";
import { isObject, listOf } from "../../lib/json.ts";
import { CountTokensRequest, MessagesRequest } from "../../wire/messages.ts";
import { checker, type Fault } from "../../wire/open.ts";
import { checkMedia } from "../media/check.ts";
import { notOffered } from "../refusals/not-offered.ts";
import { refuseOtherArguments, refuseSchemaless } from "../schema/check.ts";
import { offersTools } from "./sound-prompt.ts";
import { definedTools } from "./tool-changes.ts";

const checkMessage = checker(MessagesRequest);
const checkCount = checker(CountTokensRequest);

function refuse(fault: Fault | undefined): void {
  if (fault) throw fieldFault(fault);
}

/**
 * A thread is a conversation that the vendor keeps: later requests hold its newest turn alone, and this gateway stores none (contract 3).
 * The error's details are the vendor's own for a request that cannot be threaded, by which the SDK goes on with the whole conversation.
 */
function refuseThread(body: unknown): void {
  if (!isObject(body) || !isObject(body["thread"])) return;
  const message = "thread is not supported: no conversation is kept here. Send the whole conversation as messages.";
  const details = { error_code: "thread_unsupported_request", unsupported: ["thread"] };
  throw new GatewayError("invalid_request", message, { param: "thread", extra: { details } });
}

const isToolset = ({ type }: Record<string, unknown>): boolean => typeof type === "string" && type.includes("toolset");

/**
 * A choice of a tool that is not there, or of any where there is none, which the vendor refuses. Toolsets and servers that bring tools of
 * their own have no name: then nobody knows here.
 */
function refuseMissingTool(body: unknown): void {
  if (!isObject(body) || !isObject(body["tool_choice"])) return;
  const { type, name } = body["tool_choice"];
  if (type === "any" && !offersTools(body)) throw notOffered("tool_choice", true);
  if (type !== "tool" || listOf(body["mcp_servers"]).length > 0) return;
  const offered = [...listOf(body["tools"]), ...definedTools(body["messages"])];
  const names = offered.map((tool) => (isObject(tool) && !isToolset(tool) ? tool["name"] : undefined));
  if (names.includes(name) || names.some((one) => typeof one !== "string")) return;
  throw notOffered();
}

function checkTools(body: unknown): void {
  const tools = isObject(body) ? listOf(body["tools"]) : [];
  for (let at = 0; at < tools.length; at++) {
    const tool = tools[at];
    if (isObject(tool)) refuseOtherArguments(tool["input_schema"], `tools[${at}].input_schema`);
  }
}

/** The side that alone says each of these blocks (dialects.md 2.2): elsewhere its own vendor refuses it, and another's would never see it. */
const SAYERS: ReadonlyMap<unknown, string> = new Map([
  ["tool_use", "assistant"],
  ["tool_result", "user"],
]);

/** A turn without content, unless it is the system's and sets how the model answers from there on (@anthropic-ai/sdk 1.14, BetaSystemMessageParam). */
function refuseContentless({ role, content, output_config: config }: Record<string, unknown>, at: number): void {
  if (content !== undefined || (role === "system" && isObject(config))) return;
  const param = `messages[${at}].content`;
  throw invalidField(param, `${param} is required: a string or an array of content blocks`);
}

function refuseMisplaced(body: unknown): void {
  const messages = listOf(isObject(body) ? body["messages"] : undefined);
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at] as Record<string, unknown>;
    refuseContentless(message, at);
    const { role, content } = message;
    if (!Array.isArray(content)) continue;
    for (let index = 0; index < content.length; index++) {
      const { type } = content[index] as Record<string, unknown>;
      const sayer = SAYERS.get(type);
      if (sayer === undefined || sayer === role) continue;
      const param = `messages[${at}].content[${index}]`;
      const message = `${param} is a ${String(type)} block, which stands in messages of role ${sayer} alone`;
      throw invalidField(param, message);
    }
  }
}

/** What both of its endpoints refuse of a body whose fields are of the right types. */
function refuseUnsound(body: unknown): void {
  refuseThread(body);
  refuseMisplaced(body);
  const config = isObject(body) ? body["output_config"] : undefined;
  if (isObject(config)) refuseSchemaless(config["format"], "output_config.format");
  checkTools(body);
  checkMedia(body);
}

/** Throws GatewayError (invalid_request, with param) when `body` is no request of `POST /v1/messages` (interface 4.5). Unknown fields pass. */
export function checkRequest(body: unknown): void {
  refuse(checkMessage(body));
  refuseUnsound(body);
  refuseMissingTool(body);
}

/** {@link checkRequest} for `POST /v1/messages/count_tokens`: the same body, of which max_tokens may be absent (interface 4.6). */
export function checkCountTokens(body: unknown): void {
  refuse(checkCount(body));
  refuseUnsound(body);
}
