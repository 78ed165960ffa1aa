/** A wish about accounts or keys that cannot be met, in one plain sentence for the operator. */
export class AccountError extends Error {
  override readonly name = "AccountError";

  constructor(
    message: string,
    /** What of the wish it is about, as the admin API calls it; undefined where it is no single thing. */
    readonly param?: "name" | "expires_at" | "kind",
  ) {
    super(message);
  }
}
