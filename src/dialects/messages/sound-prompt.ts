import { isObject, listOf } from "../../lib/json.ts";
import type { Edits } from "../../lib/json-text.ts";
import { withFewerMarks } from "../cache-marks.ts";
import type { Quirks } from "../dialect.ts";
import { namesLoosened, withLooseSchemas } from "../schema/loose-schemas.ts";
import { isVisible } from "../text.ts";
import { withoutTwins } from "../tools/tool-names.ts";
import { isEmptyText } from "./sound-messages.ts";
import { definedTools } from "./tool-changes.ts";

type Body = Readonly<Record<string, unknown>>;
type Wire = Record<string, unknown>;

/** `system` without text that cannot be seen, which its own vendor refuses (dialects.md 4.8 #4); undefined when nothing is left. */
export function visibleSystem(system: unknown): unknown {
  if (typeof system === "string") return isVisible(system) ? system : undefined;
  if (!Array.isArray(system) || !system.some(isEmptyText)) return system;
  const said = system.filter((block) => !isEmptyText(block));
  return said.length > 0 ? said : undefined;
}

/** Whether the client offers any tools: servers of its own bring theirs along (dialects.md 2.1), and a conversation may define some. */
export const offersTools = ({ tools, mcp_servers: servers, messages }: Body): boolean =>
  listOf(tools).length > 0 || listOf(servers).length > 0 || definedTools(messages).length > 0;

/** A choice that forces nothing. */
const isFree = (choice: unknown): boolean =>
  isObject(choice) && (choice["type"] === "auto" || choice["type"] === "none");

/** Adds what the vendor would refuse of the tools to `edits`: two of one name, bounds that it cannot read, and a choice where there is nothing to choose. */
export function editTools(body: Body, edits: Edits, quirks: Quirks): void {
  const { tools, tool_choice: choice } = body;
  const listed = listOf(tools) as Wire[];
  const kept = withLooseSchemas(withoutTwins(listed, []), quirks) as Wire[];
  if (kept !== listed) edits["tools"] = kept;
  if (isFree(choice) && !offersTools(body)) edits["tool_choice"] = undefined;
}

/** Takes away the cache marks that are too many for its own vendor, in `edits` and in the body's fields that they leave alone. */
export function editMarks(body: Body, edits: Edits): void {
  const fewer = withFewerMarks({ ...body, ...edits });
  if (fewer) Object.assign(edits, fewer);
}

/** Names, in `lost`, what {@link editTools} took away of what was asked. */
export function nameLostTools(body: Body, edits: Edits, lost: string[], quirks: Quirks): void {
  if (Object.hasOwn(edits, "tools")) withoutTwins(listOf(body["tools"]) as Wire[], lost);
  lost.push(...namesLoosened(body["tools"], quirks));
}
