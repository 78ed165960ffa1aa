/** A wish about accounts or keys that cannot be met, in one plain sentence for the operator. */
export class AccountError extends Error {
  override readonly name: string = "AccountError";

  constructor(
    message: string,
    /** What of the wish it is about, as the admin API calls it; undefined where it is no single thing. */
    readonly param?: "name" | "expires_at" | "kind",
  ) {
    super(message);
  }
}

/** A wish that cannot be meant so, whoever asks and whatever is there already: to the command line wrong usage (contract 1). */
export class BadWish extends AccountError {
  override readonly name = "BadWish";
}
