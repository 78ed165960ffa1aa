import type { Scope } from "../wire/scopes.ts";

/** What a key may do, where that is less than its account may. */
export type Narrowing = {
  /** Patterns of the models it may call: `openai/gpt-5`, `openai/*`. Absent: every model. */
  models?: readonly string[];
  /** What it may be used for. Absent: everything but administering. */
  endpoints?: readonly Scope[];
  /** It has caps of its own, which `Keys.capsOf` returns. */
  capped?: true;
};

/** Who is calling: account, plan and key of an accepted credential. */
export type Caller = {
  accountId: string;
  plan: string;
  keyId: string;
  /** Absent for a key that may do whatever its account may: then nothing has to be checked. */
  narrow?: Narrowing;
};
