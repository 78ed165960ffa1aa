/** What a key can be narrowed to. `images:read` is a part of `images`: looking at jobs and their files, never making one. */
export const SCOPES = [
  "chat",
  "messages",
  "responses",
  "images",
  "images:read",
  "web",
  "account",
  "translate",
  "models",
] as const;
export type Scope = (typeof SCOPES)[number];

/** What a key may do, where that is less than its account may. */
export type Narrowing = {
  /** Patterns of the models it may call: `openai/gpt-5`, `openai/*`. Absent: every model. */
  models?: readonly string[];
  /** What it may be used for. Absent: everything but administering. */
  endpoints?: readonly Scope[];
  /** It has caps of its own: `Keys.capsOf` knows them. */
  capped?: true;
};

/** Who is calling: account, plan and key of an accepted credential. */
export type Caller = {
  accountId: string;
  plan: string;
  keyId: string;
  /** Absent for a key that may do whatever its account may: then nothing has to be asked. */
  narrow?: Narrowing;
};
