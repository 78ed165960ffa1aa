import { GatewayError } from "../canon/errors.ts";

/** The error (invalid_request) for a choice of a tool that is not there, which every vendor refuses; `param`: the field that makes it. */
export function notOffered(param = "tool_choice"): GatewayError {
  return new GatewayError("invalid_request", `${param} names a tool that is not offered`, { param });
}
