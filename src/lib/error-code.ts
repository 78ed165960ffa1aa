/** The code of an error of the system, SQLite or the runtime, such as `ENOENT` or `SQLITE_BUSY`; "" for anything without a code that is a string. */
export function errorCode(thrown: unknown): string {
  if (!(thrown instanceof Error) || !("code" in thrown)) return "";
  return typeof thrown.code === "string" ? thrown.code : "";
}
