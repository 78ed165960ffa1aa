import type { ReadPage } from "../extract/page.ts";
import type { ReadFault } from "../extract/pool.ts";
import type { FetchFaultCode } from "../safe-fetch/fault.ts";

export type PageFaultCode = FetchFaultCode | ReadFault["code"] | "http_error" | "internal";

/** A page as Markdown. `cached`: it was read a short while ago, for this or another caller. */
export type FoundPage = ReadPage & {
  status: "ok";
  url: string;
  finalUrl: string;
  httpStatus: number;
  contentType: string;
  cached: boolean;
};

/** Why there is no page. `message` is for the client. */
export type LostPage = {
  status: "error";
  url: string;
  finalUrl?: string;
  httpStatus?: number;
  error: { code: PageFaultCode; message: string };
};

export type PageResult = FoundPage | LostPage;
