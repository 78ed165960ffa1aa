/** What was thrown in its own words; not everything that is thrown is an Error. */
export const messageOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown));
