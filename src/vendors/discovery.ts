import type { ListedModel } from "../canon/listed-model.ts";
import { isLoopback } from "../lib/loopback.ts";
import { errorFields, type Log } from "../observe/log.ts";
import { listDiscovered } from "./models-list.ts";
import type { Vendor } from "./vendor.ts";

export type DiscoveryParts = {
  /** The vendors that are switched on, by id. Others may change what is in it. */
  vendors: ReadonlyMap<string, Vendor>;
  /** `sluice/<version>`. */
  userAgent: string;
  log: Log;
  /** A vendor's list is another one than before. */
  onList(vendorId: string, models: readonly ListedModel[]): void;
};

const isNearby = ({ baseUrl }: Vendor): boolean => isLoopback(URL.parse(baseUrl)?.hostname ?? "");

/** Asks the vendors that list their own models for their lists, and keeps what each has told last. Nothing in here rejects for a vendor that fails. */
export class Discovery {
  readonly #lists = new Map<string, readonly ListedModel[]>();
  /** Vendors that failed when they were asked last. */
  readonly #missing = new Set<string>();

  constructor(private readonly parts: DiscoveryParts) {}

  /** What each vendor has listed, by its id. */
  get lists(): ReadonlyMap<string, readonly ListedModel[]> {
    return this.#lists;
  }

  /** Whether some vendor lists its own models. */
  get isNeeded(): boolean {
    return [...this.parts.vendors.values()].some((vendor) => vendor.models === "discover");
  }

  /**
   * Asks all of them. Resolves when each has answered or failed, with whether no list is missing. One that fails is logged, and not again before it has
   * answered.
   */
  askAll(): Promise<boolean> {
    return this.#askThose(() => true);
  }

  /** {@link askAll} for those alone that failed when they were asked last. */
  askMissing(): Promise<boolean> {
    return this.#askThose(({ id }) => this.#missing.has(id));
  }

  /** Asks those on this machine alone, where a user adds models by a command. One that fails is not logged, and counts as it did before. */
  async askNearby(): Promise<void> {
    await this.#ask(isNearby, () => undefined);
  }

  /** To be called when vendors were replaced: forgets the lists of those that are gone or list none any more. `changed`: ids of those that are others now. */
  replaced(changed: readonly string[]): void {
    const { vendors } = this.parts;
    for (const id of this.#lists.keys()) if (vendors.get(id)?.models !== "discover") this.#lists.delete(id);
    for (const id of this.#missing) if (changed.includes(id) || !vendors.has(id)) this.#missing.delete(id);
  }

  async #askThose(asks: (vendor: Vendor) => boolean): Promise<boolean> {
    await this.#ask(asks, (vendor, reason) => this.#miss(vendor, reason));
    return this.#missing.size === 0;
  }

  /** Takes each list as soon as it is there: another vendor may take its time. */
  async #ask(asks: (vendor: Vendor) => boolean, onFailed: (vendor: Vendor, reason: unknown) => void): Promise<void> {
    const { vendors, userAgent } = this.parts;
    const asked = listDiscovered([...vendors.values()].filter(asks), { userAgent });
    const taken = asked.map(async (listed) => {
      const { vendor, models, reason } = await listed;
      // A reload has replaced or removed the vendor meanwhile: this tells nothing of the present one.
      if (vendors.get(vendor.id) !== vendor) return;
      if (models) this.#take(vendor, models);
      else onFailed(vendor, reason);
    });
    await Promise.all(taken);
  }

  #take({ id }: Vendor, models: readonly ListedModel[]): void {
    this.#missing.delete(id);
    // Vendors on this machine are asked every minute, and mostly have nothing new.
    if (Bun.deepEquals(this.#lists.get(id), models)) return;
    this.#lists.set(id, models);
    this.parts.onList(id, models);
  }

  #miss({ id }: Vendor, reason: unknown): void {
    if (this.#missing.has(id)) return;
    this.#missing.add(id);
    // Without the stack: it is no fault of this program.
    this.parts.log.warn("discovery", { vendor: id, ...errorFields(reason), stack: undefined });
  }
}
