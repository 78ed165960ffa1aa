import { isObject } from "../../../src/lib/json.ts";
import type { Call } from "../../support/upstream.ts";

/** Faults of a request that reached a vendor, in words; none when the vendor would have taken it. */
export type Faults = string[];
export type Value = Record<string, unknown>;

export const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
export const isTextParts = (content: unknown) =>
  Array.isArray(content) && content.length > 0 && content.every((part) => isObject(part) && part["type"] === "text");
export const isBetween = (value: unknown, least: number, most: number) =>
  value === undefined || (typeof value === "number" && value >= least && value <= most);
export const isCount = (value: unknown) => Number.isInteger(value) && (value as number) > 0;
export const isBase64 = (value: unknown) => isText(value) && /^[A-Za-z0-9+/]+={0,2}$/.test(value);
/** A web address, or bytes of one of these types as a data URL. */
export const isAddress = (value: unknown, types: string) =>
  new RegExp(`^(https?://\\S+|data:(${types});base64,[A-Za-z0-9+/]+={0,2})$`).test(String(value));
/** The model whose name says that it reasons. */
export const isThinker = (model: unknown) => String(model).includes("-r1");
/** The text of a call's arguments, if they are a JSON object. */
export const isJsonObject = (text: unknown): boolean => {
  try {
    return isObject(JSON.parse(String(text)));
  } catch {
    return false;
  }
};

/** Collects faults under a path. */
export class Checker {
  readonly faults: Faults = [];

  require(holds: boolean, fault: string): void {
    if (!holds) this.faults.push(fault);
  }

  only(value: Value, allowed: readonly string[], path: string): void {
    for (const key of Object.keys(value))
      this.require(allowed.includes(key), `${path}.${key} is unknown to this dialect`);
  }

  objects(value: unknown, path: string): Value[] {
    if (!Array.isArray(value) || value.length === 0) {
      this.faults.push(`${path} is no list with something in it`);
      return [];
    }
    for (const each of value) this.require(isObject(each), `${path} holds something other than objects`);
    return value.filter(isObject);
  }

  /** Every object of a schema that must be closed says so; its vendor refuses any other (dialects.md 4.8 #32, 4.9). */
  closed(schema: unknown, path: string): void {
    if (!isObject(schema)) {
      this.require(false, `${path} is no schema`);
      return;
    }
    if (schema["type"] === "object")
      this.require(schema["additionalProperties"] === false, `${path} leaves its object open`);
    const properties = isObject(schema["properties"]) ? Object.entries(schema["properties"]) : [];
    for (const [name, inner] of properties) this.closed(inner, `${path}.${name}`);
    if (isObject(schema["items"])) this.closed(schema["items"], `${path}[]`);
  }

  /** Headers that a client's key could leak through: only the vendor's own may carry anything, and only its key. */
  headers(call: Call, own: string, value: string): void {
    this.require(call.method === "POST", `the method is ${call.method}`);
    this.require(String(call.headers["content-type"]).startsWith("application/json"), "the content type is not JSON");
    for (const name of ["authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie", "proxy-authorization"]) {
      this.require(call.headers[name] === (own === name ? value : undefined), `the header ${name} is wrong`);
    }
    for (const [name, sent] of Object.entries(call.headers)) {
      this.require(!sent.includes("sk-sluice-"), `the header ${name} carries the client's key`);
      this.require(!name.startsWith("x-stainless"), `the client's header ${name} went upstream`);
    }
  }
}
