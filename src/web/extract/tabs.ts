import { type Element, elementsOf, squeeze, textOf, walkElements } from "../page-tree.ts";

const hasRole = ({ attributes }: Element, role: string): boolean => attributes["role"] === role;

/** Adds the elements in which there is a panel to `holders`; whether `element` is one. */
function findHolders(element: Element, holders: Set<Element>): boolean {
  let holds = false;
  for (const child of elementsOf(element)) if (findHolders(child, holders) || hasRole(child, "tabpanel")) holds = true;
  if (holds) holders.add(element);
  return holds;
}

/** The panels below `element`, without those inside a panel. */
function* panelsOf(element: Element, holders: ReadonlySet<Element>): Generator<Element> {
  if (!holders.has(element)) return;
  for (const child of elementsOf(element)) {
    if (hasRole(child, "tabpanel")) yield child;
    else yield* panelsOf(child, holders);
  }
}

const tabAt = (tabs: ReadonlyMap<string | undefined, Element>, id: string | undefined): Element | undefined =>
  id ? tabs.get(id) : undefined;

/** Writes a tab's name above its panel, if there is something in both. */
function namePanel(panel: Element, tab: Element): void {
  const name = squeeze(textOf(tab));
  if (name === "" || squeeze(textOf(panel)) === "") return;
  panel.children.unshift({ name: "summary", attributes: {}, children: [name] });
}

/**
 * Writes each tab's name above the panel that it opens: the one that the tab or the panel names, else the one in the same place. Does nothing unless there are
 * as many panels as tabs.
 */
function namePanels(list: Element, panels: readonly Element[]): void {
  const tabs = [...walkElements(list)].filter((tab) => hasRole(tab, "tab"));
  if (tabs.length !== panels.length) return;
  const openers = new Map(tabs.map((tab) => [tab.attributes["aria-controls"], tab]));
  const labels = new Map(tabs.map((tab) => [tab.attributes["id"], tab]));
  for (const [place, panel] of panels.entries()) {
    const { id, "aria-labelledby": label } = panel.attributes;
    const tab = tabAt(openers, id) ?? tabAt(labels, label) ?? tabs[place]!;
    namePanel(panel, tab);
  }
}

/** The list of tabs for the panels below `element`: one of its children, or of the children of a child that holds no panels. */
function listOf(element: Element, holders: ReadonlySet<Element>): Element | undefined {
  const lists = (parent: Element) => [...elementsOf(parent)].filter((child) => hasRole(child, "tablist"));
  const [own] = lists(element);
  if (own) return own;
  const [inside] = [...elementsOf(element)].filter((child) => lists(child).length > 0);
  return inside && !holders.has(inside) ? lists(inside)[0] : undefined;
}

/** What a list of tabs holds, white space apart; undefined where that is not labels and their buttons alone, or only one label. */
function labelsIn({ children }: Element): Element[] | undefined {
  const labels: Element[] = [];
  for (const child of children) {
    if (typeof child === "string" ? child.trim() !== "" : !/^(?:label|input)$/.test(child.name)) return undefined;
    if (typeof child !== "string" && child.name === "label") labels.push(child);
  }
  return labels.length > 1 ? labels : undefined;
}

/** The ids of radio buttons. */
function radiosOf(elements: Iterable<Element>): Set<string | undefined> {
  const ids = new Set<string | undefined>();
  for (const { name, attributes } of elements)
    if (name === "input" && attributes["type"] === "radio") ids.add(attributes["id"]);
  return ids;
}

/**
 * Names the panels of tabs that need no program: labels of radio buttons, for each of which a style sheet shows a panel (Material for MkDocs, VitePress). The
 * panels stand in the element behind the labels, one for each.
 */
function nameByLabels(element: Element): void {
  const children = [...elementsOf(element)];
  // A form may have thousands of lists.
  let beside: Set<string | undefined> | undefined;
  for (const [place, list] of children.entries()) {
    const labels = labelsIn(list);
    const holder = children[place + 1];
    if (!labels || !holder) continue;
    const panels = [...elementsOf(holder)];
    if (panels.length !== labels.length) continue;
    beside ??= radiosOf(children);
    const inside = radiosOf(elementsOf(list));
    const isOfButton = ({ attributes: { for: id } }: Element) => id && (beside?.has(id) || inside.has(id));
    if (!labels.every(isOfButton)) continue;
    for (const [at, panel] of panels.entries()) namePanel(panel, labels[at]!);
    list.children = [];
  }
}

/**
 * Writes the tabs' names above their panels (WAI-ARIA practices, "tabs"). A reader of text sees all the panels, one after the other, and nothing else would say
 * what each is for. Changes `root`.
 */
export function nameTabs(root: Element): void {
  const holders = new Set<Element>();
  findHolders(root, holders);
  for (const element of holders) {
    const list = listOf(element, holders);
    if (list) namePanels(list, [...panelsOf(element, holders)]);
  }
  for (const element of walkElements(root)) nameByLabels(element);
}
