/** The steps of one session by row number: pages of them, kept while they are looked at. */

import { Signal } from '@lumino/signaling';

import { isOpen, NO_FILTER } from './source';
import type { IRows, IStepSource } from './source';
import type { IFork, IHistory, IStepFilter, IStepRow } from './tokens';

/** Rows of a page. */
export const PAGE = 200;
/** Pages that are kept; those that were looked at last. */
const KEPT = 60;
/** Requests under way at once: what is scrolled past is not asked for. */
const AT_ONCE = 2;

interface IWaiting {
  row: number;
  tell(row: IStepRow | undefined): void;
  fail(error: unknown): void;
}

export class History implements IHistory {
  constructor(
    readonly session: string,
    private readonly _source: IStepSource
  ) {}

  get total(): number {
    return this._total;
  }

  get found(): number {
    return this._found;
  }

  get atLeast(): boolean {
    return this._atLeast;
  }

  get filter(): IStepFilter {
    return this._filter;
  }

  get forks(): readonly IFork[] {
    return this._forks;
  }

  get failure(): Error | null {
    return this._failure;
  }

  get ready(): boolean {
    return this._ready;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  readonly changed = new Signal<this, void>(this);

  row(index: number): IStepRow | undefined {
    return this._pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  want(from: number, to: number): void {
    const first = Math.floor(Math.max(0, from) / PAGE);
    const last = Math.floor(Math.max(0, Math.min(to, this._found) - 1) / PAGE);
    this._wanted = [];
    for (let page = first; page <= last; page++) {
      if (this._pages.has(page)) {
        this._touch(page);
      } else {
        this._wanted.push(page);
      }
    }
    this._pump();
  }

  async get(index: number): Promise<IStepRow | undefined> {
    if (!this._ready || index >= this._found) {
      await this.refresh(); // it may have come since
    }
    const here = this.row(index);
    if (here !== undefined || this._isDisposed) {
      return here;
    }
    if (index < 0 || index >= this._found) {
      if (this._failure !== null) {
        throw this._failure;
      }
      return undefined;
    }
    return new Promise((tell, fail) => {
      this._waiting.push({ row: index, tell, fail });
      this._failure = null;
      this._pump();
    });
  }

  refresh(): Promise<void> {
    if (this._refreshing !== null) {
      this._again = true;
      return this._refreshing;
    }
    this._refreshing = this._refresh().finally(() => {
      this._refreshing = null;
    });
    return this._refreshing;
  }

  async refreshForks(): Promise<void> {
    try {
      this._forks = await this._source.forks(this.session);
    } catch (error) {
      this._fail(error);
      return;
    }
    this._emit();
  }

  async setFilter(filter: IStepFilter): Promise<void> {
    this._filter = filter;
    this._begin();
    await this.refresh();
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._abort.abort();
    this._settle(() => undefined);
    Signal.clearData(this);
  }

  /** Forget what was fetched under another filter. */
  private _begin(): void {
    this._abort.abort();
    this._abort = new AbortController();
    this._pages.clear();
    this._asked.clear();
    this._wanted = [];
    this._ready = false;
    this._failure = null;
    this._found = 0;
    this._settle(() => undefined);
  }

  private async _refresh(): Promise<void> {
    do {
      this._again = false;
      const generation = this._abort;
      // Where more would stand, and where steps that ran may have ended.
      const pages = new Set([Math.floor(Math.max(0, this._found - 1) / PAGE)]);
      for (const [page, rows] of this._pages) {
        if (rows.some(row => row.outcome === null)) {
          pages.add(page);
        }
      }
      const before = this._found;
      try {
        for (const page of pages) {
          this._take(page, await this._ask(page, generation));
        }
        // What has ended meanwhile may stand anywhere among those that ended so.
        if (this._filter.outcomes.length > 0 && this._found !== before) {
          for (const page of [...this._pages.keys()].filter(each => !pages.has(each))) {
            this._pages.delete(page);
          }
        }
      } catch (error) {
        if (this._abort !== generation) {
          this._again = !this._isDisposed;
          continue;
        }
        this._fail(error);
        return;
      }
      this._failure = null;
      this._emit();
      this._pump();
    } while (this._again);
  }

  /** Fetch what is wanted, the newest wish first. */
  private _pump(): void {
    if (this._failure !== null || this._isDisposed) {
      return;
    }
    for (const page of [
      ...this._waiting.map(each => Math.floor(each.row / PAGE)),
      ...this._wanted
    ]) {
      if (this._asked.size >= AT_ONCE) {
        return;
      }
      if (!this._asked.has(page) && !this._pages.has(page)) {
        void this._fetch(page);
      }
    }
  }

  private async _fetch(page: number): Promise<void> {
    const generation = this._abort;
    this._asked.add(page);
    try {
      const answer = await this._ask(page, generation);
      this._asked.delete(page);
      this._take(page, answer);
    } catch (error) {
      if (this._abort === generation) {
        this._asked.delete(page);
        this._fail(error);
      }
      return;
    }
    this._emit();
    this._pump();
  }

  private async _ask(page: number, generation: AbortController): Promise<IRows> {
    const answer = await this._source.rows(
      this.session,
      this._filter,
      page * PAGE,
      PAGE,
      generation.signal
    );
    if (this._abort !== generation || this._isDisposed) {
      throw new DOMException('Not wanted any more.', 'AbortError');
    }
    return answer;
  }

  private _take(page: number, answer: IRows): void {
    this._ready = true;
    this._total = Math.max(answer.total, isOpen(this._filter) ? this._total : 0);
    this._found = answer.found;
    this._atLeast = answer.atLeast;
    // A page that was not full is another page when there is more.
    for (const [each, rows] of this._pages) {
      const full = Math.min(PAGE, this._found - each * PAGE);
      if (each !== page && rows.length !== full) {
        this._pages.delete(each);
      }
    }
    if (answer.rows.length > 0 || page === 0) {
      this._pages.set(page, answer.rows);
      this._touch(page);
    }
    for (const oldest of this._pages.keys()) {
      if (this._pages.size <= KEPT) {
        break;
      }
      this._pages.delete(oldest);
    }
    this._settle(row => (row < this._found ? this.row(row) : undefined), page);
  }

  /** Answer those who wait for rows of a page; of all pages when none is named. */
  private _settle(found: (row: number) => IStepRow | undefined, page?: number): void {
    const waiting = this._waiting;
    this._waiting = [];
    for (const each of waiting) {
      if (page !== undefined && Math.floor(each.row / PAGE) !== page && each.row < this._found) {
        this._waiting.push(each);
      } else {
        each.tell(found(each.row));
      }
    }
  }

  private _fail(error: unknown): void {
    if (this._isDisposed) {
      return;
    }
    this._failure = error instanceof Error ? error : new Error(String(error));
    const waiting = this._waiting;
    this._waiting = [];
    for (const each of waiting) {
      each.fail(error);
    }
    this._emit();
  }

  /** The pages that were looked at last stand last. */
  private _touch(page: number): void {
    const rows = this._pages.get(page);
    if (rows !== undefined) {
      this._pages.delete(page);
      this._pages.set(page, rows);
    }
  }

  private _emit(): void {
    if (!this._isDisposed) {
      this.changed.emit(undefined);
    }
  }

  private _filter: IStepFilter = NO_FILTER;
  private _total = 0;
  private _found = 0;
  private _atLeast = false;
  private _ready = false;
  private _failure: Error | null = null;
  private _forks: readonly IFork[] = [];
  private readonly _pages = new Map<number, readonly IStepRow[]>();
  private readonly _asked = new Set<number>();
  private _wanted: number[] = [];
  private _waiting: IWaiting[] = [];
  private _refreshing: Promise<void> | null = null;
  private _again = false;
  private _abort = new AbortController();
  private _isDisposed = false;
}
