import { type Element, isFile } from "../page-tree.ts";

/** Elements that hold nothing to read. */
const SILENT = new Set([
  "script",
  "style",
  "noscript",
  "noframes",
  "template",
  "svg",
  "canvas",
  "iframe",
  "object",
  "embed",
  "video",
  "audio",
  "button",
  "input",
  "select",
  "textarea",
  "datalist",
  "dialog",
  "head",
  "title",
  "link",
  "meta",
  "base",
  "map",
]);

/** Whether a button is all that a heading holds. Its words are the heading's then, and it opens what follows, such as the answer to a question. */
const isHeading = (button: Element, parent: Element) =>
  /^(?:h[1-6]|dt|summary)$/.test(parent.name) &&
  parent.children.every((child) => child === button || (typeof child === "string" && child.trim() === ""));

/** Most that stands in an element which is there for a program: its buttons, its language, the numbers of its lines, and blanks. */
const BESIDE_PROGRAM = 24;

/** Whether an element only repeats the language of the program beside it, as VitePress has it in the program's corner. */
const isLanguageName = ({ name, attributes }: Element, parent: Element) =>
  name === "span" &&
  attributes["class"] === "lang" &&
  parent.children.length <= BESIDE_PROGRAM &&
  parent.children.some((child) => typeof child !== "string" && child.name === "pre");

/**
 * Whether an element holds nothing to read: the name of a program's language beside it, or one of {@link SILENT}, but not the checkbox of a list of tasks,
 * nor a button that is all of a heading, nor a template that browsers show as its parent's content (declarative shadow DOM).
 */
export const isSilent = (element: Element, parent: Element) => {
  const { name, attributes } = element;
  if (!SILENT.has(name)) return isLanguageName(element, parent);
  return (
    !(name === "input" && attributes["type"] === "checkbox") &&
    !(name === "button" && isHeading(element, parent)) &&
    !(name === "template" && attributes["shadowrootmode"] !== undefined)
  );
};

/** Whether readers open an element on the page itself: the panel of a tab, or of an accordion, which is a region that names its button (WAI-ARIA practices). */
const canBeOpened = ({ attributes }: Element): boolean =>
  attributes["role"] === "tabpanel" || (attributes["role"] === "region" && attributes["aria-labelledby"] !== undefined);

/** Whether a page hides an element from its readers for good: what they can open is not hidden. */
export function isHidden(element: Element): boolean {
  const { attributes, name } = element;
  if (canBeOpened(element)) return false;
  if (attributes["hidden"] !== undefined && attributes["hidden"] !== "until-found") return true;
  if (attributes["aria-hidden"] === "true" && name !== "math" && name !== "img" && !isFile(element)) return true;
  return /(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)/i.test(attributes["style"] ?? "");
}
