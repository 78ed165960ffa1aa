import type { Tool } from "../../canon/prompt.ts";
import { integer, object, string } from "../schema/argument-schema.ts";

/**
 * Tools that a vendor has given a type but that the client itself runs: their schemas are fixed and known, so another vendor's model
 * can call them as plain functions (dialects.md 2.3).
 */
type ClientTool = { pattern: RegExp; name: string; description: string; schema: Record<string, unknown> };

const pair = (description: string) => ({
  type: "array",
  items: { type: "integer" },
  minItems: 2,
  maxItems: 2,
  description,
});

const EDITING = {
  path: string("Absolute path of the file or folder."),
  file_text: string("Content of the new file, for create."),
  old_str: string("Text to replace, for str_replace; it must occur exactly once."),
  new_str: string("Text to put in its place, for str_replace."),
  insert_line: integer("Line after which to insert, for insert; 0 is the start."),
  insert_text: string("Text to insert, for insert."),
  view_range: pair("First and last line to show, for view; -1 as last is the end."),
};

const CLIENT_TOOLS: readonly ClientTool[] = [
  {
    pattern: /^bash_\d/,
    name: "bash",
    description: "Runs a command in a persistent bash session and returns its output.",
    schema: object(
      {
        command: string("The command to run."),
        restart: { type: "boolean", description: "true restarts the session." },
      },
      [],
    ),
  },
  {
    pattern: /^text_editor_\d/,
    name: "str_replace_based_edit_tool",
    description: "Views, creates and edits text files.",
    schema: object(
      {
        command: { type: "string", enum: ["view", "create", "str_replace", "insert"], description: "What to do." },
        ...EDITING,
      },
      ["command", "path"],
    ),
  },
  {
    pattern: /^memory_\d/,
    name: "memory",
    description: "Stores and reads notes in files below /memories that outlive the conversation.",
    schema: object(
      {
        command: {
          type: "string",
          enum: ["view", "create", "str_replace", "insert", "delete", "rename"],
          description: "What to do.",
        },
        ...EDITING,
        old_path: string("Present path, for rename."),
        new_path: string("New path, for rename."),
      },
      ["command"],
    ),
  },
  {
    pattern: /^computer_\d/,
    name: "computer",
    description: "Operates a screen, a mouse and a keyboard.",
    schema: object(
      {
        action: string(
          "One of screenshot, left_click, right_click, middle_click, double_click, triple_click, mouse_move, left_click_drag, left_mouse_down, left_mouse_up, scroll, type, key, hold_key, wait, cursor_position, zoom.",
        ),
        coordinate: pair("x and y in pixels from the upper left corner."),
        start_coordinate: pair("Where a drag begins, x and y in pixels."),
        text: string("Text to type, or keys to press."),
        scroll_direction: { type: "string", enum: ["up", "down", "left", "right"] },
        scroll_amount: integer("How many clicks of the wheel."),
        duration: { type: "number", description: "Seconds to wait or to hold." },
        region: {
          type: "array",
          items: { type: "integer" },
          minItems: 4,
          maxItems: 4,
          description: "x0, y0, x1, y1 in pixels, for zoom.",
        },
      },
      ["action"],
    ),
  },
];

/** Run by the client, but with an interface too wide to be one function: refused rather than dropped. */
const CLIENT_TOOLSETS = /^(?:computer|browser)_toolset_\d/;

/** Whether a tool type names a set of client-run tools that cannot be said to another vendor at all. */
export const isClientToolset = (type: string): boolean => CLIENT_TOOLSETS.test(type);

/** The function that a client-run typed tool stands for, or undefined when the type is a server's own tool. */
export function clientTool(type: string, entry: Record<string, unknown>): Tool | undefined {
  const known = CLIENT_TOOLS.find((tool) => tool.pattern.test(type));
  if (!known) return undefined;
  const name = typeof entry["name"] === "string" && entry["name"] !== "" ? entry["name"] : known.name;
  const width = entry["display_width_px"];
  const height = entry["display_height_px"];
  const screen = typeof width === "number" && typeof height === "number" ? ` The screen is ${width}x${height}.` : "";
  return { name, description: known.description + screen, schema: known.schema };
}
