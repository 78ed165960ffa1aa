import type { ListedModel } from "../../src/canon/listed-model.ts";

/** A vendor's list that says no more of its models than their names. */
export const listed = (...names: string[]): ListedModel[] => names.map((name) => ({ name }));
