import { writeFields } from "../../lib/http1/fields.ts";

const REASONS: Readonly<Record<number, string>> = {
  200: "OK",
  201: "Created",
  202: "Accepted",
  204: "No Content",
  206: "Partial Content",
  302: "Found",
  304: "Not Modified",
  400: "Bad Request",
  401: "Unauthorized",
  402: "Payment Required",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  406: "Not Acceptable",
  409: "Conflict",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  416: "Range Not Satisfiable",
  422: "Unprocessable Content",
  426: "Upgrade Required",
  429: "Too Many Requests",
  500: "Internal Server Error",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  529: "Site is overloaded",
};

/** What is told of an answer before its body. */
export type AnswerHead = {
  status: number;
  headers: Readonly<Record<string, string>>;
  /** The connection ends behind it. */
  ends: boolean;
  /**
   * The client reads chunks, and takes a connection for open unless it is told otherwise: HTTP/1.1. For any other the end of a body whose length is not
   * known is that of the connection, and one that stays open is told so.
   */
  chunks: boolean;
};

let dateLine = "";
let dateUntil = 0;

/** The current date as a field; written once a second, and anew when the clock was set back. */
function readDateLine(): string {
  const now = Date.now();
  if (now >= dateUntil || now < dateUntil - 1_000) {
    dateLine = `date: ${new Date(now).toUTCString()}\r\n`;
    dateUntil = now - (now % 1_000) + 1_000;
  }
  return dateLine;
}

/** Everything of a head but its last fields and the empty line. */
export function writeHead({ status, headers, ends, chunks }: AnswerHead): string {
  const close = headers["connection"] === "close" ? "" : "connection: close\r\n";
  const end = ends ? close : chunks ? "" : "connection: keep-alive\r\n";
  // It goes for this connection alone (RFC 9110, 7.8), whichever process has said it.
  const upgrade = headers["upgrade"] === undefined ? "" : "connection: upgrade\r\n";
  return `HTTP/1.1 ${status} ${REASONS[status] ?? "Unnamed"}\r\n${writeFields(headers)}${upgrade}${end}${readDateLine()}`;
}
