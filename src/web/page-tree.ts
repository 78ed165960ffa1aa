import { Parser } from "htmlparser2";

/** An element that is nested deeper than this is left out, and what is in it belongs to the one around it: nobody nests so deep but attackers. */
export const MAX_DEPTH = 200;
/** Elements and texts of a page; what comes after them is not read. */
export const MAX_NODES = 150_000;
/** Elements that may be open at a time; then no more is read. No page has so many, and to close them takes the square of their number. */
export const MAX_OPEN = 5_000;
/** Characters of a page that are read. */
export const MAX_CHARACTERS = 3_000_000;
/** Characters given to the parser at a time, so that the bounds are looked at in between. */
const SLICE = 65_536;

/** An element of a page. Names of elements and attributes are in small letters. */
export type Element = {
  name: string;
  attributes: Readonly<Record<string, string>>;
  children: (Element | string)[];
};

/** The whole of a page, and whether something of it was left out. */
export type Tree = { root: Element; cut: boolean };

/** Builds the tree while the parser goes through the text. */
class Builder {
  readonly root: Element = { name: "#root", attributes: {}, children: [] };
  readonly #open: Element[] = [this.root];
  /** Elements that were opened below the deepest level and are not closed yet. */
  #beyond = 0;
  nodes = 0;
  flattened = false;
  /** The rest of the page is left out: text that the parser still holds is the beginning of a tag, or of something else that was cut off. */
  stopped = false;

  constructor(private readonly isXml: boolean) {}

  get full(): boolean {
    return this.nodes >= MAX_NODES || this.#open.length + this.#beyond > MAX_OPEN;
  }

  onopentag(name: string, attributes: Record<string, string>): void {
    this.nodes++;
    if (this.#open.length > MAX_DEPTH) {
      this.#beyond++;
      this.flattened = true;
      return;
    }
    const element: Element = { name, attributes, children: [] };
    this.#open.at(-1)?.children.push(element);
    this.#open.push(element);
  }

  onclosetag(): void {
    if (this.#beyond > 0) this.#beyond--;
    else if (this.#open.length > 1 && !this.#isBodyOrHtml()) this.#open.pop();
  }

  /** What follows the end of a body, or of the page, belongs to its body all the same (HTML standard). */
  #isBodyOrHtml(): boolean {
    const last = this.#open.at(-1);
    return !this.isXml && this.#open.length <= 3 && (last?.name === "body" || last?.name === "html");
  }

  ontext(text: string): void {
    if (this.stopped) return;
    const { children } = this.#open.at(-1) ?? this.root;
    const last = children.at(-1);
    if (typeof last === "string") children[children.length - 1] = last + text;
    else {
      this.nodes++;
      children.push(text);
    }
  }
}

/**
 * HTML, or XML where `xml` says so, as a tree, in time linear to its length for sound markup. `xhtml`: HTML in the form of XML, where `<script/>` is a
 * whole element; in HTML it begins one (HTML standard, 14). Bounded in depth, nodes and characters; never throws for what the text holds.
 */
export function parseTree(text: string, { xml = false, xhtml = false } = {}): Tree {
  const builder = new Builder(xml);
  const form = { xmlMode: xml, recognizeSelfClosing: xml || xhtml, recognizeCDATA: xml || xhtml };
  const parser = new Parser(builder, { ...form, decodeEntities: true, lowerCaseTags: !xml });
  const end = Math.min(text.length, MAX_CHARACTERS);
  let at = 0;
  for (; at < end && !builder.full; at += SLICE) parser.write(text.slice(at, Math.min(at + SLICE, end)));
  builder.stopped = end < text.length || at < end;
  parser.end();
  return { root: builder.root, cut: builder.stopped || builder.flattened };
}

/** The elements among `element`'s children. */
export function* elementsOf({ children }: Element): Generator<Element> {
  for (const child of children) if (typeof child !== "string") yield child;
}

/** Every element below `element`, in the order of the page. */
export function* walkElements(element: Element): Generator<Element> {
  const waiting = [...elementsOf(element)].reverse();
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    yield next;
    const { children } = next;
    for (let at = children.length - 1; at >= 0; at--) {
      const child = children[at];
      if (child !== undefined && typeof child !== "string") waiting.push(child);
    }
  }
}

/** The first element of a name below `element`. */
export function findElement(element: Element, name: string): Element | undefined {
  for (const each of walkElements(element)) if (each.name === name) return each;
  return undefined;
}

/** All text below `element`, as it stands there. */
export function textOf(element: Element): string {
  let text = "";
  for (const child of element.children) text += typeof child === "string" ? child : textOf(child);
  return text;
}

/** Whether a page says that an element is its main part. */
export const isMain = ({ name, attributes }: Element) => name === "main" || attributes["role"] === "main";

/** What the class and the id of an element say, in small letters. */
export const wordsOf = ({ attributes }: Element) =>
  `${attributes["class"] ?? ""} ${attributes["id"] ?? ""}`.toLowerCase();

/** Whether a page says that an element is an article, or the text of one. */
export const isArticle = (element: Element) =>
  element.name === "article" ||
  element.attributes["itemprop"] === "articleBody" ||
  /(?:^|\s)(?:post|entry|article)-(?:body|content)\b/.test(wordsOf(element));

/**
 * Whether an element is a file as GitHub's pages show it, an element for each line. It is `aria-hidden`: who has the page read aloud is given a field with the
 * file instead.
 */
export const isFile = ({ attributes }: Element) =>
  /(?:^|\s)react-code-file-contents(?:$|\s)/.test(attributes["class"] ?? "");

/** Text with every run of white space as one blank, and none at its ends. */
export const squeeze = (text: string): string => text.replace(/[\s\u00a0]+/g, " ").trim();

/** Whether most of what there is to read below an element stands in links: a list of them is beside any page. */
export function isMostlyLinks(element: Element): boolean {
  let linked = 0;
  for (const each of walkElements(element)) if (each.name === "a") linked += squeeze(textOf(each)).length;
  return linked * 2 > squeeze(textOf(element)).length;
}
