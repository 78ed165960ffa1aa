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

/** Writes the tabs' names above what each opens, as they or their panels say, else in their order, where there is one panel for each. */
function namePanels(list: Element, panels: readonly Element[]): void {
  const tabs = [...walkElements(list)].filter((tab) => hasRole(tab, "tab"));
  if (tabs.length !== panels.length) return;
  const openers = new Map(tabs.map((tab) => [tab.attributes["aria-controls"], tab]));
  const labels = new Map(tabs.map((tab) => [tab.attributes["id"], tab]));
  for (const [place, panel] of panels.entries()) {
    const { id, "aria-labelledby": label } = panel.attributes;
    const tab = tabAt(openers, id) ?? tabAt(labels, label) ?? tabs[place]!;
    const name = squeeze(textOf(tab));
    if (name === "" || squeeze(textOf(panel)) === "") continue;
    panel.children.unshift({ name: "summary", attributes: {}, children: [name] });
  }
}

/** The list of tabs of the panels that stand below `element`: it stands among its children, or right inside one that holds no panels. */
function listOf(element: Element, holders: ReadonlySet<Element>): Element | undefined {
  const lists = (parent: Element) => [...elementsOf(parent)].filter((child) => hasRole(child, "tablist"));
  const [own] = lists(element);
  if (own) return own;
  const [inside] = [...elementsOf(element)].filter((child) => lists(child).length > 0);
  return inside && !holders.has(inside) ? lists(inside)[0] : undefined;
}

/**
 * Names the panels of tabs, of which a reader of text sees all: one after the other nothing would say which is for whom (WAI-ARIA practices, "tabs").
 * Changes `root`.
 */
export function nameTabs(root: Element): void {
  const holders = new Set<Element>();
  findHolders(root, holders);
  for (const element of holders) {
    const list = listOf(element, holders);
    if (list) namePanels(list, [...panelsOf(element, holders)]);
  }
}
