const MARK = "ph:";

/**
 * What a message says of its place in a turn (`commentary`, `final_answer`), as the signature of its text: its vendor wants it back with all of them,
 * and clients of other dialects have no place for it (openai, `ResponseOutputMessage.phase`). "" where it says nothing.
 */
export const phaseSignature = ({ phase }: Record<string, unknown>): string =>
  typeof phase === "string" && phase !== "" ? MARK + phase : "";

/** The field that {@link phaseSignature} was made of; none for every other signature. */
export const phaseField = (signature: string | undefined): { phase?: string } =>
  signature?.startsWith(MARK) ? { phase: signature.slice(MARK.length) } : {};

/** Whether a text's signature is a proof of it, which an item behind it carries. */
export const isProof = (signature: string): boolean => signature !== "" && !signature.startsWith(MARK);
