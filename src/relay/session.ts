import type { Fields } from "../lib/http1/fields.ts";
import { isObject } from "../lib/json.ts";
import type { Job } from "./job.ts";

/** A session as its client named it, and the field of its body that says it, where one does. */
type Named = { name: string; field?: string };

/**
 * Fields that hold nothing but a session: OpenAI's, and OpenRouter's (openrouter.ai, "Prompt Caching"). What names a user is none: all that one does
 * would be sent to one server.
 */
const FIELDS = ["prompt_cache_key", "session_id"];
/** Headers in which agents name theirs: Claude Code, Codex, OpenCode (anomalyco/opencode #31511), pi and Crush (charmbracelet/crush #3277). */
const HEADERS =
  "x-claude-code-session-id session-id session_id x-session-affinity x-session-id x-opencode-session".split(" ");
/** Where Claude Code names its own inside `metadata.user_id`: JSON since 2.1.78, and before that `user_…_session_…` (ding113/claude-code-hub #939). */
const IN_USER_ID = /(?:_session_|"session_id"\s*:\s*")([\w-]+)/;

/** Hexadecimal digits of a key: OpenAI takes 64 characters at most. */
const KEY_LENGTH = 32;

const textOf = (value: unknown): string | undefined =>
  typeof value === "string" && value.trim() !== "" ? value : undefined;

function sessionOfUser(metadata: unknown): string | undefined {
  const id = isObject(metadata) ? metadata["user_id"] : undefined;
  return typeof id === "string" ? IN_USER_ID.exec(id)?.[1] : undefined;
}

/** The session that a request names, in whatever dialect; undefined where it names none. */
export function sessionOf(body: Record<string, unknown>, headers: Fields): Named | undefined {
  for (const field of FIELDS) {
    const name = textOf(body[field]);
    if (name !== undefined) return { name, field };
  }
  for (const header of HEADERS) {
    const name = textOf(headers.get(header));
    if (name !== undefined) return { name };
  }
  const name = sessionOfUser(body["metadata"]);
  return name === undefined ? undefined : { name };
}

/**
 * The key by which a vendor is to bring the requests of a session to where its cache is, and the field of the client's that it stands for; undefined where
 * the client names no session. It is always the same for a session of an account, in every dialect and along every way, and says nothing of either: what
 * clients call their sessions holds names of users and accounts.
 */
export function sessionKey({
  request,
  body,
}: Pick<Job, "request" | "body">): { key: string; field?: string } | undefined {
  const named = isObject(body.value) ? sessionOf(body.value, request.headers) : undefined;
  if (!named) return undefined;
  const { name, field } = named;
  const hash = new Bun.CryptoHasher("sha256").update(`${request.caller.accountId}\n${name}`).digest("hex");
  return { key: hash.slice(0, KEY_LENGTH), ...(field !== undefined && { field }) };
}
