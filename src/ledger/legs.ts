import { type Funds, walletOf } from "./funds.ts";
import { atLeastZero, least } from "./nano.ts";
import type { Window, Windows } from "./windows.ts";

/** What one request holds, and of what: first of its plan's window, then of the wallet (contract 5). Nano-USD. */
export class Legs {
  windowNano = 0n;
  walletNano = 0n;
  /** Of both, what was held by others before. */
  #joined = 0n;
  readonly walletId: string;

  constructor(
    accountId: string,
    private readonly window: Window | undefined,
    private readonly windows: Windows,
    private readonly funds: Funds,
  ) {
    this.walletId = walletOf(accountId);
  }

  get windowId(): string | undefined {
    return this.window?.id;
  }

  /** What was held for this one itself. */
  get total(): bigint {
    return this.windowNano + this.walletNano - this.#joined;
  }

  /** What the window has free; nothing once its time is over. */
  windowFree(): bigint {
    return this.window && this.windows.isOpen(this.window) ? atLeastZero(this.funds.free(this.window.id)) : 0n;
  }

  /** What could be held in addition. A wallet in debt takes nothing away from the plan's window. */
  free(): bigint {
    return this.windowFree() + atLeastZero(this.funds.free(this.walletId));
  }

  /** Holds as much more as makes `total`; whoever calls has just asked {@link free}. */
  reach(total: bigint): void {
    const more = total - this.total;
    if (more <= 0n) return;
    const fromWindow = least(more, this.windowFree());
    if (this.window) this.funds.take(this.window.id, fromWindow);
    this.funds.take(this.walletId, more - fromWindow);
    this.windowNano += fromWindow;
    this.walletNano += more - fromWindow;
  }

  /** Holds from now on what another one does, beside its own; but what is of another window, which nothing here is paid from. */
  join(other: Legs): void {
    const windowNano = other.windowId === this.windowId ? other.windowNano : 0n;
    const { walletNano } = other;
    this.windowNano += windowNano;
    this.walletNano += walletNano;
    this.#joined += windowNano + walletNano;
    other.windowNano -= windowNano;
    other.walletNano = 0n;
  }

  /** Lets go of everything. */
  give(): void {
    if (this.window && this.windowNano > 0n) this.funds.give(this.window.id, this.windowNano);
    if (this.walletNano > 0n) this.funds.give(this.walletId, this.walletNano);
    this.windowNano = 0n;
    this.walletNano = 0n;
    this.#joined = 0n;
  }
}
