import { isObject } from "../../lib/json.ts";
import { mayBeInexact, parseExactly } from "../../lib/json-numbers.ts";
import { type Edits, JsonText, type ObjectText } from "../../lib/json-text.ts";
import type { ClientDialect, Relabeler, ReplyChanges } from "../dialect.ts";
import { Frame, oneLine } from "../frames.ts";

/** The upstream's names of tools → the client's. */
type Names = ReadonlyMap<string, string>;

/**
 * The names, where they are all that a reply must be changed back in: then it goes back as it came but for them, with whatever it holds that no
 * event says. Undefined for every other change.
 */
export function namesAlone({
  toolNames,
  customTools,
  toolForms,
  legacyFunctions,
  stops,
  request,
}: ReplyChanges): Names | undefined {
  // A response that repeats its request is written whole.
  return customTools || toolForms || legacyFunctions || request || (stops && stops.length > 0) ? undefined : toolNames;
}

/** The edits of a reply, or of a record of one, by which its tools are called as the client calls them; none where it names none of them. */
function nameEdits(text: string, value: () => unknown, client: ClientDialect, names: Names): Edits | undefined {
  for (const name of names.keys()) {
    if (!text.includes(name)) continue;
    const known: unknown = mayBeInexact(text) ? parseExactly(text) : value();
    return isObject(known) ? client.renameReply(known, (said) => names.get(said) ?? said) : undefined;
  }
  return undefined;
}

/** A whole reply with the client's names; itself where it holds none of the others. */
export function nameReply(body: ObjectText, client: ClientDialect, names: Names): ObjectText {
  const edits = nameEdits(body.text, () => body.value, client, names);
  return edits ? new JsonText(body.edit(edits)) : body;
}

function nameFrame(frame: Frame, client: ClientDialect, names: Names): Frame {
  if (frame.run || !frame.data.trimStart().startsWith("{")) return frame;
  const edits = nameEdits(frame.data, () => frame.value, client, names);
  if (!edits) return frame;
  const data = oneLine(new JsonText(frame.data).edit(edits));
  return new Frame(`${frame.event === undefined ? "" : `event: ${frame.event}\n`}data: ${data}`, frame.event, data);
}

/** A relabeler that forwards its stream with the client's names. Its events are read already, so that each record is JSON or says an error. */
export function nameStream(inner: Relabeler, client: ClientDialect, names: Names): Relabeler {
  return {
    push(frame, events) {
      // The error itself is written by whoever ends the stream.
      const isBroken = events.at(-1)?.type === "error";
      return inner.push(isBroken ? frame : nameFrame(frame, client, names), events);
    },
    end: (events) => inner.end(events),
    ...(inner.fail && { fail: inner.fail.bind(inner) }),
  };
}
