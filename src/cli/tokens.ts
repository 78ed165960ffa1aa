import { DEFAULT_TOKEN_DAYS, type NewToken, toKey } from "../accounts/tokens.ts";
import { DAY_MS } from "../lib/spans.ts";
import { TOKEN_SCOPES } from "../wire/scopes.ts";
import { withBooks } from "./context.ts";
import { readCount, readExpiry, readScopes } from "./key-limits.ts";
import { makeKeyFor, mayBegin, printKeys } from "./keys.ts";
import type { CreateTokenOptions, FolderOptions, JsonOption } from "./options.ts";
import { print, printJson, warn } from "./output.ts";
import { formatTime } from "./table.ts";

function readWish({ expires, scopes, capRequestsDay }: CreateTokenOptions): Omit<NewToken, "name"> {
  const now = Date.now();
  return {
    days: expires === undefined ? DEFAULT_TOKEN_DAYS : (readExpiry(expires, now) - now) / DAY_MS,
    ...(scopes !== undefined && { scopes: readScopes("--scopes", scopes, TOKEN_SCOPES) }),
    ...(capRequestsDay !== undefined && {
      callsPerDay: capRequestsDay === "none" ? null : readCount("--cap-requests-day", capRequestsDay),
    }),
  };
}

/** `sluice tokens create`: makes a narrow token, which is shown this once. `--json` prints {id, token, name, account, expires_at}. */
export async function createToken(options: CreateTokenOptions): Promise<number> {
  const wish = readWish(options);
  return withBooks(
    options,
    async (books) => {
      const name = options.name ?? "token";
      const wanted = toKey({ name, ...wish }, Date.now());
      const { account, key: created } = await makeKeyFor(books, options.account, wanted);
      const { id, key, expiresAt } = created;
      const endsAt = expiresAt ?? 0;
      if (options.json) {
        printJson({ id, token: key, name, account: account.id, expires_at: new Date(endsAt).toISOString() });
      } else {
        print(key);
        warn(`Token ${id} of account ${account.name}, until ${formatTime(endsAt)}. It is not shown again.`);
      }
      return 0;
    },
    { create: mayBegin(options.account), sound: true },
  );
}

/** `sluice tokens list`: all tokens, revoked and expired ones included, oldest first. */
export async function listTokens(options: FolderOptions & JsonOption): Promise<number> {
  return withBooks(options, (books) => {
    printKeys(books.keys.listTokens(), books, options.json);
    return 0;
  });
}
