/** Who is calling: account, plan and key of an accepted credential. */
export type Caller = {
  accountId: string;
  plan: string;
  keyId: string;
};
