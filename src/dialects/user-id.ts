/**
 * An end user's name in at most `most` characters, 64 or more: one that is longer becomes its hash, which still tells users apart (dialects.md 4.1). Pure.
 */
export const fitUserId = (userId: string, most: number): string =>
  userId.length <= most ? userId : new Bun.CryptoHasher("sha256").update(userId).digest("hex");
