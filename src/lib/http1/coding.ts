/**
 * What is written of a body that is not packed. Nobody has defined the last two, and many send them: the one keeps middleware from packing a stream
 * (Vercel's AI SDK, servers on Next.js), the other is taken for that of the characters.
 */
const UNPACKED: ReadonlySet<string> = new Set(["", "identity", "none", "utf-8"]);

/** The coding that `content-encoding` names, in lower case; undefined for a body that is as it is meant. */
export function codingOf(field: string | null): string | undefined {
  const coding = field?.trim().toLowerCase() ?? "";
  return UNPACKED.has(coding) ? undefined : coding;
}
