/** A request to make or change an account or a key that is refused. The message is one plain sentence for the operator. */
export class AccountError extends Error {
  override readonly name: string = "AccountError";

  constructor(
    message: string,
    /** The field that it is about, by its name in the admin API; undefined where it is about no single one. */
    readonly param?: "name" | "expires_at" | "kind",
  ) {
    super(message);
  }
}

/** A request that is wrong in itself, whatever accounts and keys there are: for the command line, wrong usage (contract 1). */
export class BadWish extends AccountError {
  override readonly name = "BadWish";
}
