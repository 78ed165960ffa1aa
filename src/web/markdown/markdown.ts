import { cutText } from "../../lib/cut-text.ts";
import { type Element, elementsOf, squeeze, textOf, walkElements } from "../page-tree.ts";
import { isListing, isNumbering, writePre } from "./code.ts";
import { absolute, escapeText, type PageContext, tidyLine, writeInline, writeNode, writeStrong } from "./inline.ts";
import { numberIn } from "./number.ts";
import { isLayout, writeTable } from "./table.ts";

/** Elements whose children stand in lines of the element around them. */
const INLINE = new Set(
  "a abbr acronym b bdi bdo big br cite code data del dfn em font i img input ins kbd label mark math meter nobr output picture progress q rp rt ruby s samp small span strike strong sub sup time tt u var wbr".split(
    " ",
  ),
);
const BLOCKS_INSIDE = /^(?:p|div|section|article|ul|ol|dl|table|pre|blockquote|h[1-6]|figure|header|main)$/;

/** What {@link holdsBlocks} found of each element: it is asked at every level above it. */
const known = new WeakMap<Element, boolean>();

/** Whether an element holds whole blocks. One that is inline by its name, such as a link around a card, is then a part of the page like any other. */
function holdsBlocks(element: Element): boolean {
  let holds = known.get(element);
  if (holds === undefined) {
    holds = false;
    for (const child of elementsOf(element)) {
      if (!BLOCKS_INSIDE.test(child.name) && !holdsBlocks(child)) continue;
      holds = true;
      break;
    }
    known.set(element, holds);
  }
  return holds;
}

/**
 * Whether an element has a name of the page's own, or is a place in such an element (`slot`). Among words it is one of them (GitHub's `<g-emoji>` and
 * `<relative-time>`); where no words are, it is a part of the page.
 */
const isOwn = ({ name }: Element): boolean => name.includes("-") || name === "slot";
const holdsWords = ({ children }: Element): boolean =>
  children.some((child) => typeof child === "string" && child.trim() !== "");

/** Signs at a line's start that Markdown would take for a heading, a list, a quotation or a rule. */
const escapeStart = (line: string) =>
  line.replace(
    /^(?:#{1,6}(?=\s|$)|[-+](?=\s|$)|>|(?:=+|-+)\s*$|(\d{1,9})[.)](?=\s|$))/,
    (sign, number: string | undefined) =>
      number === undefined ? `\\${sign}` : `${number}\\${sign.slice(number.length)}`,
  );

/** How many quotations and lists inside each other are indented, each deeper than the one around it; further ones are no deeper. */
const MAX_PUSHED = 12;

/** How a list begins. */
const NESTED = /^(?:[-*]|\d+\.|[a-z]\.|[ivxlcdm]+\.) /i;

/** Characters of a frame's name that are shown. */
const MAX_FRAME_NAME = 300;

/** Every line of a block pushed in by `by`, empty ones left empty. */
const indent = (block: string, by: string) => block.replace(/^(?=.)/gm, by);

/** Turns a tree into blocks of Markdown, in the order of the page. */
class Writer {
  constructor(private readonly context: PageContext) {}

  /** The blocks of `element`'s children. `around`: the elements it stands in, itself first. */
  blocks(element: Element, around: readonly Element[]): string[] {
    const blocks: string[] = [];
    let line: Element["children"] = [];
    const worded = holdsWords(element);
    const isInLine = (child: Element) => (INLINE.has(child.name) || (worded && isOwn(child))) && !holdsBlocks(child);
    const flush = () => {
      const text = tidyLine(line.map((child) => writeNode(child, this.context)).join(""));
      line = [];
      if (text !== "") blocks.push(text.split("\n").map(escapeStart).join("  \n"));
    };
    for (const child of element.children) {
      if (typeof child === "string" || isInLine(child)) line.push(child);
      else {
        flush();
        for (const block of this.#block(child, [child, ...around])) if (block !== "") blocks.push(block);
      }
    }
    flush();
    return blocks;
  }

  #block(element: Element, around: readonly Element[]): string[] {
    const { name } = element;
    if (isNumbering(element)) return [];
    if (isListing(element)) return writePre(element, around.slice(1));
    if (/^h[1-6]$/.test(name)) return [this.#heading(element, Number(name[1]))];
    switch (name) {
      case "ul":
      case "ol":
        return [this.#list(element, around)];
      case "dl":
        return [this.#definitions(element)];
      case "pre":
      case "listing":
        return writePre(element, around.slice(1));
      case "blockquote":
        return [this.#quotation(element, around)];
      case "table":
        return isLayout(element) ? this.blocks(element, around) : [writeTable(element, this.context)];
      case "hr":
        return ["---"];
      case "figcaption":
      case "caption":
        return this.#aside(element);
      case "summary":
        return holdsBlocks(element) ? this.blocks(element, around) : this.#strong(element);
      case "a":
        return this.#card(element, around);
      case "frame":
        return this.#frame(element);
      default:
        return this.blocks(element, around);
    }
  }

  #line(element: Element): string {
    return squeeze(tidyLine(writeInline(element, this.context)));
  }

  #heading(element: Element, level: number): string {
    const text = this.#line(element);
    return text === "" ? "" : `${"#".repeat(level)} ${text}`;
  }

  /** A caption, in italics unless it has signs of emphasis of its own. */
  #aside(element: Element): string[] {
    const text = this.#line(element);
    return text === "" ? [] : [/[*_]/.test(text) ? text : `*${text}*`];
  }

  #strong(element: Element): string[] {
    const text = writeStrong(element, this.context);
    return text === "" ? [] : [text];
  }

  /** A frame, which holds a page of its own, as a link to that. */
  #frame({ attributes }: Element): string[] {
    const href = absolute(attributes["src"], this.context);
    const name = cutText(squeeze(attributes["title"] ?? attributes["name"] ?? ""), MAX_FRAME_NAME);
    return href === undefined ? [] : [`[Frame: ${escapeText(name || href)}](${href})`];
  }

  /** A link around whole blocks: the blocks, of which the first that is one line without links becomes the link. */
  #card(element: Element, around: readonly Element[]): string[] {
    const blocks = this.blocks(element, around);
    const href = absolute(element.attributes["href"], this.context);
    if (href === undefined) return blocks;
    const at = blocks.findIndex((block) => !block.includes("\n") && !block.includes("]("));
    const block = blocks[at];
    if (block === undefined) return blocks;
    const [, sign = "", text = ""] = /^(#+ )?(.*)$/.exec(block) ?? [];
    return blocks.toSpliced(at, 1, `${sign}[${text}](${href})`);
  }

  #quotation(element: Element, around: readonly Element[]): string {
    const inner = this.blocks(element, around).join("\n\n");
    if (around.filter(({ name }) => name === "blockquote").length > MAX_PUSHED) return inner;
    return inner === "" ? "" : inner.replace(/^/gm, "> ").replace(/^> $/gm, ">");
  }

  #list(list: Element, around: readonly Element[]): string {
    // A list of the best ten counts down, to 1 where nothing else is said (HTML standard, `reversed`).
    const down = list.attributes["reversed"] !== undefined;
    const first = Number.parseInt(list.attributes["start"] ?? "", 10);
    const usual = down ? list.children.filter((child) => typeof child !== "string" && child.name === "li").length : 1;
    let number = Number.isInteger(first) && first >= 0 ? first : usual;
    const items: string[] = [];
    for (const child of list.children) {
      if (typeof child === "string") {
        const text = this.#line({ ...list, children: [child] });
        if (text !== "") items.push(`- ${text}`);
        continue;
      }
      // A list right inside a list belongs to the item before it.
      if (child.name === "ul" || child.name === "ol") {
        const nested = indent(this.#list(child, [child, ...around]), "  ");
        if (nested !== "") items.push(nested);
        continue;
      }
      if (/^\d{1,9}$/.test(child.attributes["value"] ?? "")) number = Number(child.attributes["value"]);
      const marker = list.name === "ol" ? `${numberIn(list, number)}. ` : "- ";
      // Many write a link around an item, or in the place of one: it is something in an item.
      const item = this.#item(child.name === "li" ? child : { ...list, name: "li", children: [child] }, around, marker);
      if (item === "") continue;
      number = down ? Math.max(0, number - 1) : number + 1;
      items.push(item);
    }
    return items.join("\n");
  }

  #item(element: Element, around: readonly Element[], marker: string): string {
    const blocks = this.blocks(element, [element, ...around]);
    if (blocks.length === 0) return "";
    const box = boxOf(element);
    const [head = "", ...rest] = blocks;
    const deep = around.filter(({ name }) => name === "ul" || name === "ol").length > MAX_PUSHED;
    const pad = deep ? "" : " ".repeat(marker.length);
    let text = `${marker}${box}${indent(head, pad).slice(head.startsWith("\n") ? 0 : pad.length)}`;
    for (const block of rest) text += `${NESTED.test(block) ? "\n" : "\n\n"}${indent(block, pad)}`;
    return text;
  }

  #definitions(list: Element): string {
    const lines: string[] = [];
    const read = (parent: Element) => {
      for (const child of elementsOf(parent)) {
        if (child.name === "dt") lines.push(...this.#strong(child).map((text) => `- ${text}`));
        else if (child.name === "dd") {
          const inner = this.blocks(child, [child]).join("\n\n");
          if (inner !== "") lines.push(indent(inner, "  "));
        } else read(child);
      }
    };
    read(list);
    return lines.join("\n");
  }
}

/** The box of an item of a list of tasks, which stands at its beginning. */
function boxOf(item: Element): string {
  let seen = 0;
  for (const { name, attributes } of walkElements(item)) {
    if (name === "input") return attributes["checked"] === undefined ? "[ ] " : "[x] ";
    if (++seen > 2) break;
  }
  return "";
}

/**
 * A part of a page as blocks of Markdown: headings, paragraphs, nested lists, tables in GitHub's form, fenced code with its language, and
 * absolute links. `base`: the address that its links are relative to.
 */
export function toMarkdown(element: Element, base: string): string[] {
  return new Writer({ base }).blocks(element, [element]);
}

/** Whether an element is a program: a `script` may also hold structured data, rules or a map of modules. */
const isProgram = ({ name, attributes }: Element) =>
  name === "script" && /^$|module$|(?:java|ecma)script/i.test(attributes["type"]?.trim() ?? "");

/** Whether a page has next to nothing to read but programs that would make it (web-and-mcp.md C4). */
export function isShell(main: Element, root: Element): boolean {
  if (squeeze(textOf(main)).length >= 50) return false;
  const programs = (element: Element): boolean =>
    [...elementsOf(element)].some((child) => isProgram(child) || programs(child));
  return programs(root);
}
