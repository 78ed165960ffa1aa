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

/** What a narrow token can be for (contract 4). */
export const TOKEN_SCOPES = ["web", "images:read"] as const satisfies readonly Scope[];
export type TokenScope = (typeof TOKEN_SCOPES)[number];
