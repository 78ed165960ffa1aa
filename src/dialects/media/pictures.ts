import type { Picture } from "../../canon/events.ts";

/** A picture at `url` in Markdown, for a client that shows text alone. */
export const pictureLink = (url: string): string => `![image](${url})`;

/** The text in place of a picture that a model drew where the client's dialect cannot carry it: the reply must not seem empty. */
export const unseenPicture = ({ mediaType, data }: Picture): string =>
  `[An image (${mediaType}, ${Math.ceil((data.length * 3) / 4 / 1024)} KB) stands here. The messages dialect has no place for it; the chat and responses dialects do.]`;
