import type { Tool } from "../../canon/prompt.ts";
import { isObject, listOf, objectsOf, stringOf } from "../../lib/json.ts";
import { integer, object, string } from "../schema/argument-schema.ts";
import { toCalledInput } from "../tools/tool-input.ts";
import { argumentsText, type Item, isCallType, isOutputType } from "./items.ts";
import { namesIn, spokenName } from "./namespaces.ts";

/**
 * A tool that this dialect has given a type, and items of their own kinds for its calls and their answers, but that the client itself runs: another
 * vendor's model can call it as a plain function (OpenAI's API reference, "Create a model response": `tools` and `input`).
 */
type ClientTool = {
  /** Its type in a list of tools, and the name by which it is called as a function: on its own wire it has none. */
  type: string;
  description: string;
  schema: Record<string, unknown>;
  /** The types of the items by which it is called and answered, and how the id of a call begins. */
  call: string;
  output: string;
  idPrefix: string;
  /** What a call's item says with these arguments; with none, how it is announced. */
  write(input: Item): Item;
  /** The arguments that a call's item stands for. */
  read(item: Item): unknown;
  /** What an answer's item tells the model. */
  tell(item: Item): string;
};

const strings = (description: string) => ({ type: "array", items: { type: "string" }, description });
const TIMEOUT = { timeout_ms: integer("How long it may run, milliseconds.") };

/** A shell of the client's, or one in a container of the vendor's. */
export const isHosted = (environment: unknown): boolean =>
  isObject(environment) && stringOf(environment["type"]).startsWith("container");

const numberOrNull = (value: unknown): number | null => (typeof value === "number" ? value : null);

/** A list of texts, for which models write one text as well. */
const textsOf = (value: unknown): string[] =>
  (typeof value === "string" ? [value] : listOf(value)).map((text) =>
    typeof text === "string" ? text : JSON.stringify(text),
  );

/** The words of a command; a command line needs a shell to part them. */
const wordsOf = (command: unknown): string[] =>
  typeof command === "string" ? ["bash", "-lc", command] : textsOf(command);

/** What the vendor shows its model of the skills in a local environment. */
function tellSkills(environment: unknown): string {
  const skills = isObject(environment) ? objectsOf(environment["skills"]) : [];
  const lines = skills.map(
    ({ name, description, path }) => `- ${stringOf(name)} (${stringOf(path)}): ${stringOf(description)}`,
  );
  return lines.length === 0 ? "" : `\n\nSkills, each a folder with instructions in its SKILL.md:\n${lines.join("\n")}`;
}

/** What a model is told of the tools that its search has found: they are offered beside this, by these names. */
function tellFound(item: Item): string {
  const names = namesIn(item["tools"]).map(spokenName);
  return names.length === 0 ? "No tools were found." : `These tools can be called from now on: ${names.join(", ")}`;
}

/** The item that says which tools a search for tools has found: from there on the model may call them. */
export const FOUND_TOOLS = "tool_search_output";

/** The client's own search for tools. */
export const TOOL_SEARCH = "tool_search";

const CLIENT_TOOLS: readonly ClientTool[] = [
  {
    type: TOOL_SEARCH,
    // Both are the client's own.
    description: "",
    schema: object({}, []),
    call: "tool_search_call",
    output: FOUND_TOOLS,
    idPrefix: "tsc",
    write: (input) => ({ execution: "client", arguments: input }),
    read: (item) => item["arguments"],
    tell: tellFound,
  },
  {
    type: "local_shell",
    description: "Runs a command on the user's machine and returns its output.",
    schema: object(
      {
        command: strings("The command and its arguments, one word each."),
        working_directory: string("Folder to run it in."),
        env: {
          type: "object",
          additionalProperties: { type: "string" },
          description: "Environment variables to set for it.",
        },
        user: string("User to run it as."),
        ...TIMEOUT,
      },
      ["command"],
    ),
    call: "local_shell_call",
    output: "local_shell_call_output",
    idPrefix: "lsh",
    write: ({ command, env, ...rest }) => ({
      action: { ...rest, type: "exec", command: wordsOf(command), env: isObject(env) ? env : {} },
    }),
    read: ({ action }) => givenIn(action),
    tell: ({ output }) => stringOf(output),
  },
  {
    type: "shell",
    description: "Runs commands in a shell on the user's machine and returns what each wrote and how it ended.",
    schema: object(
      {
        commands: strings("The command lines to run."),
        max_output_length: integer("How many characters of each one's output are wanted at the most."),
        ...TIMEOUT,
      },
      ["commands"],
    ),
    call: "shell_call",
    output: "shell_call_output",
    idPrefix: "sh",
    write: ({ commands, timeout_ms: timeout, max_output_length: length }) => ({
      action: {
        commands: textsOf(commands),
        timeout_ms: numberOrNull(timeout),
        max_output_length: numberOrNull(length),
      },
      environment: null,
    }),
    read: ({ action }) => givenIn(action),
    tell: ({ output }) => (typeof output === "string" ? output : JSON.stringify(output ?? [])),
  },
  {
    type: "apply_patch",
    description:
      "Creates, updates or deletes one file. The diff of a new file has a + before each of its lines. The diff of an update has one or more hunks: a line" +
      " that begins with @@, perhaps followed by a line of the file that stands above, such as the head of a function; then lines that begin with a space (left as" +
      " they are, three before and after each change), - (removed) or + (added). It has no line numbers and no file names.",
    schema: object(
      {
        type: { type: "string", enum: ["create_file", "update_file", "delete_file"], description: "What to do." },
        path: string("Path of the file."),
        diff: string("What to change, for create_file and update_file."),
      },
      ["type", "path"],
    ),
    call: "apply_patch_call",
    output: "apply_patch_call_output",
    idPrefix: "apc",
    write: ({ type, path, diff }) => ({
      operation: {
        type: stringOf(type) || "update_file",
        path: stringOf(path),
        ...(type !== "delete_file" && { diff: stringOf(diff) }),
      },
    }),
    read: ({ operation }) => operation,
    tell: ({ status, output }) => [stringOf(status), stringOf(output)].filter(Boolean).join(": "),
  },
];

/** What a model has said of an action: not its type, nor what the item has to name as left out. */
function givenIn(action: unknown): unknown {
  if (!isObject(action)) return action;
  return Object.fromEntries(Object.entries(action).filter(([name, value]) => name !== "type" && value !== null));
}

/** Fields of a client's tool that are told elsewhere. */
export const CLIENT_TOOL_FIELDS: ReadonlySet<string> = new Set([
  ...["type", "execution", "description", "parameters", "environment"],
]);

const BY_TYPE = new Map(CLIENT_TOOLS.map((tool) => [tool.type, tool]));
const BY_CALL = new Map<unknown, ClientTool>(CLIENT_TOOLS.map((tool) => [tool.call, tool]));
const BY_OUTPUT = new Map<unknown, ClientTool>(CLIENT_TOOLS.map((tool) => [tool.output, tool]));

/** The function that an entry of a list of tools stands for; undefined for what its vendor runs, and for what is a function already. */
export function clientTool(entry: Item, place: string): Tool | undefined {
  const { type, execution, description, parameters, environment } = entry;
  const known = BY_TYPE.get(stringOf(type));
  if (!known || isHosted(environment) || (type === TOOL_SEARCH && execution !== "client")) return undefined;
  const told = stringOf(description) || known.description + tellSkills(environment);
  const schema = isObject(parameters) ? parameters : known.schema;
  return { name: known.type, ...(told !== "" && { description: told }), schema, place, form: known.type };
}

/** Whether an item that may be another's is the client's: a vendor's own search has no call id, its own shell a container. */
const isClients = ({ execution, environment, ...item }: Item): boolean =>
  execution !== "server" && !isHosted(environment) && callIdIn(item) !== "";

/** The id by which a call is answered: agents leave out that of a local shell's where it is the item's own (openai/codex, `LocalShellCall`). */
export const callIdIn = (item: Item): string =>
  stringOf(item["call_id"]) || (isLocalShell(item["type"]) ? stringOf(item["id"]) : "");

const isLocalShell = (type: unknown): boolean => stringOf(type).startsWith("local_shell_call");

/** The call of a client's tool that an item is, as one of a function. */
export function clientCall(item: Item): { name: string; arguments: string } | undefined {
  const tool = BY_CALL.get(item["type"]);
  return tool && isClients(item) ? { name: tool.type, arguments: argumentsText(tool.read(item)) } : undefined;
}

/** What the item that answers such a call tells the model. */
export function clientAnswer(item: Item): string | undefined {
  const tool = BY_OUTPUT.get(item["type"]);
  return tool && isClients(item) ? tool.tell(item) : undefined;
}

/** Whether an item is a call that its client answers. */
export const isClientCall = (item: Item): boolean =>
  isCallType(item["type"]) || (BY_CALL.has(item["type"]) && isClients(item));

/** Whether an item is the client's answer to a call. */
export const isClientOutput = (item: Item): boolean =>
  isOutputType(item["type"]) || (BY_OUTPUT.has(item["type"]) && isClients(item));

/** The item of a call of the client's tool of this form, as it is announced. */
export function startClientCall(form: string, id: string, callId: string): Item | undefined {
  const tool = BY_TYPE.get(form);
  return (
    tool && {
      id: `${tool.idPrefix}_${id}`,
      type: tool.call,
      status: "in_progress",
      call_id: callId,
      ...tool.write({}),
    }
  );
}

/** The same once its arguments have come; undefined for an item that is no such call. */
export function finishClientCall(item: Item, text: string): Item | undefined {
  const tool = BY_CALL.get(item["type"]);
  return tool && { ...item, status: "completed", ...tool.write(toCalledInput(text)) };
}
