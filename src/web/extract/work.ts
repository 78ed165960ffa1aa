import type { RawPage, ReadPage } from "./page.ts";

/** What a reader's thread is given, and what it gives back. */
export type Work = RawPage;
export type Done = { page: ReadPage } | { fault: { code: "unsupported_content_type" | "unreadable"; message: string } };
