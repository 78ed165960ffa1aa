import { isObject } from "../../lib/json.ts";

// What the gateway says in a conversation itself: for somebody who did not speak, or to a model whose vendor cannot be told otherwise.

/** Stands where the user must speak and did not: at the beginning of a conversation (dialects.md 4.3), and behind a turn that may not be the last. */
export const CONTINUE_TEXT = "(continue)";

/** Stands for a conversation, or a user's turn, that says nothing, which every vendor refuses (dialects.md 4.8 #4). */
export const EMPTY_TEXT = "(empty)";

/** Stands in OpenAI's two dialects for the result of a call that nobody gave: without one the whole request is refused (dialects.md 1.2, 4.3). */
export const NO_RESULT = "(no result)";
/** And in the others, as an error. */
export const NO_RESULT_TEXT = "No result was given for this tool call.";

/** Stands before a result that no call can take, so that the user says it (dialects.md 4.3). */
export const strayHead = (callId: string): string => `Result of tool call ${callId}:`;

/** Tells a model that may not be forced to call a tool to call this one, or any (dialects.md 4.8 #50). */
export const callHint = (name?: unknown): string =>
  `Answer this time by calling ${typeof name === "string" ? `the tool ${name}` : "one of the tools"}.`;

/** Stands in for a JSON mode where there is none (dialects.md 4.1). */
export const JSON_INSTRUCTION = "Answer with one JSON object and nothing else: no other text, no code fence.";

const REMINDER = "system-reminder";

/** The system's words where only the user can say them, as Claude Code marks them there and tells its models of the mark. Those that are marked stay. */
export const asReminder = (text: string): string =>
  text.startsWith(`<${REMINDER}>`) ? text : `<${REMINDER}>\n${text}\n</${REMINDER}>`;

/** {@link asReminder} of a part of what the system says, as the chat and the messages dialect write it; any other part as it is. */
export const asReminderPart = (part: unknown): unknown =>
  isObject(part) && typeof part["text"] === "string" ? { ...part, text: asReminder(part["text"]) } : part;
