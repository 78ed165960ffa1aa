import { type Element, elementsOf, squeeze, textOf, walkElements } from "./extract-tree.ts";

const hasRole = ({ attributes }: Element, role: string): boolean => attributes["role"] === role;

/** The panels below `element`, without those inside a panel. */
function* panelsOf(element: Element): Generator<Element> {
  for (const child of elementsOf(element)) {
    if (hasRole(child, "tabpanel")) yield child;
    else yield* panelsOf(child);
  }
}

/** Writes the tabs' names above what each opens, where there is one panel for each. */
function namePanels(list: Element, panels: readonly Element[]): void {
  const tabs = [...walkElements(list)].filter((tab) => hasRole(tab, "tab"));
  if (tabs.length !== panels.length) return;
  for (const [at, panel] of panels.entries()) {
    const name = squeeze(textOf(tabs[at]!));
    if (name === "" || squeeze(textOf(panel)) === "") continue;
    panel.children.unshift({ name: "summary", attributes: {}, children: [name] });
  }
}

/** The list of tabs of the panels that stand below `element`: it stands among its children, or right inside one that holds no panels. */
function listOf(element: Element): Element | undefined {
  const lists = (parent: Element) => [...elementsOf(parent)].filter((child) => hasRole(child, "tablist"));
  const [own] = lists(element);
  if (own) return own;
  const [inside] = [...elementsOf(element)].filter((child) => lists(child).length > 0);
  return inside && panelsOf(inside).next().done ? lists(inside)[0] : undefined;
}

/**
 * Names the panels of tabs, of which a reader of text sees all: one after the other nothing would say which is for whom (WAI-ARIA practices, "tabs").
 * Changes `root`.
 */
export function nameTabs(root: Element): void {
  for (const element of [root, ...walkElements(root)]) {
    const list = listOf(element);
    if (list) namePanels(list, [...panelsOf(element)]);
  }
}
