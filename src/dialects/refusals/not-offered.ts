import { type GatewayError, invalidField } from "../../canon/errors.ts";

/**
 * The error (invalid_request) for a choice of a tool that is not there, which every vendor refuses. `param`: the field that makes it;
 * `isDemand`: it is for any tool, and there is none.
 */
export function notOffered(param = "tool_choice", isDemand = false): GatewayError {
  const fault = isDemand ? "demands a tool, and none is offered" : "names a tool that is not offered";
  return invalidField(param, `${param} ${fault}`);
}
