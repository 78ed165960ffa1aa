import { INVISIBLE } from "../lib/invisible.ts";
import { withFormsOf } from "../observe/secret-forms.ts";

/** Longest excerpt of an upstream's own words that a client may see (contract 6). */
const MAX_EXCERPT = 300;

/**
 * Keys, tokens, URLs, addresses, people and machine paths: replaced, whatever vendor wrote them. A JSON pointer (`#/a/b`, and Cloudflare's
 * `/messages/0/content`) is no path, nor are the dialects' own (`/v1/responses`), and the field `user_location` of web searches is nobody.
 */
const SECRETS: readonly RegExp[] = [
  /\b(?:sk|pk|rk|gsk|xai|csk|fw|nvapi|pplx|tgp|hf|r8|key|AIza|slt|gh[opusr]|github_pat|glpat|xox[abeprs])[-_][A-Za-z0-9_*.-]{6,}/g,
  /\bAIza[A-Za-z0-9_-]{10,}|\bya29\.[\w.-]{6,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b/g,
  /\beyJ[\w-]{6,}\.[\w-]+(?:\.[\w-]*)?/g,
  /\b(?:(?:Bearer|Basic)\s+)+[^\s"',]{4,}/gi,
  /\b(?:org|proj|user|acct|account)[-_](?!location\b)[A-Za-z0-9]{8,}/g,
  /\b(?:team|project|organi[sz]ation|account|key)(?: id)?: ?[0-9a-f]{8}-[0-9a-f-]{27}/gi,
  /\b[a-z][a-z\d+.-]{1,15}:\/\/[^\s"'<>)]+/gi,
  /\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g,
  /\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g,
  /\[[\da-f.]*:[\da-f.]*:[\da-f:.]*(?:%\w+)?\](?::\d+)?|(?<!\w|::)(?:[\da-f]{1,4}(?::[\da-f]{1,4})*)?::[\da-f]{1,4}(?::[\da-f]{1,4})*(?![\w:])/gi,
  /(?<![\w.\])}#-])(?!\/(?:(?:messages|tools)\/\d|(?:tool_choice|response_format)\/|v1\/(?:responses|chat\/completions)(?![\w/-])))(?:\/[\w.@-]+){2,}|[A-Za-z]:\\[^\s"']+|\\\\[\w.-]+\\[^\s"']+/g,
];

/** Shorter keys are words: taking them out would blank what a vendor says. */
const MIN_HIDDEN = 6;
/** The keys of this gateway's vendors, in all their forms. There are as many as the configuration has ever named. */
let hidden: readonly string[] = [];

/**
 * From now on no upstream's words are shown with this in them, as it is or as it was encoded on its way: keys that look like no other, such as
 * those of one's own servers.
 */
export function hideFromExcerpts(secret: string): void {
  if (secret.length >= MIN_HIDDEN) hidden = withFormsOf(secret, hidden);
}

/** An upstream's own words made safe to show: one line of whole characters, no secrets, at most 300 characters. */
export function scrub(text: string): string {
  let clean = text.replace(INVISIBLE, " ");
  for (const secret of hidden) clean = clean.replaceAll(secret, "[removed]");
  clean = clean.slice(0, 4 * MAX_EXCERPT);
  for (const pattern of SECRETS) clean = clean.replace(pattern, "[removed]");
  clean = clean.trim();
  // A cut may fall inside a character, and strict clients refuse JSON with half of one.
  return (clean.length > MAX_EXCERPT ? `${clean.slice(0, MAX_EXCERPT - 1)}…` : clean).toWellFormed();
}
