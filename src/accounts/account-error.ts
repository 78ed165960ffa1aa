/** A wish about accounts or keys that cannot be met, in one plain sentence for the operator. */
export class AccountError extends Error {
  override readonly name = "AccountError";
}
