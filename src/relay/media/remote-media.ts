import { invalidField } from "../../canon/errors.ts";
import { findFetched } from "../../dialects/chat/fetched-fields.ts";
import type { Quirks, RemoteMedia, UpstreamDialectName } from "../../dialects/dialect.ts";
import { OWN_ADDRESS } from "../../dialects/gemini/media.ts";
import { unsayable } from "../../dialects/loss/unsayable.ts";
import { sniffMediaType } from "../../dialects/media/type.ts";
import { STORED_ADDRESS } from "../../dialects/media/url.ts";
import { type FoundMedia, type InlineMedia, replaceMedia, soundMedia, type Words } from "../../dialects/media/walk.ts";
import { JsonText, type ObjectText } from "../../lib/json-text.ts";
import { termsFor } from "../lessons/plain-servers.ts";
import type { Asked } from "../prepare.ts";
import type { Target } from "../target.ts";
import { asPng } from "./as-png.ts";
import { fetchAll } from "./fetch-all.ts";

/** What the vendors of a dialect fetch from the web by themselves, where their row does not say otherwise (dialects.md 1.2, 2.2, 3.1). */
const FETCHED_BY_VENDOR: Readonly<Record<UpstreamDialectName, RemoteMedia>> = {
  chat: "images",
  messages: "https",
  responses: "all",
  gemini: "none",
};

/** Addresses that vendors of a dialect read by themselves even where they fetch nothing else: of files stored with them, and of YouTube (Gemini). */
const READ_BY_VENDOR: Partial<Record<UpstreamDialectName, RegExp>> = { chat: STORED_ADDRESS, gemini: OWN_ADDRESS };

const WEBP = "image/webp";

/** Images that the vendors of a dialect take; those of the others differ (dialects.md 2.2). */
const TAKEN_IMAGES: Partial<Record<UpstreamDialectName, RegExp>> = {
  messages: /^image\/(?:png|jpeg|gif|webp)$/,
  responses: /^image\//,
};

/** The media type that a `data:` URL names. */
const saidIn = (url: string) => /^data:([^;,]{1,100})/.exec(url)?.[1];

const isRemote = (url: string) => /^\s*https?:/i.test(url);

/** Whether a vendor cannot read this address by itself. */
function isOutOfReach({ kind, url }: FoundMedia, reach: RemoteMedia, dialect: UpstreamDialectName): boolean {
  if (!isRemote(url) || reach === "all" || kind === "audio") return false;
  if (reach === "https") return !/^\s*https:/i.test(url);
  if (reach === "images") return kind === "document";
  return !READ_BY_VENDOR[dialect]?.test(url);
}

/** One address may be asked for as an image and as a document. Bytes, which may be many, are told apart by their place. */
const keyOf = ({ kind, path, url }: FoundMedia) => (isRemote(url) ? `${kind} ${url}` : path);

/** What the bytes that stand where a document's do are. */
const fileTypeOf = ({ url, said }: FoundMedia): string => saidIn(url) ?? sniffMediaType(url) ?? said ?? "";

/** The kind under which a vendor is sent the media: an image counts as one where it stands as a document, too. */
const kindOf = (media: FoundMedia): FoundMedia["kind"] =>
  media.kind === "document" && fileTypeOf(media).startsWith("image/") ? "image" : media.kind;

/**
 * What stands in the place of what cannot be shown: images and sound to a model that takes text alone, a PDF to a vendor that takes none; undefined for
 * what can be, as documents, which may be text. A conversation that another model saw goes on, and so does one in which a tool gives a picture or a
 * file. Throws GatewayError (invalid_request, with the place) for what the model is asked about.
 */
function wordsFor(media: FoundMedia, asked: Asked, target: Target): Words | undefined {
  const { quirks } = termsFor(asked, target);
  const kind = kindOf(media);
  const isUnread = quirks.noPdf === true && !isRemote(media.url) && fileTypeOf(media) === "application/pdf";
  const isUnseen = asked.entry.textOnly || (kind === "image" && quirks.noImages === true);
  if (kind === "document" ? !isUnread : !isUnseen) return undefined;
  const why = kind === "document" ? "This model's vendor takes no PDF." : "This model takes text alone.";
  if (!media.isPast) throw unsayable({ type: kind, place: media.path }, why);
  return { words: `[Left out here: ${SPOKEN[kind]}. ${why}]` };
}

const SPOKEN: Readonly<Record<FoundMedia["kind"], string>> = {
  image: "an image",
  audio: "sound",
  document: "a document",
};

/** Throws GatewayError (invalid_request, with the place) for an address that other vendors read and those of this dialect never do. */
function refuseUnread({ kind, path, url }: FoundMedia, dialect: UpstreamDialectName): void {
  if (!STORED_ADDRESS.test(url) || READ_BY_VENDOR[dialect]?.test(url)) return;
  throw unsayable({ type: kind, place: path }, "This model's vendor does not read such addresses.");
}

/** {@link refuseUnread} for the bytes of an image, under the type that they are sent as. */
function refuseUntaken({ kind, path }: FoundMedia, type: string | undefined, dialect: UpstreamDialectName): void {
  const taken = kind === "image" ? TAKEN_IMAGES[dialect] : undefined;
  if (type === undefined || !taken || taken.test(type)) return;
  throw unsayable({ type: kind, place: path }, `This model's vendor takes no image of type ${type.slice(0, 100)}.`);
}

/**
 * Throws GatewayError (invalid_request, with the place) where a request of its own dialect would have a model server fetch a film or sound: such a
 * server must not be a way into the network it stands in. To vendors of other dialects these are never told.
 */
function refuseFetched(body: Record<string, unknown>, { upstream, client }: Target): void {
  const place = upstream.name === "chat" && client.name === "chat" ? findFetched(body) : undefined;
  if (place === undefined) return;
  const why = "Films and sound at URLs are not fetched for this model. Send their bytes, as a data: URL.";
  throw invalidField(place, `${place}: ${why}`);
}

/**
 * What is found at addresses out of the vendor's reach, one for each address, and what stands in the body and is to be written anew or left out, both by
 * {@link keyOf}; and the places of those left out. `noWebp`: what is WebP, there or at an address, is to be PNG.
 */
type Found = {
  remote: Map<string, FoundMedia>;
  inside: Map<string, InlineMedia | Words>;
  lost: string[];
  noWebp: boolean;
};

const foundNothing = (): Found => ({ remote: new Map(), inside: new Map(), lost: [], noWebp: false });

/** The bytes of media in a body, as base64. */
const dataOf = ({ url, said }: FoundMedia): string => (said === undefined ? url.slice(url.indexOf(",") + 1) : url);

/** Undefined for nearly every request: there is nothing to be done. */
function findMedia(asked: Asked, target: Target): Found | undefined {
  const { name } = target.upstream;
  const reachOf = ({ remoteMedia = FETCHED_BY_VENDOR[name] }: Quirks): RemoteMedia => remoteMedia;
  const body = asked.body.value;
  if (reachOf(target.vendor.quirks) === "none") refuseFetched(body, target);
  let found: Found | undefined;
  // What the vendor has taught is asked for once, and only where there are media: nearly no request has any.
  let terms: Quirks | undefined;
  replaceMedia(body, (media) => {
    const words = wordsFor(media, asked, target);
    if (words) {
      found ??= foundNothing();
      found.inside.set(keyOf(media), words);
      found.lost.push(media.path);
      return undefined;
    }
    if (media.isDrawn) return undefined;
    refuseUnread(media, name);
    terms ??= termsFor(asked, target).quirks;
    const isFetched = isOutOfReach(media, reachOf(terms), name);
    const mended = isFetched ? undefined : soundMedia(media);
    const type = mended?.mediaType ?? media.said ?? saidIn(media.url);
    refuseUntaken(media, type, name);
    const isUnread = terms.noWebp === true && media.kind === "image" && type === WEBP;
    if (!isFetched && !mended && !isUnread) return undefined;
    found ??= foundNothing();
    found.noWebp = terms.noWebp === true;
    const key = keyOf(media);
    if (mended) found.inside.set(key, mended);
    else if (isUnread) found.inside.set(key, { mediaType: WEBP, data: dataOf(media) });
    else if (!found.remote.has(key)) found.remote.set(key, media);
    return undefined;
  });
  return found;
}

/** The request with `media` in the place of their addresses; what stands at the places of `lost` cannot be said of it. */
function withMedia(asked: Asked, media: ReadonlyMap<string, InlineMedia | Words>, lost: readonly string[]): Asked {
  const edits = replaceMedia(asked.body.value, (found) => media.get(keyOf(found)));
  if (!edits) return asked;
  const body: ObjectText = new JsonText(asked.body.edit(edits));
  return lost.length > 0 ? { ...asked, body, lost: [...(asked.lost ?? []), ...lost] } : { ...asked, body };
}

/**
 * The request as a vendor can read it: images and documents at addresses that the vendor does not fetch by itself are fetched, guarded and
 * bounded, and put into the body; data URLs that strict vendors refuse are mended, and images in a format that the vendor does not read are
 * written anew. The very same object, at once, where there is nothing of that kind, as there hardly ever is. Throws GatewayError
 * (invalid_request, with the place) for what cannot be had.
 */
export function inlineMedia(asked: Asked, target: Target): Asked | Promise<Asked> {
  const found = findMedia(asked, target);
  if (!found) return asked;
  if (found.remote.size === 0 && !found.noWebp) return withMedia(asked, found.inside, found.lost);
  return inlineAll(asked, found);
}

const isWebp = (media: InlineMedia | Words): media is InlineMedia => "mediaType" in media && media.mediaType === WEBP;

async function inlineAll(asked: Asked, { remote, inside, lost, noWebp }: Found): Promise<Asked> {
  const media = new Map([...inside, ...(await fetchAll(asked, remote))]);
  for (const [key, each] of media) {
    if (noWebp && isWebp(each)) media.set(key, await asPng(each, asked.services.clock, asked.abort.signal));
  }
  return withMedia(asked, media, lost);
}

/**
 * {@link inlineMedia} for a request that is only shown: nothing is fetched or written anew, and a note stands where a file's bytes would.
 */
export function showMedia(asked: Asked, target: Target): Asked {
  const { remote, inside: media, lost, noWebp } = findMedia(asked, target) ?? foundNothing();
  const note = (text: string) => Buffer.from(text).toString("base64");
  for (const [key, each] of media) {
    if (noWebp && isWebp(each))
      media.set(key, { mediaType: "image/png", data: note("This image stands here as PNG.") });
  }
  for (const found of remote.values()) {
    const data = note(`The bytes of ${found.url} stand here.`);
    media.set(keyOf(found), { mediaType: found.kind === "image" ? "image/png" : "application/pdf", data });
  }
  return media.size === 0 ? asked : withMedia(asked, media, lost);
}
