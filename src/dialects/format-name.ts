const LONGEST = 64;

/** The name of an output format as OpenAI's two dialects take it (dialects.md 1.1): required there, and unknown to others. */
export const formatName = (name: unknown): string =>
  (typeof name === "string" && name !== "" ? name : "output").replaceAll(/[^\w-]/g, "_").slice(0, LONGEST);
