import type { ClientName, Wire } from "./crossing.ts";

/** A block, and the field of it that an error names. */
export type MediaRow = [what: string, part: Wire, field: string];

const PNG = "iVBORw0KGgoAAAANSUhEUg==";
const PDF = "JVBERi0xLjQ=";
const HTML = "PGh0bWw+";
/** A byte order mark, an empty line and `<!DOCTYPE html><title>404</title>`, as a server tells of what it does not have. */
const PAGE = "77u/CjwhRE9DVFlQRSBodG1sPjx0aXRsZT40MDQ8L3RpdGxlPg==";

const text = { type: "text", text: "see" };

/** Where media may stand in a client's body: in what the user says, and in what a tool gave back. */
export const PLACES = ["said", "result"] as const;

/** A conversation that holds a block in this place, and the block's path. */
export function held(client: ClientName, place: (typeof PLACES)[number], part: Wire): { body: Wire; path: string } {
  if (client === "responses") {
    const words = { type: "input_text", text: "see" };
    const asked = { role: "user", content: [words, ...(place === "said" ? [part] : [])] };
    const called = { type: "function_call", call_id: "c", name: "f", arguments: "{}" };
    const given = { type: "function_call_output", call_id: "c", output: [words, part] };
    if (place === "said") return { body: { input: [asked] }, path: "input[0].content[1]" };
    return { body: { input: [asked, called, given] }, path: "input[2].output[1]" };
  }
  if (place === "said")
    return { body: { messages: [{ role: "user", content: [text, part] }] }, path: "messages[0].content[1]" };
  const hello = { role: "user", content: "Hi" };
  if (client === "chat") {
    const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
    const given = { role: "tool", tool_call_id: "c", content: [text, part] };
    return {
      body: { messages: [hello, { role: "assistant", tool_calls: [call] }, given] },
      path: "messages[2].content[1]",
    };
  }
  const use = { role: "assistant", content: [{ type: "tool_use", id: "c", name: "f", input: {} }] };
  const given = { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: [text, part] }] };
  return { body: { messages: [hello, use, given] }, path: "messages[2].content[0].content[1]" };
}

type Build = (url: string) => Wire;
const chatImage: Build = (url) => ({ type: "image_url", image_url: { url } });
const chatBare: Build = (url) => ({ type: "image_url", image_url: url });
const chatFile: Build = (url) => ({ type: "file", file: { filename: "a.pdf", file_data: url } });
const sourceUrl =
  (type: string): Build =>
  (url) => ({ type, source: { type: "url", url } });
const sourceData =
  (type: string, media_type: string): Build =>
  (data) => ({ type, source: { type: "base64", media_type, data } });
const inputImage: Build = (url) => ({ type: "input_image", image_url: url });
const fileUrl: Build = (url) => ({ type: "input_file", file_url: url });
const fileData: Build = (url) => ({ type: "input_file", filename: "a.pdf", file_data: url });

/** Addresses at which nothing can be read, whoever tries. */
const NOWHERE: [what: string, url: string][] = [
  ["nothing", ""],
  ["a file of the host", "file:///etc/passwd"],
  ["an ftp server", "ftp://a.test/b.png"],
  ["a script", "javascript:alert(1)"],
  ["a word", "notaurl"],
  ["no host", "https://"],
  ["a host of two words", "https://a b/c.png"],
];
const BAD_URLS: [what: string, url: string][] = [
  ["a data: URL without a comma", "data:image/png;base64"],
  ["a data: URL of no base64", "data:image/png;base64,@@@@"],
  ["a data: URL of base64 with one letter too many", `data:image/png;base64,${"AAAA".repeat(30_000)}A`],
  ["a data: URL of nothing", "data:image/png;base64,"],
  ["a data: URL of white space", "data:image/png;base64, "],
];
const NO_IMAGE: [what: string, url: string][] = [
  ["a web page", `data:text/html;base64,${HTML}`],
  ["a web page under the name of a picture", `data:image/png;base64,${HTML}`],
  ["a page of an error under the name of a picture", `data:image/jpeg;base64,${PAGE}`],
  ["a web page in plain letters", "data:text/html,<html>"],
  ["bytes of which nothing is said", `data:;base64,${HTML}`],
  ["an archive", "data:application/zip;base64,UEsDBA=="],
];
const BAD_BASE64: [what: string, data: string][] = [
  ["nothing", ""],
  ["signs", "@@@@"],
  ["a sign in the middle", `${"AAAA".repeat(30_000)}@AAA${"AAAA".repeat(30_000)}`],
  ["padding in the middle", "AA==AAAA"],
  ["one letter too many", "AAAAA"],
  ["an address", "https://a.test/b.png"],
  ["a data: URL of no base64", "data:image/png;base64,@@@@"],
];

const rows = (name: string, build: Build, field: string, kinds: [string, string][]): MediaRow[] =>
  kinds.map(([what, url]) => [`${name}: ${what}`, build(url), field]);

/** What no vendor of any dialect can read. */
export const BAD_MEDIA: Record<ClientName, MediaRow[]> = {
  chat: [
    ...rows("image", chatImage, "image_url.url", [...NOWHERE, ...BAD_URLS, ...NO_IMAGE]),
    ...rows("image in short", chatBare, "image_url", [...NOWHERE, ...BAD_URLS, ...NO_IMAGE]),
    ...rows("file", chatFile, "file.file_data", [...NOWHERE.filter(([what]) => what !== "a word"), ...BAD_URLS]),
    ...rows("file of bare base64", chatFile, "file.file_data", [["signs", "@@@@"]]),
    ["sound in short: signs", { type: "input_audio", input_audio: "@@@@" }, "input_audio"],
  ],
  messages: [
    ...rows("image", sourceUrl("image"), "source.url", [...NOWHERE, ...BAD_URLS, ...NO_IMAGE]),
    ...rows("document", sourceUrl("document"), "source.url", [...NOWHERE, ...BAD_URLS]),
    ...rows("bytes of an image", sourceData("image", "image/png"), "source.data", [...BAD_BASE64, ["a page", PAGE]]),
    ...rows("bytes of a document", sourceData("document", "application/pdf"), "source.data", BAD_BASE64),
    ...rows("bytes said to be a page", sourceData("image", "text/html"), "source.data", [["a page", HTML]]),
    ...rows("bytes said to be nothing", sourceData("image", ""), "source.data", [["a page", HTML]]),
    ["bytes that are not there", { type: "image", source: { type: "base64", media_type: "image/png" } }, "source.data"],
    ["an address that is not there", { type: "document", source: { type: "url" } }, "source.url"],
  ],
  responses: [
    ...rows("image", inputImage, "image_url", [...NOWHERE, ...BAD_URLS, ...NO_IMAGE]),
    ...rows("file at an address", fileUrl, "file_url", [...NOWHERE.slice(1), ...BAD_URLS]),
    ...rows("file", fileData, "file_data", [...NOWHERE.filter(([what]) => what !== "a word"), ...BAD_URLS]),
  ],
};

const GOOD_URLS: [what: string, url: string][] = [
  ["an address", "https://a.test/b.png?c=d e"],
  ["a file in Cloud Storage", "gs://bucket/b.png"],
  ["a file in S3", "s3://bucket/b.png"],
  ["a file that Moonshot keeps", "ms://file-1"],
  ["a file that MiniMax keeps", "mm_file://1"],
  ["a picture", `data:image/png;base64,${PNG}`],
  ["a picture without its padding", `data:image/png;base64,${PNG.slice(0, -2)}`],
  ["a picture of lines", `data:image/png;base64,${PNG.slice(0, 12)}\r\n${PNG.slice(12)}\n`],
  ["a picture in the alphabet of addresses", "data:image/webp;base64,UklGRgAAAABXRUJQ-_-_"],
  ["a picture under another name", `data:text/html;base64,${PNG}`],
  ["a picture of a kind that few know", "data:image/heic;base64,AAAAGGZ0eXA="],
  ["a picture that its client has no name for", "data:application/octet-stream;base64,AAAAGGZ0eXBoZWlj"],
  ["an older picture of which nothing is said", "data:;base64,Qk0eAAAA"],
  ["a drawing in letters", "data:image/svg+xml;utf8,<svg/>"],
  ["a picture in percent signs", `data:image/png;base64,${encodeURIComponent(PNG)}`],
];
/** What Gemini's vendors read in the place of an image. */
const FILMS: [what: string, url: string][] = [
  ["a PDF", `data:application/pdf;base64,${PDF}`],
  ["a film", "data:video/mp4;base64,AAAA"],
];
const GOOD_BASE64: [what: string, data: string][] = [
  ["bytes", PNG],
  ["bytes without their padding", PNG.slice(0, -2)],
  ["bytes in lines", `${PNG.slice(0, 12)}\n${PNG.slice(12)}\n`],
];

/** What some vendor reads: it passes the check, and nothing changes it that does not know who is asked. */
export const GOOD_MEDIA: Record<ClientName, MediaRow[]> = {
  chat: [
    ...rows("image", chatImage, "", [...GOOD_URLS, ...FILMS]),
    ...rows("image in short", chatBare, "", GOOD_URLS),
    ...rows("file", chatFile, "", [...GOOD_URLS, ["bare base64", PDF], ["a text", "data:text/plain,Hello"]]),
    ["a file by its id", { type: "file", file: { file_id: "file-1" } }, ""],
    ["a file by its id, its data empty", { type: "file", file: { file_id: "file-1", file_data: "" } }, ""],
    ["sound at an address", { type: "input_audio", input_audio: { data: "https://a.test/b.wav" } }, ""],
    ["sound in short", { type: "input_audio", input_audio: "UklGRg==" }, ""],
    ["sound in short, at an address", { type: "input_audio", input_audio: "https://a.test/b.mp3" }, ""],
    ["a block that nobody knows", { type: "video_url", video_url: { url: "file:///a.mp4" } }, ""],
    ["an image in another vendor's words", { type: "image", image: "oss://a/b.png" }, ""],
  ],
  messages: [
    ...rows("image", sourceUrl("image"), "", GOOD_URLS.slice(0, 6)),
    ...rows("image", sourceData("image", "image/png"), "", GOOD_BASE64.slice(0, 2)),
    ...rows("document", sourceData("document", "application/pdf"), "", [...GOOD_BASE64, ["a PDF", PDF]]),
    ...rows("an image of an odd kind", sourceData("image", "image/bmp"), "", [["bytes", "Qk0AAAAA"]]),
    ["a text", { type: "document", source: { type: "text", media_type: "text/plain", data: "@@@@" } }, ""],
    ["a file by its id", { type: "image", source: { type: "file", file_id: "file_1" } }, ""],
    ["a source that nobody knows", { type: "image", source: { type: "cloud", uri: "file:///a" } }, ""],
    ["a block that nobody knows", { type: "hologram", source: { type: "base64", data: "@@@@" } }, ""],
  ],
  responses: [
    ...rows("image", inputImage, "", GOOD_URLS),
    ...rows("file at an address", fileUrl, "", GOOD_URLS.slice(0, 5)),
    ...rows("file", fileData, "", [
      ["bare base64", PDF],
      ["a PDF", `data:application/pdf;base64,${PDF}`],
    ]),
    ["an image by its id", { type: "input_image", file_id: "file-1" }, ""],
    ["an image by its id, its address empty", { type: "input_image", file_id: "file-1", image_url: "" }, ""],
    ["a file by its id, its data empty", { type: "input_file", file_id: "file-1", file_data: "" }, ""],
    ["a file of data, its address empty", { type: "input_file", file_url: "", file_data: PDF }, ""],
    ["an image by its id, its address null", { type: "input_image", file_id: "file-1", image_url: null }, ""],
    ["a file by its id", { type: "input_file", file_id: "file-1" }, ""],
  ],
};
