import type { Quirks } from "../../dialects/dialect.ts";
import type { Fields } from "../../lib/http1/fields.ts";
import { isObject } from "../../lib/json.ts";
import type { Job } from "../job.ts";

/** A session as its client named it, and the field of its body that says it, where one does. */
type Named = { name: string; field?: string };

/**
 * Fields that hold nothing but a session: OpenAI's, and OpenRouter's (openrouter.ai, "Prompt Caching"). What names a user is none: all that one does
 * would be sent to one server.
 */
const FIELDS = ["prompt_cache_key", "session_id"];
/** Headers in which agents name theirs: Claude Code, Codex, OpenCode (anomalyco/opencode #31511), pi and Crush (charmbracelet/crush #3277). */
export const SESSION_HEADERS: readonly string[] =
  "x-claude-code-session-id session-id session_id x-session-affinity x-session-id x-opencode-session".split(" ");
/** Where Claude Code names its own inside `metadata.user_id`: JSON since 2.1.78, and before that `user_…_session_…` (ding113/claude-code-hub #939). */
const IN_USER_ID = /(?:_session_|"session_id"\s*:\s*")([\w-]+)/;

/** Hexadecimal digits of a key: OpenAI takes 64 characters at most. */
const KEY_LENGTH = 32;

/** How much of a conversation's head names it, characters: enough to tell two apart, and no more to hash. */
const HEAD_CHARACTERS = 2_048;
/** And of the name of who talks. */
const WHO_CHARACTERS = 512;

const textOf = (value: unknown): string | undefined =>
  typeof value === "string" && value.trim() !== "" ? value : undefined;

function sessionOfUser(metadata: unknown): string | undefined {
  const id = isObject(metadata) ? metadata["user_id"] : undefined;
  return typeof id === "string" ? IN_USER_ID.exec(id)?.[1] : undefined;
}

/** The session that a request names, in whatever dialect; undefined where it names none. */
function sessionOf(body: Record<string, unknown>, headers: Fields): Named | undefined {
  for (const field of FIELDS) {
    const name = textOf(body[field]);
    if (name !== undefined) return { name, field };
  }
  for (const header of SESSION_HEADERS) {
    const name = textOf(headers.get(header));
    if (name !== undefined) return { name };
  }
  const name = sessionOfUser(body["metadata"]);
  return name === undefined ? undefined : { name };
}

/**
 * The name of a conversation: the account, and the session that its client names. Without that: who talks, and the first thing that is said, which every
 * later turn begins with too. Both are needed: an agent's first words are often its project's instructions, alike in every session. Only text counts,
 * since marks such as cache breakpoints move from turn to turn. `body`: a request of any client dialect.
 */
export function nameConversation(accountId: string, body: unknown, headers: Fields): string {
  if (!isObject(body)) return `${accountId}\n`;
  const session = sessionOf(body, headers);
  if (session) return `${accountId}\n\n${session.name.slice(0, HEAD_CHARACTERS)}`;
  const { user, metadata, messages, input } = body;
  const id = (isObject(metadata) ? metadata["user_id"] : undefined) ?? user;
  const who = typeof id === "string" ? id.slice(0, WHO_CHARACTERS) : "";
  return `${accountId}\n${who}\n${firstWords(messages ?? input).slice(0, HEAD_CHARACTERS)}`;
}

function firstWords(turns: unknown): string {
  if (typeof turns === "string") return turns;
  const list: unknown[] = Array.isArray(turns) ? turns : [];
  const first = list.find((turn) => isObject(turn) && turn["role"] === "user");
  return isObject(first) ? wordsOf(first["content"]) : "";
}

function wordsOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  let text = "";
  for (const part of content) {
    if (isObject(part) && typeof part["text"] === "string") text += part["text"];
    if (text.length >= HEAD_CHARACTERS) break;
  }
  return text;
}

/**
 * The key by which a vendor is to bring the requests of a session to where its cache is, and the field of the client's that it stands for; undefined where
 * the vendor knows no such thing or the client names no session, and the vendor (`quirks`) does without. It is always the same for a session of an account,
 * in every dialect and along every way, and says nothing of either: what clients call their sessions holds names of users and accounts.
 */
export function sessionKey(
  { request, body }: Pick<Job, "request" | "body">,
  { sessionHeader, sessionField, needsSession }: Quirks,
): { key: string; field?: string } | undefined {
  if (!sessionHeader && !sessionField) return undefined;
  const { accountId } = request.caller;
  const named = isObject(body.value) ? sessionOf(body.value, request.headers) : undefined;
  if (!named) {
    return needsSession ? { key: keyOf(nameConversation(accountId, body.value, request.headers)) } : undefined;
  }
  const { name, field } = named;
  return { key: keyOf(`${accountId}\n${name}`), ...(field !== undefined && { field }) };
}

const keyOf = (name: string): string => new Bun.CryptoHasher("sha256").update(name).digest("hex").slice(0, KEY_LENGTH);
