/** Environment variables by name: the process's own, or those that a test gives. */
export type Environment = Readonly<Record<string, string | undefined>>;
