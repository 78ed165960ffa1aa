import type { ImageRequest } from "../image-upstream.ts";

type Source = NonNullable<ImageRequest["source"]>;

/** A source image as bare base64. */
export const toBase64 = ({ bytes }: Source): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");

/** A source image as a data URL. */
export const toDataUrl = (source: Source): string => `data:${source.type};base64,${toBase64(source)}`;

/** A source image as a file for a form, and the name it goes by: `image.png`. */
export function toFile({ bytes, type }: Source, name = "image"): { file: Blob; name: string } {
  return {
    file: new Blob([bytes as Uint8Array<ArrayBuffer>], { type }),
    name: `${name}.${type.slice("image/".length)}`,
  };
}
