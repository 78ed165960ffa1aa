import { fieldFault, GatewayError, invalidField } from "../../canon/errors.ts";
import { isEmptyList, isObject, listOf, stringOf } from "../../lib/json.ts";
import { checker } from "../../wire/open.ts";
import { ResponsesRequest } from "../../wire/responses.ts";
import { checkMedia } from "../media/check.ts";
import { notOffered } from "../refusals/not-offered.ts";
import { refuseOtherArguments, refuseSchemaless } from "../schema/check.ts";
import { isUncalledOutput } from "./items.ts";

const checkBody = checker(ResponsesRequest);

/** Fields that ask for something kept from an earlier request, or kept for a later one. */
function refuseStored(body: Record<string, unknown>): void {
  const remedy = "nothing is stored here. Send the whole conversation as input.";
  if (body["previous_response_id"] != null) {
    const param = "previous_response_id";
    throw new GatewayError("previous_response_not_found", `Previous response not found: ${remedy}`, { param });
  }
  if (body["conversation"] != null) throw invalidField("conversation", `conversation is not supported: ${remedy}`);
  if (body["background"] === true) {
    throw invalidField("background", "background is not supported: nothing is stored here.");
  }
  const input = listOf(body["input"]);
  for (let at = 0; at < input.length; at++) {
    const item = input[at];
    if (!isObject(item) || item["type"] !== "item_reference") continue;
    const instead = "Send the item itself: SDKs do that when they are told `store: false`.";
    throw invalidField(`input[${at}]`, `An item_reference is not supported: nothing is stored here. ${instead}`);
  }
}

/** Which call an output answers, or else of which tool it is. */
function checkOutputs(input: readonly unknown[]): void {
  for (let at = 0; at < input.length; at++) {
    const item = input[at];
    if (!isObject(item) || !isUncalledOutput(item) || stringOf(item["name"]) !== "") continue;
    const param = `input[${at}].call_id`;
    const words = "is required: the call_id of the function_call it answers, or the name of the tool";
    throw invalidField(param, `${param} ${words}`);
  }
}

/** Kinds of tools that have a name, by which they are chosen. */
const NAMED: ReadonlySet<unknown> = new Set(["function", "custom"]);

function checkTools(tools: readonly unknown[]): void {
  for (let at = 0; at < tools.length; at++) {
    const tool = tools[at];
    if (!isObject(tool) || !NAMED.has(tool["type"])) continue;
    const { name, parameters } = tool;
    if (typeof name !== "string" || name === "") {
      throw invalidField(`tools[${at}].name`, `tools[${at}].name is required: a string that is not empty`);
    }
    refuseOtherArguments(parameters, `tools[${at}].parameters`);
  }
}

/** Tools that are not in the list by their names: those of a namespace, those to be searched for, and what items of the input bring (openai/codex). */
function bringsOthers({ tools, input }: Record<string, unknown>): boolean {
  const isBringer = (tool: unknown) =>
    isObject(tool) && (tool["type"] === "namespace" || tool["type"] === "tool_search");
  return listOf(tools).some(isBringer) || listOf(input).some((item) => isObject(item) && Array.isArray(item["tools"]));
}

/** A choice of a tool that is not there, or of any where there is none, which the vendor refuses; a stored prompt may bring tools along. */
function refuseMissingTool(body: Record<string, unknown>): void {
  const choice = body["tool_choice"];
  if (choice == null || body["prompt"] != null || bringsOthers(body)) return;
  if (choice === "required" && listOf(body["tools"]).length === 0) throw notOffered("tool_choice", true);
  if (!isObject(choice) || !NAMED.has(choice["type"])) return;
  const { type, name } = choice;
  const tools = listOf(body["tools"]);
  if (!tools.some((tool) => isObject(tool) && tool["type"] === type && tool["name"] === name)) throw notOffered();
}

/**
 * Throws GatewayError (invalid_request, with param) when `body` is no request of `POST /v1/responses`, and when it builds on stored
 * state: the service is stateless (contract 3). Unknown fields pass.
 */
export function checkRequest(body: unknown): void {
  refuse(body);
  if (!isObject(body)) return;
  const { input, prompt } = body;
  if (prompt == null && (input == null || isEmptyList(input))) {
    throw invalidField("input", "input is required: a string or a list of at least one item");
  }
}

/** {@link checkRequest} for `POST /v1/responses/input_tokens`: the same body, of which the input may be absent (OpenAI, "Get input token counts"). */
export function checkCountInput(body: unknown): void {
  refuse(body);
}

/** What both of its endpoints refuse. */
function refuse(body: unknown): void {
  const fault = checkBody(body);
  if (fault) throw fieldFault(fault);
  if (!isObject(body)) return;
  refuseStored(body);
  checkOutputs(listOf(body["input"]));
  checkTools(listOf(body["tools"]));
  refuseMissingTool(body);
  const { text } = body;
  if (isObject(text)) refuseSchemaless(text["format"], "text.format");
  checkMedia(body);
}
