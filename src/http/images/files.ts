import { GatewayError } from "../../canon/errors.ts";
import { FILE_NAME, typeOfFile } from "../../jobs/files.ts";
import type { ImageJobs } from "../../jobs/image-jobs.ts";
import { answerError, commonHeaders } from "../errors.ts";
import { requestIdOf } from "../request.ts";

/** What is behind a name never changes, s: a year. */
const MAX_AGE_SECONDS = 31_536_000;

/** Of a file read at a time, bytes: what waits in here for a client that takes its image slowly. The runtime itself reads half a megabyte ahead for each. */
const PIECE_BYTES = 64 * 1024;

/** One range of a file, both ends included. */
export type ByteRange = { start: number; end: number };

/**
 * The one range that a `Range` header asks of a file of `size` bytes (RFC 9110 14): undefined to give the whole, also for several ranges and for
 * units nobody knows; `"none"` for one that lies outside. Pure.
 */
export function readRange(header: string | null, size: number): ByteRange | undefined | "none" {
  const [, first = "", last = ""] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.replaceAll(/\s/g, "") ?? "") ?? [];
  if (first === "" && last === "") return undefined;
  if (first === "") {
    const length = Math.min(Number(last), size);
    return length === 0 ? "none" : { start: size - length, end: size - 1 };
  }
  const start = Number(first);
  const end = last === "" ? size - 1 : Math.min(Number(last), size - 1);
  if (last !== "" && Number(last) < start) return undefined;
  return start >= size ? "none" : { start, end };
}

/** Headers under which a browser shows a file as the image it is named as, runs nothing of it, and keeps it (reliability 5.5). */
function fileHeaders(name: string, etag: string, shared: boolean): Record<string, string> {
  return {
    "content-type": typeOfFile(name),
    "x-content-type-options": "nosniff",
    "content-disposition": `inline; filename="${name}"`,
    "content-security-policy": "default-src 'none'; sandbox",
    "cross-origin-resource-policy": "cross-origin",
    "referrer-policy": "no-referrer",
    "accept-ranges": "bytes",
    etag,
    // A shared cache may keep it only where the operator put one in front.
    "cache-control": `${shared ? "public" : "private"}, max-age=${MAX_AGE_SECONDS}, immutable`,
  };
}

const gone = () => new GatewayError("not_found", "There is no image of this name.");

/** Whether one of the tags of an `If-None-Match` header is this one. */
const hasTag = (header: string | null, etag: string) =>
  header?.split(",").some((tag) => ["*", etag].includes(tag.trim().replace(/^W\//, ""))) ?? false;

/**
 * `GET` and `HEAD` of an image file: whole or one range, and 304 for who has it. Needs no key: the name cannot be guessed. `shared`: an address
 * of its own was configured for files. Answers 404 for every name that is no finished job's.
 */
export async function answerFile(request: Request, name: string, jobs: ImageJobs, shared: boolean): Promise<Response> {
  try {
    const job = FILE_NAME.test(name) ? jobs.ofFile(name) : undefined;
    if (!job?.sha256) throw gone();
    const elsewhere = jobs.files.link(name);
    const common = commonHeaders(requestIdOf(request));
    if (elsewhere)
      return new Response(null, {
        status: 302,
        headers: { ...common, location: elsewhere, "cache-control": "no-store" },
      });
    const etag = `"${job.sha256.toString("hex")}"`;
    const headers = { ...common, ...fileHeaders(name, etag, shared) };
    if (hasTag(request.headers.get("if-none-match"), etag)) return new Response(null, { status: 304, headers });
    const file = await jobs.files.open(name);
    if (!file) throw gone();
    return answerBytes(request, file, headers, etag);
  } catch (thrown) {
    return answerError(thrown, request);
  }
}

/** The bytes of a file, each {@link PIECE_BYTES} of it read when they are asked for. Breaks off where the file was removed meanwhile. */
function piecesOf(file: Blob): ReadableStream<Uint8Array> {
  let at = 0;
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    if (at >= file.size) return controller.close();
    const piece = await file.slice(at, at + PIECE_BYTES).bytes();
    if (piece.length === 0) throw new Error("The file is shorter than it was.");
    at += piece.length;
    controller.enqueue(piece);
  };
  return new ReadableStream({ pull }, { highWaterMark: 0 });
}

function answerBytes(request: Request, file: Blob, headers: Record<string, string>, etag: string): Response {
  const { size } = file;
  const condition = request.headers.get("if-range");
  // RFC 9110, 14.2: of what GET alone gives, a HEAD tells the whole.
  const isAsked = request.method === "GET" && (condition === null || condition === etag);
  const range = isAsked ? readRange(request.headers.get("range"), size) : undefined;
  if (range === "none") {
    const { "content-type": _type, ...rest } = headers;
    return new Response(null, { status: 416, headers: { ...rest, "content-range": `bytes */${size}` } });
  }
  // Told here: who sends the file on piece by piece does not know how long it is, and a client that is cut off would not see it.
  if (!range) return new Response(piecesOf(file), { headers: { ...headers, "content-length": String(size) } });
  const { start, end } = range;
  const part = file.slice(start, end + 1, headers["content-type"]);
  const told = { "content-range": `bytes ${start}-${end}/${size}`, "content-length": String(end + 1 - start) };
  return new Response(piecesOf(part), { status: 206, headers: { ...headers, ...told } });
}
