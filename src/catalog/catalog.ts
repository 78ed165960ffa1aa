import { GatewayError } from "../canon/errors.ts";
import type { ListedModel } from "../canon/listed-model.ts";
import { INVISIBLE } from "../lib/invisible.ts";
import type { Entry, Modality, Route } from "./entry.ts";
import {
  type CatalogRow,
  factsOf,
  makersName,
  mergeRows,
  nameOf,
  prefixOf,
  pricedAt,
  priceSpan,
  routesOf,
  toEntry,
  unchartedEntry,
} from "./rows.ts";

/**
 * A vendor that is switched on, and which of its models are offered: `VendorModels` of the vendor's row says what each word means. `modality`:
 * the kind of its models that no row names; absent: chat. `unlistedTag`, `modelsOf`: see `Vendor`.
 */
export type VendorPolicy = {
  id: string;
  models: "catalog" | "discover" | "any" | readonly string[];
  modality?: Modality;
  unlistedTag?: string;
  modelsOf?: string;
};

export type CatalogSources = {
  /** The built-in rows, complete in themselves. */
  rows: readonly CatalogRow[];
  /** Rows of the configuration (contract 2): laid over a built-in row of the same ID, or new. */
  overrides?: readonly CatalogRow[];
  vendors: readonly VendorPolicy[];
};

/** A model with every route it could have, and what is missing where none of them is open. */
export type Listing = {
  entry: Entry;
  routable: boolean;
  /** Vendors of which any one would make it routable; empty when it is. */
  switchedOnBy: readonly string[];
};

/** Which models there are and where each can be had. */
export interface Catalog {
  /** Grows by one with every change: what was made from the catalog holds as long as this does. */
  readonly version: number;
  /**
   * The routable model of this ID, its routes those of vendors that are switched on. O(1). A name that a vendor's list has in other letters, or with the tag
   * `latest`, is found too: its entry is the listed one's, with the ID that was asked for.
   */
  find(id: string): Entry | undefined;
  /** Routable models in a stable order: the rows', then what vendors listed. The same array until the catalog changes. */
  list(modality: Modality | "all"): readonly Entry[];
  /** Every known model, also those that no switched-on vendor serves. */
  all(): readonly Listing[];
  /** What {@link all} says of the model of exactly this ID. O(1). */
  listing(id: string): Listing | undefined;
  /** Whether a vendor is switched on, or was found. */
  hasVendor(vendorId: string): boolean;
  /** Opens the routes of a vendor that was found after the start; without effect for one that is known. */
  addVendor(vendor: VendorPolicy): void;
  /** Other rows and vendors from now on; entries that were found before stay as they are. Discovered names of vendors that stay are kept. */
  replace(sources: CatalogSources): void;
  /** A `discover` vendor's own model list, in its order. Without effect for any other vendor. */
  setDiscovered(vendorId: string, models: readonly ListedModel[]): void;
}

/** IDs beyond this many characters are nobody's: nothing is kept or built for them. */
const MAX_ID_LENGTH = 256;

/** Models whose entries are remembered though no list holds them: a caller may write any name. */
const MAX_FREE = 1_000;

/** A space inside a name is not among them: local servers name models after their files (llama.cpp, ComfyUI). */
const BLANK = /[^\S ]|\/ | $/;

/** Blanks, and what ends a line, does something to a terminal or turns a text: no model is called so, and a list or a log should not carry them. */
const isUnfit = (id: string) => BLANK.test(id) || id.search(INVISIBLE) >= 0;

/** Half a surrogate pair is no character either: written down, all halves are one, and two models would be told of as the same. */
const isFit = (id: string) => id.length <= MAX_ID_LENGTH && !isUnfit(id) && id.isWellFormed();

/** Throws GatewayError (model_not_found) for an ID without a vendor prefix (interface 1: IDs are `<vendor>/<model_name>`). */
export function requirePrefix(id: string): void {
  if (id.indexOf("/") > 0 && !id.endsWith("/")) return;
  const message = "The model ID lacks its vendor prefix: IDs are <vendor>/<model_name>. GET /v1/models lists them.";
  throw new GatewayError("model_not_found", message, { param: "model" });
}

/** A row, and its entry with all its routes once somebody needs it: most rows are of vendors that are not switched on. */
class Known {
  #entry: Entry | undefined;

  /** `charted`: see {@link toEntry}. */
  constructor(
    readonly row: CatalogRow,
    private readonly charted: boolean,
  ) {}

  get entry(): Entry {
    this.#entry ??= toEntry(this.row, this.charted);
    return this.#entry;
  }
}

/**
 * A vendor's listed names by the other ways of writing them that Ollama takes (its `types/model` and `getExistingName`): a name without a tag is its `latest`,
 * and capitals do not matter. Of several names with one writing the first.
 */
function byOtherWriting(names: Iterable<string>): Map<string, string> {
  const written = new Map<string, string>();
  for (const name of names) {
    const small = name.toLowerCase();
    for (const other of [small, small.replace(/:latest$/, "")]) if (!written.has(other)) written.set(other, name);
  }
  return written;
}

/** Whether the last part of a name is this tag, alone or behind a dash, as in `gpt-oss:120b-cloud`. */
function hasTag(name: string, tag: string): boolean {
  const last = name.slice(name.lastIndexOf(":") + 1).toLowerCase();
  return last.length < name.length && (last === tag || (last.endsWith(`-${tag}`) && !last.includes("/")));
}

/** Rows by the names under which vendors serve them: a vendor and its name, as an ID. Of several rows with one name the first. */
function byServedName(known: ReadonlyMap<string, Known>): Map<string, { known: Known; route: Route }> {
  const served = new Map<string, { known: Known; route: Route }>();
  for (const one of known.values()) {
    for (const route of routesOf(one.row)) {
      const name = `${route.vendor}/${route.model}`;
      if (!served.has(name)) served.set(name, { known: one, route });
    }
  }
  return served;
}

/** What is known of a chat model that a vendor serves for its maker, by the name that the maker gives it, as a row of this ID; undefined for any other. */
function knownOfMaker(id: string, maker: string | undefined, served: ReturnType<typeof byServedName>) {
  const row = maker === undefined ? undefined : served.get(`${maker}/${makersName(nameOf(id))}`)?.known.row;
  return row && (row.modality ?? "chat") === "chat" ? factsOf(row, id) : undefined;
}

/** Every row by its ID, in order: the built-in ones first, then the new ones of the configuration. Prices are those of `nowMs`. */
function readRows({ rows, overrides = [], vendors }: CatalogSources, nowMs: number): Map<string, Known> {
  const known = new Map<string, Known>();
  for (const row of rows) known.set(row.id, new Known(pricedAt(row, nowMs), true));
  const makers = new Map(vendors.flatMap(({ id, modelsOf }) => (modelsOf === undefined ? [] : [[id, modelsOf]])));
  const served = overrides.length > 0 && makers.size > 0 ? byServedName(known) : new Map();
  const added = new Set<string>();
  for (const override of overrides) {
    const base = known.get(override.id)?.row ?? knownOfMaker(override.id, makers.get(prefixOf(override.id)), served);
    if (!base) added.add(override.id);
    known.set(override.id, new Known(base ? mergeRows(base, override) : override, !added.has(override.id)));
  }
  return known;
}

class BuiltCatalog implements Catalog {
  #version = 0;
  #sources: CatalogSources;
  #known: ReadonlyMap<string, Known> = new Map();
  /** For how long the prices are what they are. */
  #priced = { sinceMs: Number.NEGATIVE_INFINITY, untilMs: Number.POSITIVE_INFINITY };
  /** Made for the first name that no row has: without vendors that list their models it is not needed. */
  #served: ReturnType<typeof byServedName> | undefined;
  readonly #policies = new Map<string, VendorPolicy>();
  /** Models that a vendor's row or its own list says, by vendor and name. */
  readonly #named = new Map<string, ReadonlyMap<string, ListedModel>>();
  #routable = new Map<string, Entry>();
  /** {@link byOtherWriting} of each vendor's list: made for the first name that is not in it. */
  readonly #written = new Map<string, ReadonlyMap<string, string>>();
  /** Entries of names that no list holds, or not so: made when first asked for. */
  readonly #free = new Map<string, Entry>();
  #lists = new Map<string, readonly Entry[]>();

  constructor(
    sources: CatalogSources,
    private readonly now: () => number,
  ) {
    this.#sources = sources;
    this.replace(sources);
  }

  get version(): number {
    this.#reprice();
    return this.#version;
  }

  /** Prices that were announced for a day are those of that day, also where nothing else changes. */
  #reprice(): void {
    const nowMs = this.now();
    if (nowMs >= this.#priced.sinceMs && nowMs < this.#priced.untilMs) return;
    this.#known = this.#read(this.#sources, nowMs);
    this.#served = undefined;
    this.#rebuild();
  }

  #read(sources: CatalogSources, nowMs: number): Map<string, Known> {
    const known = readRows(sources, nowMs);
    this.#priced = priceSpan(
      [...known.values()].map(({ row }) => row),
      nowMs,
    );
    return known;
  }

  replace(sources: CatalogSources): void {
    // Whatever can go wrong does so before anything is changed.
    const known = this.#read(sources, this.now());
    this.#sources = sources;
    const discovers = new Set(sources.vendors.filter(({ models }) => models === "discover").map(({ id }) => id));
    const stays = (id: string) => discovers.has(id) && this.#policies.get(id)?.models === "discover";
    for (const id of [...this.#named.keys()]) if (!stays(id)) this.#named.delete(id);
    this.#known = known;
    this.#served = undefined;
    this.#policies.clear();
    for (const vendor of sources.vendors) this.#note(vendor);
    this.#rebuild();
  }

  hasVendor(vendorId: string): boolean {
    return this.#policies.has(vendorId);
  }

  addVendor(vendor: VendorPolicy): void {
    if (this.#policies.has(vendor.id)) return;
    this.#note(vendor);
    this.#rebuild();
  }

  #note(policy: VendorPolicy): void {
    const { id, models } = policy;
    this.#policies.set(id, policy);
    if (typeof models === "object") this.#named.set(id, new Map(models.map((name) => [name, { name }])));
  }

  find(id: string): Entry | undefined {
    this.#reprice();
    return this.#routable.get(id) ?? this.#findFreeName(id);
  }

  list(modality: Modality | "all"): readonly Entry[] {
    this.#reprice();
    let entries = this.#lists.get(modality);
    if (!entries) {
      const every = [...this.#routable.values()];
      entries = modality === "all" ? every : every.filter((entry) => entry.modality === modality);
      this.#lists.set(modality, entries);
    }
    return entries;
  }

  all(): readonly Listing[] {
    const ids = new Set([...this.#known.keys(), ...this.#routable.keys()]);
    return [...ids].flatMap((id) => this.listing(id) ?? []);
  }

  listing(id: string): Listing | undefined {
    this.#reprice();
    const found = this.#routable.get(id);
    if (found) return { entry: found, routable: true, switchedOnBy: [] };
    const entry = this.#known.get(id)?.entry;
    return entry && { entry, routable: false, switchedOnBy: this.#missingVendors(entry) };
  }

  setDiscovered(vendorId: string, models: readonly ListedModel[]): void {
    if (this.#policies.get(vendorId)?.models !== "discover") return;
    const fit = models.filter(({ name }) => name !== "" && isFit(`${vendorId}/${name}`));
    const before = this.#named.get(vendorId);
    const after = new Map(fit.map((model) => [model.name, model]));
    // The list is asked for now and then; an unchanged one must not cost every reader its prepared answer.
    if (before && JSON.stringify([...before]) === JSON.stringify([...after])) return;
    this.#named.set(vendorId, after);
    this.#rebuild();
  }

  /** A vendor's explicit list is the whole truth about it; a discovered one may leave out what a row knows (aliases, other modalities). */
  #isOpen(route: Route): boolean {
    const policy = this.#policies.get(route.vendor);
    if (policy === undefined) return false;
    return typeof policy.models !== "object" || this.#named.get(route.vendor)?.has(route.model) === true;
  }

  #missingVendors(entry: Entry): string[] {
    const vendors = new Set(entry.routes.map((route) => route.vendor));
    return [...vendors].filter((vendor) => !this.#policies.has(vendor));
  }

  /**
   * The model behind a vendor's own prefix: with the facts of the row of that ID, or of one that this vendor serves under that name, or of its maker's; else
   * with what the vendor's list says.
   */
  #behindPrefix(id: string, listed?: ListedModel): Entry {
    const known = this.#known.get(id);
    if (known) return { ...known.entry, routes: [{ vendor: prefixOf(id), model: nameOf(id) }] };
    const policy = this.#policies.get(prefixOf(id));
    const modality = listed?.draws ? "image" : policy?.modality;
    this.#served ??= byServedName(this.#known);
    const served = this.#served.get(id);
    // A chat model that also draws is listed by its vendor as a chat model, and stays one, though a row has it as an image model.
    if (served && served.known.entry.modality === (modality ?? "chat"))
      return { ...served.known.entry, id, routes: [served.route] };
    const facts = knownOfMaker(id, policy?.modelsOf, this.#served);
    return facts ? toEntry(facts, true) : unchartedEntry(id, modality, listed);
  }

  /** Vendors that take any name, and those whose list is not known yet, serve what no row names; others what their list has, however it is written. */
  #findFreeName(id: string): Entry | undefined {
    const vendor = prefixOf(id);
    const policy = this.#policies.get(vendor);
    if (policy?.models !== "any" && policy?.models !== "discover") return undefined;
    const known = this.#free.get(id);
    if (known) return known;
    if (nameOf(id) === "" || !isFit(id)) return undefined;
    const entry = this.#isFree(policy, id) ? this.#behindPrefix(id) : this.#findListed(vendor, id);
    if (!entry) return undefined;
    if (this.#free.size >= MAX_FREE) this.#free.clear();
    this.#free.set(id, entry);
    return entry;
  }

  /** Whether a vendor may serve a name that it does not list: its list is not known yet, or leaves out the models with such a tag. */
  #isFree({ id: vendor, models, unlistedTag: tag }: VendorPolicy, id: string): boolean {
    const isListing = models === "discover" && this.#named.has(vendor);
    return !isListing || (tag !== undefined && hasTag(nameOf(id), tag));
  }

  #findListed(vendor: string, id: string): Entry | undefined {
    let written = this.#written.get(vendor);
    if (!written) {
      written = byOtherWriting(this.#named.get(vendor)?.keys() ?? []);
      this.#written.set(vendor, written);
    }
    const name = written.get(nameOf(id).toLowerCase());
    const entry = name === undefined ? undefined : this.#routable.get(`${vendor}/${name}`);
    return entry && { ...entry, id };
  }

  #rebuild(): void {
    const routable = new Map<string, Entry>();
    for (const [id, known] of this.#known) {
      const routes = routesOf(known.row);
      if (!routes.some((route) => this.#isOpen(route))) continue;
      const open = routes.filter((route) => this.#isOpen(route));
      routable.set(id, open.length === routes.length ? known.entry : { ...known.entry, routes: open });
    }
    // In the order of the vendors, not in that in which they have answered.
    for (const vendor of this.#policies.keys()) {
      for (const [name, listed] of this.#named.get(vendor) ?? []) {
        const id = `${vendor}/${name}`;
        if (!routable.has(id)) routable.set(id, this.#behindPrefix(id, listed));
      }
    }
    this.#routable = routable;
    this.#free.clear();
    this.#written.clear();
    this.#lists = new Map();
    this.#version++;
  }
}

/** The catalog of these rows as these vendors open it. `now`: the wall clock (Unix ms), by which prices change that were announced. Default: the system's. */
export function createCatalog(sources: CatalogSources, now: () => number = Date.now): Catalog {
  return new BuiltCatalog(sources, now);
}
