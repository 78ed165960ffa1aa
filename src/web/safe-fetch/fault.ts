/** Why a guarded fetch gave nothing: stable codes for programs, beside a sentence for people. */
export const FETCH_FAULTS = [
  "invalid_url",
  "blocked",
  "unresolved",
  "unreachable",
  "timeout",
  "too_many_redirects",
  "too_large",
] as const;
export type FetchFaultCode = (typeof FETCH_FAULTS)[number];

/**
 * A fetch that was refused or failed. `message` is for the client: it names no address that was looked up, no header and no key.
 * `cause` is for the log.
 */
export class FetchFault extends Error {
  override readonly name = "FetchFault";

  constructor(
    readonly code: FetchFaultCode,
    message: string,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}
