import type { ListedModel } from "../../src/canon/listed-model.ts";

/** A vendor's list of models that tells their names only. */
export const listed = (...names: string[]): ListedModel[] => names.map((name) => ({ name }));
