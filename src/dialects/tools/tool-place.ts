import type { Tool } from "../../canon/prompt.ts";

/** Where the client wrote a tool, to name it by; its name, where the client did not write it. */
export const placeOf = ({ place, name }: Tool): string => place ?? `tools.${name}`;
