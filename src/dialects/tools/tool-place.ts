import type { Tool } from "../../canon/prompt.ts";

/** A tool's place in the client's body, by which messages name it; by its name where it has no place there. */
export const placeOf = ({ place, name }: Tool): string => place ?? `tools.${name}`;
