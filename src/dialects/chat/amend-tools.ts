import { type Orders, reasons } from "../../canon/intent.ts";
import { isObject, listOf } from "../../lib/json.ts";
import type { Quirks } from "../dialect.ts";
import type { EditList } from "../edit-list.ts";
import { callHint } from "../refusals/own-words.ts";
import { withNamedProperties } from "../schema/function-schema.ts";
import { withLooseSchemas } from "../schema/loose-schemas.ts";
import { evenStrict } from "./even-strict.ts";
import { unmarkedTools } from "./message-fields.ts";
import { withPlainSchemas } from "./plain-schema.ts";

/** The name of the tool that a choice forces, or that a tool of a request has; undefined where there is none. */
function namedTool(choice: unknown): string | undefined {
  const called = isObject(choice) ? choice["function"] : undefined;
  const name = isObject(called) ? called["name"] : undefined;
  return typeof name === "string" ? name : undefined;
}

/** What is said in place of a forced choice. */
function hintFor(choice: unknown): string | undefined {
  if (choice === "required") return callHint();
  const name = namedTool(choice);
  return name === undefined ? undefined : callHint(name);
}

/** A tool forced by its name, for a server that knows `required` and no names: that tool alone. */
function tellAlone(list: EditList, choice: unknown): void {
  const name = namedTool(choice);
  if (name === undefined) return;
  const alone = listOf(list.get("tools")).filter((tool) => namedTool(tool) === name);
  // One that is not there is for the server to refuse.
  if (alone.length === 0) return;
  list.set("tools", alone);
  list.set("tool_choice", "required");
}

/** Whether a vendor cannot be told a forced choice now. */
function refusesForced(spelled: Quirks["toolChoiceRequired"], orders: Orders): boolean {
  if (spelled === "auto-while-reasoning") return reasons(orders);
  return (
    spelled === "auto" || spelled === "auto-alone" || (spelled === "auto-unless-off" && orders.reasoning.kind !== "off")
  );
}

/** What goes when no tools are told. */
const OF_TOOLS = ["tools", "tool_choice", "parallel_tool_calls"];

/** A forced choice in the vendor's spelling. Returns what is to be said in words where the vendor cannot force one. */
export function amendToolChoice(list: EditList, orders: Orders, quirks: Quirks): string | undefined {
  const asked = list.get("tool_choice");
  // The one is Mistral's word, which its clients say to others too; the other is everybody else's.
  const choice = asked === "any" ? "required" : asked;
  const spelled = quirks.toolChoiceRequired;
  if (choice === "required") list.set("tool_choice", spelled === "any" ? "any" : choice);
  if (spelled === "unnamed") tellAlone(list, choice);
  if (spelled === "auto-alone" && choice === "none") for (const field of OF_TOOLS) list.remove(field);
  if (!refusesForced(spelled, orders)) return undefined;
  if (choice !== "required" && !isObject(choice)) return undefined;
  list.set("tool_choice", "auto");
  return hintFor(choice);
}

/** What the vendor does not take of the tools that are left. */
export function amendTools(list: EditList, quirks: Quirks): void {
  const tools = list.get("tools");
  if (tools === undefined) return;
  const { tools: even } = evenStrict(tools, quirks);
  const unmarked = quirks.acceptsCacheControl === false ? unmarkedTools(even) : even;
  const named = quirks.namedProperties ? withNamedProperties(unmarked) : unmarked;
  const loose = withLooseSchemas(named, quirks);
  list.set("tools", quirks.plainSchemas ? withPlainSchemas(loose) : loose);
}
