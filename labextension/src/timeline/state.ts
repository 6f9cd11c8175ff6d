/** What the Timeline shows now: which session, which filter, which step. Views follow its signals. */

import { DisposableDelegate } from '@lumino/disposable';
import { Debouncer } from '@lumino/polling';
import { Signal } from '@lumino/signaling';

import type { IAttached, INotebookSession, ISessions, IStepped } from '../sessions/tokens';
import type { KnownSessions } from './known';
import type { IOrigin } from './layout';
import { NO_FILTER } from './source';
import type { IHistory, IStepFilter, IStepRow, ITimeline } from './tokens';

/** Milliseconds of quiet after which words are searched for. */
const QUIET = 250;

export class TimelineState {
  constructor(
    private readonly _timeline: ITimeline,
    readonly known: KnownSessions,
    private readonly _sessions: ISessions | null
  ) {
    this._search = new Debouncer(() => this._history?.setFilter(this._filter), QUIET);
    _sessions?.currentChanged.connect(this._follow, this);
    _sessions?.changed.connect(this._follow, this);
    _sessions?.each(session => {
      session.attached.connect(this._onAttached, this);
      session.statusChanged.connect(this._onStatus, this);
      session.stepped.connect(this._onStepped, this);
      return new DisposableDelegate(() => {
        session.attached.disconnect(this._onAttached, this);
        session.statusChanged.disconnect(this._onStatus, this);
        session.stepped.disconnect(this._onStepped, this);
      });
    });
    known.changed.connect(this._onKnown, this);
    this._follow();
  }

  /** Another session, or another filter. */
  readonly changed = new Signal<this, void>(this);
  /** The step that the detail is of. */
  readonly stepChanged = new Signal<this, IStepRow | null>(this);

  get history(): IHistory | null {
    return this._history;
  }

  get session(): string | null {
    return this._history?.session ?? null;
  }

  /** Where the session left another; null for one that is nobody's fork. */
  get origin(): IOrigin | null {
    const known = this.session === null ? undefined : this.known.get(this.session);
    return known?.parent == null || known.fork_seq === null
      ? null
      : { parent: known.parent, seq: known.fork_seq };
  }

  get filter(): IStepFilter {
    return this._filter;
  }

  get step(): IStepRow | null {
    return this._step;
  }

  /** The session of the notebook that is current. */
  get current(): string | null {
    return this._sessions?.current?.id ?? null;
  }

  /** The path of that notebook. */
  get notebook(): string | null {
    return this._sessions?.current?.path ?? null;
  }

  /** Show a session, whatever notebook is current; null: that of the current one. */
  open(session: string | null): void {
    this._chosen = session === this.current ? null : session;
    this._follow();
  }

  setFilter(filter: Partial<IStepFilter>): void {
    const typed = filter.words !== undefined && filter.words !== this._filter.words;
    const before = JSON.stringify(this._filter);
    this._filter = { ...this._filter, ...filter };
    if (JSON.stringify(this._filter) === before) {
      return; // what is here stays, even while nothing can be asked
    }
    this.changed.emit(undefined);
    if (typed && Object.keys(filter).length === 1) {
      void this._search.invoke();
    } else {
      void this._history?.setFilter(this._filter);
    }
  }

  setStep(row: IStepRow | null): void {
    this._step = row;
    this.stepChanged.emit(row);
  }

  private _follow(): void {
    const session = this._chosen ?? this.current;
    if (session === this.session) {
      this.changed.emit(undefined);
      return;
    }
    this._history?.dispose();
    this._history = null;
    this._filter = NO_FILTER;
    if (session !== null) {
      this._history = this._timeline.history(session);
      void this._history.refresh();
      void this._history.refreshForks();
      void this.known.find(session);
    }
    this.setStep(null);
    this.changed.emit(undefined);
  }

  /** A notebook that went back is followed into the fork; one that was opened changes nothing. */
  private _onAttached(notebook: INotebookSession, { before, session }: IAttached): void {
    const current = notebook === this._sessions?.current;
    if (before !== null && (current || before === this.session)) {
      this._chosen = current ? null : session;
    }
    this._follow();
  }

  private _onStatus(): void {
    if (this._chosen === null && this.current !== this.session) {
      this._follow();
    }
  }

  private _onStepped(_: INotebookSession, told: IStepped): void {
    this._timeline.poke(told.session);
  }

  private _onKnown(): void {
    this.changed.emit(undefined);
  }

  private readonly _search: Debouncer<void>;
  private _history: IHistory | null = null;
  private _filter: IStepFilter = NO_FILTER;
  private _chosen: string | null = null;
  private _step: IStepRow | null = null;
}
