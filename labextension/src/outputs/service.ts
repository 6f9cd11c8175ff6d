// Keeps one notebook up to date with its session: fills in what its cells showed while no page heard it.

import { IDisposable } from '@lumino/disposable';

import { ApiError } from '../api/tokens';
import { ICellsTold, INotebookCells, IShown, IShownServer } from './contract';
import { Following } from './following';
import { ICellStep, IMemory, missed, shownUntil } from './memory';

/** Milliseconds until a look again at what another page is about to write, and at what it writes. */
const LEFT = 3_000;
const LEFT_RUNNING = 10_000;
/** Milliseconds until a look for one request, whose messages may come without end. */
const HEARD = [300, 1_000, 3_000];
/** Times that a step which has ended is left to the page that ran it. */
const PATIENCE = 2;
/** Milliseconds in which several reasons to look are one. */
const JOINED = 300;
/** Milliseconds after which this page says again that it writes. */
const RENEWED = 5_000;

export class Outputs implements IDisposable {
  /**
   * @param session the session's id now; null while it is not known
   * @param idle whether nothing runs or waits in the kernel, as far as is known
   * @param said is told of what could not be asked for a reason other than the connection
   */
  constructor(
    private readonly _session: () => string | null,
    private readonly _cells: INotebookCells,
    private readonly _server: IShownServer,
    private readonly _idle: () => boolean,
    private readonly _said: (error: unknown) => void
  ) {
    this._following = new Following(_cells, _server, {
      claim: session => this._claim(session),
      counts: step => !this._isAnothers(step),
      touch: (session, shown, counts) => this._touch(session, shown, counts),
      gone: session => this._gone(session),
      over: (seq, counts) => {
        this._painted.set(seq, counts);
        this.look(0);
      },
      yielded: () => {
        this.look(LEFT);
      },
      failed: error => {
        this._failed(error);
      }
    });
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** The steps that are being followed, by cell. */
  get followed(): readonly string[] {
    return this._following.cells;
  }

  /** See what the notebook has missed; several calls are one. */
  look(after = JOINED): void {
    const at = Date.now() + after;
    if (this._isDisposed || (this._timer !== undefined && this._at <= at)) {
      return;
    }
    clearTimeout(this._timer);
    this._at = at;
    this._timer = setTimeout(() => {
      this._timer = undefined;
      void this._next();
    }, after);
  }

  /** Something of a request that is not this page's own was heard: its step has gone on. */
  heard(request: string): void {
    if (this._following.heard(request)) {
      return;
    }
    const last = this._lastHeard;
    const times = last.request === request ? last.times + 1 : 0;
    this._lastHeard = { request, times };
    this.look(HEARD[Math.min(times, HEARD.length - 1)]);
  }

  /** A request of this page has ended, all of it heard: its cell shows its step. */
  ended(step: { session: string; step: number; outputs: number }): void {
    const { session } = step;
    if (session !== this._session()) {
      return;
    }
    const known = this._knownOf(session);
    if (known?.step === step.step - 1) {
      this._known = { session, step: step.step, outputs: step.outputs };
      this._cells.memory = this._known;
    } else {
      this.look();
    }
  }

  /** A cell of this page was run: what came before is not its step any more. */
  ran(cell: string): void {
    const session = this._session();
    if (session !== null && this._known?.session === session && this._knownOf(session) !== null) {
      if (this._cells.memory?.session !== session || this._cells.memory.step === null) {
        // Saved while the cell runs, the notebook says up to where it shows the session.
        this._cells.memory = this._known;
      }
    }
    this._following.leave(cell);
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    clearTimeout(this._timer);
    for (const cell of this._following.cells) {
      this._following.leave(cell);
    }
    this._release();
  }

  // What was missed --------------------------------------------------------------------------------

  private async _next(): Promise<void> {
    if (this._looking) {
      this._lookAgain = true;
      return;
    }
    this._looking = true;
    try {
      await this._look();
    } catch (error) {
      this._failed(error);
    } finally {
      this._looking = false;
      if (this._lookAgain) {
        this._lookAgain = false;
        this.look();
      }
    }
  }

  private async _look(): Promise<void> {
    const session = this._session();
    if (session === null || this._isDisposed) {
      return;
    }
    const has = this._has(session);
    const told = await this._server.cells(session, has);
    if (this._gone(session)) {
      return;
    }
    if (this._lookedAt !== session) {
      // Another history has other steps under the same numbers.
      this._lookedAt = session;
      this._painted.clear();
      this._left.clear();
    }
    const known = has === null || has.step === null ? null : told.after;
    const open = new Set<number>();
    const wanted: ICellStep[] = [];
    let changed = false;
    let left = Infinity;
    for (const step of told.cells) {
      const cell = step.cell === null ? null : this._cells.cell(step.cell);
      if (cell === null || step.cell === null) {
        continue;
      }
      const own = this._cells.requests.get(step.msg_id);
      if (own !== undefined && !own.broken) {
        if (!own.ended) {
          open.add(step.seq);
        } else {
          changed = true; // the notebook shows more of the session than it remembers
        }
        continue;
      }
      if (this._following.has(step.cell, step.seq)) {
        open.add(step.seq);
        continue;
      }
      const painted = this._painted.get(step.seq);
      if (painted !== undefined && !step.late_only) {
        changed = changed || painted;
        continue;
      }
      const runs = step.outcome === null;
      if (this._runsAgain(step) || !(runs || step.late_only || missed(step, known, cell.now))) {
        continue;
      }
      open.add(step.seq);
      if (this._leftToAnother(step)) {
        left = Math.min(left, runs ? LEFT_RUNNING : LEFT);
      } else {
        wanted.push(step);
      }
    }
    this._endOrphans(told);
    if (left < Infinity) {
      this.look(left);
    }
    if (wanted.length > 0) {
      const counts = await this._claim(session);
      if (!counts && this._cells.shared) {
        this.look(LEFT);
        return;
      }
      for (const step of wanted) {
        const mine = counts && !this._isAnothers(step);
        const done = await this._fill(session, step, told, has, mine);
        if (this._gone(session)) {
          return;
        }
        if (done) {
          open.delete(step.seq);
          changed = changed || mine;
        }
      }
    }
    const until = Math.max(shownUntil(told.steps, open), known ?? -1);
    this._known = { session, step: until, outputs: told.outputs };
    if (changed) {
      this._cells.memory = this._known;
    }
    this._releaseUnlessPainting();
  }

  private async _fill(
    session: string,
    step: ICellStep,
    told: ICellsTold,
    has: IMemory | null,
    counts: boolean
  ): Promise<boolean> {
    const shown = await this._server.shown(session, step.seq, null);
    const cell = step.cell === null ? null : this._cells.cell(step.cell);
    if (cell === null || step.cell === null || this._gone(session) || this._runsAgain(step)) {
      return true;
    }
    if (step.late_only) {
      // Batches are numbered from 0, so the last one that the notebook has:
      const after = has?.outputs ? `${told.own}.${has.outputs - 1}` : '0.0';
      const late = await this._server.shown(session, step.seq, after);
      this._cells.change(counts, () => {
        cell.addLate(shown, late);
      });
      await this._touch(session, late, counts);
      return true;
    }
    this._left.delete(step.seq);
    const live = shown.outcome === null;
    if (!live && cell.shows(shown)) {
      // As it does where the agent has written it.
      return true;
    }
    this._cells.change(counts, () => {
      cell.show(shown, live);
    });
    await this._touch(session, shown, counts);
    const own = this._cells.requests.get(step.msg_id);
    if (own?.broken === true && !live) {
      this._cells.forget(step.msg_id);
    }
    if (live && !this._gone(session)) {
      this._following.follow(session, step, shown);
    }
    return !live;
  }

  /** Displays of other cells that these messages have updated. */
  private async _touch(session: string, shown: IShown, counts: boolean): Promise<void> {
    for (const { cell: id, seq } of shown.touched) {
      if (this._following.has(id)) {
        continue;
      }
      const told = await this._server.shown(session, seq, null);
      const cell = this._cells.cell(id);
      if (cell === null || this._gone(session)) {
        continue;
      }
      this._cells.change(counts, () => {
        cell.renew(told);
      });
    }
  }

  /** Whether this page has sent the cell again, so that another step is to come. */
  private _runsAgain(step: ICellStep): boolean {
    for (const [request, own] of this._cells.requests) {
      if (own.cell === step.cell && !own.ended && !own.broken && request !== step.msg_id) {
        return true;
      }
    }
    return false;
  }

  /** Whether the page that ran the step is there: it writes what the step shows, and saves it. */
  private _isAnothers(step: ICellStep): boolean {
    return step.connected && step.client !== this._cells.client && !step.late_only;
  }

  /** Whether somebody else is about to write what the step shows. */
  private _leftToAnother(step: ICellStep): boolean {
    const agent = step.actor === 'agent';
    if (!agent && !(this._cells.shared && this._isAnothers(step))) {
      return false;
    }
    if (step.outcome === null) {
      return true;
    }
    const times = this._left.get(step.seq) ?? 0;
    this._left.set(step.seq, times + 1);
    return times < PATIENCE;
  }

  /** Requests whose connection was lost, and that became no step: an error before them aborted them. */
  private _endOrphans(told: ICellsTold): void {
    const known = new Set(told.cells.map(step => step.msg_id));
    for (const [request, own] of this._cells.requests) {
      if (!own.broken || own.ended || known.has(request)) {
        this._orphans.delete(request);
        continue;
      }
      const times = (this._orphans.get(request) ?? 0) + 1;
      if (this._idle() && times > PATIENCE) {
        this._orphans.delete(request);
        const cell = this._cells.cell(own.cell);
        this._cells.forget(request);
        cell?.end(cell.now.count);
      } else {
        this._orphans.set(request, this._idle() ? times : 0);
        this.look(this._idle() ? LEFT : LEFT_RUNNING);
      }
    }
  }

  // What is known, and who writes --------------------------------------------------------------------

  /** What the notebook has of its session, by what it says and by what this page knows. */
  private _has(session: string): IMemory | null {
    const said = this._cells.memory;
    const known = this._known;
    if (known?.session !== session) {
      return said;
    }
    if (said?.session !== session || said.step === null || said.step < known.step) {
      return known;
    }
    return said;
  }

  private _knownOf(session: string): IMemory | null {
    const has = this._has(session);
    return has?.session === session ? has : null;
  }

  private async _claim(session: string): Promise<boolean> {
    const now = Date.now();
    if (this._claimed?.session === session && now - this._claimed.at < RENEWED) {
      return this._claimed.paints;
    }
    const { paints } = await this._server.paint(session, true);
    this._claimed = { session, at: now, paints };
    return paints;
  }

  private _releaseUnlessPainting(): void {
    if (this._following.cells.length === 0) {
      this._release();
    }
  }

  private _release(): void {
    const claimed = this._claimed;
    this._claimed = null;
    if (claimed?.paints === true) {
      // Where it cannot be said, the word runs out by itself.
      this._server.paint(claimed.session, false).catch(() => undefined);
    }
  }

  private _gone(session: string): boolean {
    return this._isDisposed || this._session() !== session;
  }

  private _failed(error: unknown): void {
    // Without a connection, or signed out: it is looked again when the line stands.
    if (!(error instanceof ApiError && (error.status === 0 || error.status === 403))) {
      this._said(error);
    }
    if (error instanceof ApiError && error.status >= 429) {
      this.look(1_000 * (error.retryAfter ?? 10));
    }
  }

  private readonly _following: Following;
  /** How often a step was left to who writes it. */
  private readonly _left = new Map<number, number>();
  /** Steps that were followed to their end, and whether that counts as a change. */
  private readonly _painted = new Map<number, boolean>();
  private readonly _orphans = new Map<string, number>();
  private _known: { session: string; step: number; outputs: number } | null = null;
  private _claimed: { session: string; at: number; paints: boolean } | null = null;
  private _lastHeard = { request: '', times: 0 };
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _at = 0;
  private _lookedAt = '';
  private _looking = false;
  private _lookAgain = false;
  private _isDisposed = false;
}
