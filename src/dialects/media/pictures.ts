import type { Picture } from "../../canon/events.ts";

/** A picture that is kept elsewhere, as text that shows where. */
export const pictureLink = (url: string): string => `![image](${url})`;

/** Stands where a model drew and the client's dialect has no place for it: a reply must not seem to be empty. */
export const unseenPicture = ({ mediaType, data }: Picture): string =>
  `[An image (${mediaType}, ${Math.ceil((data.length * 3) / 4 / 1024)} KB) stands here. The messages dialect has no place for it; the chat and responses dialects do.]`;
