/** The code of what the system, the store or the runtime threw, such as `ENOENT` or `SQLITE_BUSY`; "" where it has none of words. */
export function errorCode(thrown: unknown): string {
  if (!(thrown instanceof Error) || !("code" in thrown)) return "";
  return typeof thrown.code === "string" ? thrown.code : "";
}
