/** The guarded fetch, as far as media need it: the file, or a sentence that says why there is none. Rejects only when `signal` is aborted. */
export type FetchMedia = (
  url: string,
  options: { accept: string; maxBytes: number; deadlineMs: number; signal: AbortSignal },
) => Promise<{ body: Uint8Array; contentType: string } | { refused: string }>;
