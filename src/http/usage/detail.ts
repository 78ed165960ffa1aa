import type { Grouping } from "../../ledger/usage-report.ts";
import { UsageList } from "../../wire/usage.ts";
import { errorReplies, jsonReply } from "../openapi-detail.ts";
import { DEFAULT_PAGE, MAX_PAGE } from "../query.ts";
import { FORMATS } from "./query.ts";

/** A query parameter that takes text. */
export const textParameter = (name: string, description: string) => ({
  name,
  in: "query" as const,
  description,
  schema: { type: "string" as const },
});

const wordParameter = (name: string, description: string, words: readonly string[]) => ({
  name,
  in: "query" as const,
  description,
  schema: { type: "string" as const, enum: [...words] },
});

/** The parameters of a list that comes in pages. */
export const PAGE_PARAMETERS = [
  {
    name: "limit",
    in: "query" as const,
    description: "Entries of a page.",
    schema: { type: "integer" as const, minimum: 1, maximum: MAX_PAGE, default: DEFAULT_PAGE },
  },
  textParameter("cursor", "The page's `next_cursor` before this one."),
];

/** The parameters of a usage list, as `detail.parameters`. */
export function usageParameters(groupings: readonly Grouping[]) {
  return [
    textParameter("since", "From this time on: a date (UTC), a date and time, or Unix seconds."),
    textParameter("until", "Before this time."),
    textParameter("model", "Only this model ID."),
    textParameter("key", "Only the key of this id."),
    wordParameter("group_by", "What to put together. Days are UTC days.", groupings),
    wordParameter("format", "All of it as a file.", FORMATS),
    ...PAGE_PARAMETERS,
  ];
}

/** The answers of a usage list, as `detail.responses`. */
export function usageReplies() {
  const reply = jsonReply(UsageList, "A page of requests or groups, or a file.");
  const content = { ...reply.content, "text/csv": { schema: { type: "string" as const } } };
  return { 200: { ...reply, content }, ...errorReplies("chat") };
}
