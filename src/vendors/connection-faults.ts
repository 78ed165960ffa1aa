import { GatewayError } from "../canon/errors.ts";
import { errorCode } from "../lib/error-code.ts";
import { hasNoFileLeft } from "../lib/open-files.ts";
import { ConnectFailed, ConnectionLost, NoFileLeft } from "./http/faults.ts";

/** Codes of a connection that never came about: nothing of the request was read. Any other failure counts as one that may have run. */
const NEVER_CONNECTED =
  /^(?:ECONNREFUSED|ConnectionRefused|ENOTFOUND|EAI_\w+|EHOSTUNREACH|ENETUNREACH|ENETDOWN|EADDRNOTAVAIL|FailedToOpenSocket|ERR_INVALID_URL|\w*CERT\w*|UNABLE_TO_\w+|HOSTNAME_MISMATCH|INVALID_CA|\w*PROXY\w*)$/;
/** Codes of Bun's client for TLS that was never agreed upon, and for TLS that broke while a request was at work: they are the same. */
const TLS_BROKE = /^(?:EPROTO|ERR_(?:TLS|SSL)_\w+)$/;

/** A GET runs nothing at the vendor, so that one whose TLS broke counts like a connection that never came about. */
export const asUnsent = (thrown: unknown): unknown =>
  TLS_BROKE.test(errorCode(thrown)) ? new ConnectFailed(errorCode(thrown), { cause: thrown }) : thrown;

/**
 * What it means for a request that its connection failed with this: `upstream_unreachable` where none came about, `upstream_overloaded` where this process may
 * open no further file, else `upstream_error` without retry, as the vendor may have run it.
 */
export function connectionError(thrown: unknown): GatewayError {
  if (thrown instanceof ConnectFailed || NEVER_CONNECTED.test(errorCode(thrown))) {
    if (hasNoFileLeft()) return noFileLeft(thrown);
    return new GatewayError("upstream_unreachable", "The vendor cannot be reached from this gateway.", {
      cause: thrown,
    });
  }
  return lost(thrown, "The vendor closed the connection before it answered.");
}

function noFileLeft(thrown: unknown): GatewayError {
  const message = "The gateway has as many connections open as its system lets it. Try again in a moment.";
  const cause = new NoFileLeft({ cause: thrown });
  return new GatewayError("upstream_overloaded", message, { retryAfterSeconds: 1, cause });
}

/** The error for a connection that broke, with this sentence: it is not known what the vendor has done, so the request is not tried again. */
function lost(thrown: unknown, sentence: string): GatewayError {
  const { message = String(thrown) } = thrown as { message?: string };
  const cause = thrown instanceof ConnectionLost ? thrown : new ConnectionLost(message, { cause: thrown });
  return new GatewayError("upstream_error", sentence, { retry: false, cause });
}

/** Whether the connection broke, or the body could not be unpacked: such errors have a code that is a word. What aborted the call has none. */
export const isBrokenConnection = (thrown: unknown) =>
  thrown instanceof ConnectionLost || (!(thrown instanceof GatewayError) && errorCode(thrown) !== "");

/** What reading a body threw: a GatewayError (upstream_error) in its place where the connection broke, else itself. For code that reads a body by itself. */
export const toBrokenBody = (thrown: unknown): unknown =>
  isBrokenConnection(thrown) ? lost(thrown, "The vendor's answer broke off before its end.") : thrown;
