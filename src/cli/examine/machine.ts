import { statfsSync } from "node:fs";
import type { Config } from "../../config/load.ts";
import { readOpenFiles } from "../../lib/open-files.ts";
import { type Finding, fault, note, ok } from "../findings.ts";
import { explainPort, tryPort } from "../port.ts";

/** Before this the clock cannot be right: this program did not exist. */
const EARLIEST_AT = Date.UTC(2026, 0, 1);
const LATEST_AT = Date.UTC(2100, 0, 1);
/** A record may be this far ahead of the clock: two clocks never agree exactly. */
const TOLERANCE_MS = 60_000;

/** The wall clock against reason and against the newest record of the store, Unix ms. */
export function examineClock(now: number, newestAt: number | undefined): Finding {
  const shown = new Date(now).toISOString();
  const advice = "set the system clock, and keep it right with NTP";
  if (now < EARLIEST_AT || now > LATEST_AT) return fault("clock", `the system says it is ${shown}`, advice);
  if (newestAt !== undefined && newestAt > now + TOLERANCE_MS) {
    return fault("clock", `it is ${shown}, but the store has a record of ${new Date(newestAt).toISOString()}`, advice);
  }
  return ok("clock", shown);
}

/** With less room than this, bytes, a store is soon full: its log alone takes some megabytes before it is written back. */
const LITTLE_ROOM = 16 << 20;
const MEGABYTE = 1 << 20;

/** A server begins several files at a time: the store's log, one of requests, an image. */
const FEW_NEW_FILES = 16;

/** What is left where a folder is. */
export type Room = {
  bytes: number;
  /** How many files can be made; undefined where the file system has no bound for them. */
  files: number | undefined;
};

/** What this user may still write where `folder` is; undefined where the system does not say. */
function readRoom(folder: string): Room | undefined {
  try {
    const { bavail, bsize, files, ffree } = statfsSync(folder);
    return { bytes: bavail * bsize, files: files > 0 ? ffree : undefined };
  } catch {
    return undefined;
  }
}

/** Faults of a disk that is full, or nearly; none where there is room. On a full one whatever has to be booked is refused, and what only reads goes on. */
export function examineRoom(folder: string, room = readRoom(folder)): Finding[] {
  if (!room) return [];
  const { bytes, files } = room;
  const advice = "make room on the disk, or move the data folder to another one; a running server goes on by itself";
  const findings: Finding[] = [];
  if (bytes < LITTLE_ROOM) {
    const left = `${Math.floor(bytes / MEGABYTE)} MB are left on its disk`;
    findings.push(
      fault("store", `${folder}: ${left}; when it is full nothing that is counted is served (503)`, advice),
    );
  }
  if (files !== undefined && files < FEW_NEW_FILES) {
    const left = files === 1 ? "1 more file can be made" : `${files} more files can be made`;
    findings.push(fault("store", `${folder}: ${left} on its disk, which has no inodes beyond them`, advice));
  }
  return findings;
}

/** Whether `serve` could listen. A server that already runs on this data folder is taken to be the one on the port. */
export function examinePort({ host, port, portWasGiven }: Config["server"], running: boolean): Finding {
  const state = tryPort(host, port);
  if (state === "free") return ok("port", `${port} of ${host} is free`);
  const detail = explainPort(state, host, port);
  if (state !== "taken") return fault("port", detail);
  if (running) return ok("port", `${port} of ${host} is in use, and a Sluice server runs on this data folder`);
  return portWasGiven
    ? fault("port", detail)
    : note("port", `${port} of ${host} is taken; \`serve\` takes the next free one`);
}

/** Each stream holds two sockets, one to the client and one to the vendor. */
const FILES_OF_STREAM = 2;
/** Streams for which there are no files left, since the store, the logs and idle connections hold these. */
const STREAMS_LESS = 50;
/** Below {@link ENOUGH_FILES} there may be too few one day, below {@link FEW_FILES} there are; what is advised is {@link ADVISED_FILES}. */
const ENOUGH_FILES = 4_096;
const FEW_FILES = 256;
const ADVISED_FILES = ENOUGH_FILES * 4;

/** The limit of open files, which bounds the streams at the same time. */
export function examineLimits(files = readOpenFiles()): Finding {
  if (files === undefined) return note("limits", "this system does not say how many files may be open");
  if (files === Number.POSITIVE_INFINITY) return ok("limits", "open files: unlimited");
  const streams = Math.max(0, Math.floor(files / FILES_OF_STREAM) - STREAMS_LESS);
  const detail = `open files: ${files}, enough for ${streams} streams at the same time`;
  // The soft limit is raised to the hard one by the runtime.
  const advice = `raise the hard limit before the start: ulimit -Hn ${ADVISED_FILES} as root, or LimitNOFILE=${ADVISED_FILES} in the service`;
  if (files < FEW_FILES) return fault("limits", detail, advice);
  return files < ENOUGH_FILES ? note("limits", detail, advice) : ok("limits", detail);
}
