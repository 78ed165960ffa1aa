import { GatewayError } from "../../canon/errors.ts";
import { CountTokensRequest, MessagesRequest } from "../../wire/messages.ts";
import { checker, type Fault } from "../../wire/open.ts";

const checkMessage = checker(MessagesRequest);
const checkCount = checker(CountTokensRequest);

function refuse(fault: Fault | undefined): void {
  if (!fault) return;
  throw new GatewayError("invalid_request", fault.message, fault.param === "" ? {} : { param: fault.param });
}

/** Throws GatewayError (invalid_request, with param) when `body` is no request of `POST /v1/messages` (interface 4.5). Unknown fields pass. */
export function checkRequest(body: unknown): void {
  refuse(checkMessage(body));
}

/** {@link checkRequest} for `POST /v1/messages/count_tokens`: the same body, of which max_tokens may be absent (interface 4.6). */
export function checkCountTokens(body: unknown): void {
  refuse(checkCount(body));
}
