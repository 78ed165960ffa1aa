/**
 * Values of `content-encoding` for a body that is not compressed. The last two are not defined by any standard, but many send them: `none` keeps middleware
 * from compressing a stream (Vercel's AI SDK, servers on Next.js), `utf-8` is a character set by mistake.
 */
const UNPACKED: ReadonlySet<string> = new Set(["", "identity", "none", "utf-8"]);

/** The coding that a `content-encoding` field names, in lower case; undefined where the body is not compressed. */
export function codingOf(field: string | null): string | undefined {
  const coding = field?.trim().toLowerCase() ?? "";
  return UNPACKED.has(coding) ? undefined : coding;
}
