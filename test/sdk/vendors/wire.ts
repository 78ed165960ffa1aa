import { isObject } from "../../../src/lib/json.ts";
import type { Call } from "../../support/upstream.ts";
import type { Reply } from "../replies.ts";
import type { Faults } from "./checker.ts";

/** What can go wrong at a vendor before it answers; each says it in its own words. */
export type VendorFault = "refused" | "key" | "limit" | "fault" | "overloaded";

/** One wire protocol as its own vendor speaks it: written by hand after dialects.md, knowing nothing of the gateway's code. */
export type VendorWire = {
  /** Path of a generation, below the vendor's address, without its query. */
  path(model: string, stream: boolean): string;
  /** What the configuration calls the vendor's base URL. */
  base(url: string): string;
  /** The header that carries the key, as the configuration calls it. */
  auth: "bearer" | "x-api-key" | "x-goog-api-key";
  /** What is wrong with a call, were it sent to the real vendor. */
  check(call: Call, apiKey: string): Faults;
  /** Whether the call asks for a stream, and the vendor's own name of the model. */
  asks(call: Call): { stream: boolean; model: string };
  /** The records of a stream. */
  records(reply: Reply, model: string): string[];
  /** The whole reply. */
  whole(reply: Reply, model: string): unknown;
  error(fault: VendorFault, message: string): { status: number; body: unknown };
  /** The record of an overloaded vendor in the middle of a stream. */
  brokenRecord: string;
};

/** {@link VendorWire.asks} of the dialects that say both in the body. */
export const asksByBody: VendorWire["asks"] = ({ json }) => ({
  stream: isObject(json) && json["stream"] === true,
  model: isObject(json) ? String(json["model"]) : "",
});
