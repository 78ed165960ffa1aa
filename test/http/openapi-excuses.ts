import type { Excuse } from "./openapi-fuzz.ts";

const GENERATION = /^POST \/v1\/(?:chat|messages|responses|debug)/;
const CHAT = /^POST \/v1\/(?:chat|debug)/;
const IMAGES = /^POST \/v1\/images/;
const ADMIN = /^POST \/admin/;
const LISTS = /^GET /;

/** Refusals of requests that fit the document, where no schema can say what is wrong; each named with what it depends on. */
export const EXCUSES: readonly Excuse[] = [
  { operation: /^POST/, message: /__proto__ is not allowed/, why: "no body may have such a key, at any depth" },
  { operation: GENERATION, message: /x-sluice-strict forbids/, why: "what the model's vendor can be told" },
  { operation: IMAGES, message: /x-sluice-strict forbids/, why: "fields that the document has not" },
  { operation: GENERATION, message: /of a kind that this model's vendor cannot/, why: "what the vendor can be told" },
  { operation: CHAT, message: /^n must be 1 with /, why: "what the model's vendor can be told" },
  { operation: GENERATION, message: /^The vendor refused the request/, why: "the vendor" },
  { operation: GENERATION, message: /^input is required/, why: "whether a prompt is named instead" },
  {
    operation: GENERATION,
    message: /not supported: nothing is stored/,
    why: "the document says that these are refused",
  },
  {
    operation: GENERATION,
    message: /call_id is required: .* or the name of the tool/,
    why: "whether the tool is named instead",
  },
  {
    operation: GENERATION,
    message: /messages\[\d+\]\.content is required/,
    why: "whether the assistant calls tools, or the system turn sets something",
  },
  { operation: CHAT, message: /tool_call_id is required on role tool/, why: "the role" },
  { operation: CHAT, message: /tools\[\d+\]\.(?:function|custom) is required/, why: "the tool's type" },
  { operation: CHAT, message: /tool_calls\[\d+\]\.(?:function|custom) is required/, why: "the call's type" },
  { operation: GENERATION, message: /stands in messages of role/, why: "the message's role" },
  {
    operation: GENERATION,
    message: /^tool_choice (?:demands a tool, and none is|names a tool that is not) offered/,
    why: "the tools beside it",
  },
  {
    operation: GENERATION,
    message: /^(?:temperature|top_p) must be a number (?:of at least 0|from 0 to 1)$/,
    why: "whether the model's vendor speaks the dialect",
  },
  { operation: CHAT, message: /^n must be 1 for this model/, why: "what the model's vendor can do" },
  { operation: IMAGES, message: /^(?:model|prompt) is required/, why: "whether a source job is named instead" },
  { operation: IMAGES, message: /does not take a source image/, why: "the model" },
  { operation: /^POST \/v1\/web/, message: /must have something in it/, why: "blank text of any script" },
  { operation: LISTS, message: /names no model of this list|cannot be used together/, why: "the other parameters" },
  { operation: LISTS, message: /cursor is none that/, why: "the list it was given for" },
  { operation: ADMIN, message: /There already is an account/, why: "the accounts there are" },
  { operation: ADMIN, message: /An admin key calls no model/, why: "the key's kind" },
  { operation: ADMIN, message: /is revoked: it is not changed/, why: "the key" },
  { operation: ADMIN, message: /reference was used for another/, why: "what was booked" },
  {
    operation: ADMIN,
    message: /must be an amount in USD|^A(?:n amount| cap in USD) is /,
    why: "decimals of a binary number",
  },
];
