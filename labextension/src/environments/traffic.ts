// What a session has asked of the network, kept up to date while somebody looks. Knows no page.

import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Chosen, IAskedHost, IEnvironments } from './tokens';

/** Rows that are kept; of more, the newest. */
const MOST = 5_000;
/** Steps before the newest that are asked for anew: a connection may outlive its step. */
const AGAIN = 3;

/** Rows as they come, and what was chosen for the session. */
export class Traffic implements IDisposable {
  constructor(
    private readonly _environments: IEnvironments,
    readonly session: string
  ) {}

  get rows(): readonly IAskedHost[] {
    return this._rows;
  }

  /** Rows before those that are kept. */
  get dropped(): number {
    return this._dropped;
  }

  get chosen(): Chosen | null {
    return this._chosen;
  }

  get failure(): Error | null {
    return this._failure;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Look for what is new. Looks that overlap become one more. */
  async refresh(): Promise<void> {
    if (this._looking) {
      this._again = true;
      return;
    }
    this._looking = true;
    try {
      do {
        this._again = false;
        await this._look();
      } while (this._wanted());
    } finally {
      this._looking = false;
    }
  }

  /** What was chosen is other than before. */
  take(chosen: Chosen): void {
    this._chosen = chosen;
    this._emit();
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      Signal.clearData(this);
    }
  }

  private _wanted(): boolean {
    return this._again && !this._isDisposed;
  }

  private async _look(): Promise<void> {
    const last = this._rows.reduce((most, row) => Math.max(most, row.seq ?? 0), 0);
    const from = Math.max(0, last - AGAIN);
    try {
      const [chosen, fresh] = await Promise.all([
        this._environments.chosen(this.session),
        this._all(from)
      ]);
      const again = new Set(fresh.map(keyOf));
      // Those between steps say no step; what came before `from` of them is not told again.
      const kept = this._rows.filter(row =>
        row.seq === null ? !again.has(keyOf(row)) : row.seq < from
      );
      const all = [...kept, ...fresh];
      this._dropped += Math.max(0, all.length - MOST);
      this._rows = all.slice(-MOST);
      this._chosen = chosen;
      this._failure = null;
    } catch (error) {
      this._failure = error instanceof Error ? error : new Error(String(error));
    }
    this._emit();
  }

  private async _all(from: number): Promise<readonly IAskedHost[]> {
    const found: IAskedHost[] = [];
    let after: string | null = null;
    do {
      const page: { rows: readonly IAskedHost[]; next: string | null } =
        await this._environments.asked(this.session, from, after);
      found.push(...page.rows);
      after = page.next;
    } while (after !== null && !this._isDisposed);
    return found.sort((one, other) => one.at.localeCompare(other.at));
  }

  private _emit(): void {
    if (!this._isDisposed) {
      this._changed.emit();
    }
  }

  private _rows: readonly IAskedHost[] = [];
  private _dropped = 0;
  private _chosen: Chosen | null = null;
  private _failure: Error | null = null;
  private _looking = false;
  private _again = false;
  private _isDisposed = false;
  private readonly _changed = new Signal<this, void>(this);
}

function keyOf(row: IAskedHost): string {
  return [row.seq, row.at, row.host, row.port, row.verdict, row.replay].join(' ');
}
