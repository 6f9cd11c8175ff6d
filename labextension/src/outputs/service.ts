// Keeps one notebook up to date with its session: fills in what its cells showed while no page heard it.

import { IDisposable } from '@lumino/disposable';

import { ApiError } from '../api/tokens';
import { IMessage } from './canvas';
import { ICellNow, ICellStep, IMemory, missed, shownUntil } from './memory';

/** What the server tells of a step (`getShown`). */
export interface IShown extends ICellStep {
  readonly whole: boolean;
  readonly messages: readonly IMessage[];
  readonly next: string | null;
  readonly more: boolean;
  readonly touched: readonly { readonly cell: string; readonly seq: number }[];
  readonly question: IQuestion | null;
}

export interface IQuestion {
  readonly prompt: string;
  readonly password: boolean;
}

/** The server, asked. Each call rejects with ApiError. */
export interface IShownServer {
  cells(session: string, has: IMemory | null): Promise<ICellsTold>;
  shown(session: string, seq: number, after: string | null): Promise<IShown>;
  answer(session: string, request: string, value: string): Promise<void>;
  /** Say that this page writes outputs into the notebook, or does so no longer. */
  paint(session: string, paints: boolean): Promise<{ paints: boolean; seconds: number }>;
}

export interface ICellsTold {
  readonly steps: number;
  readonly outputs: number;
  readonly own: string;
  readonly after: number | null;
  readonly cells: readonly ICellStep[];
}

/** A request by which this page runs a cell. */
export interface IRequest {
  readonly cell: string;
  /** The connection was lost since it was sent, so what came for it may not be all. */
  readonly broken: boolean;
  readonly ended: boolean;
}

/** A code cell of the notebook. */
export interface ICell {
  readonly now: ICellNow;
  /** Make it show this step from its beginning; null: it runs on. */
  show(told: IShown, live: boolean): void;
  /** Add what the step has shown since. */
  add(told: IShown): void;
  /** Show the step as it is told, where the cell still shows an older part of it. */
  renew(told: IShown): void;
  /** Add what a step showed after its end, where `told` is all of it and `late` only that. */
  addLate(told: IShown, late: IShown): void;
  /** Whether it shows what is told. */
  shows(told: IShown): boolean;
  /** The step is over. count: null where there is no number. */
  end(count: number | null): void;
  /** Ask in the cell, or take the question away. answered: resolves to whether it was heard. */
  ask(question: IQuestion | null, answered: (value: string) => Promise<boolean>): void;
}

/** The notebook in this page. */
export interface INotebookCells {
  /** Whether other pages have the very same document. */
  readonly shared: boolean;
  /** The id of this page's connection to the kernel. */
  readonly client: string | null;
  /** By their msg_id, those of this page. */
  readonly requests: ReadonlyMap<string, IRequest>;
  memory: IMemory | null;
  cell(id: string): ICell | null;
  /** Give up a request of this page: its cell is filled from the log. */
  forget(request: string): void;
  /** Change the notebook. counts: whether it has to be saved for that. */
  change(counts: boolean, work: () => void): void;
}

interface IFollowed {
  readonly session: string;
  readonly cell: string;
  readonly seq: number;
  readonly request: string;
  next: string | null;
  /** How often nothing has come in a row. */
  quiet: number;
  timer: ReturnType<typeof setTimeout> | undefined;
  asking: boolean;
  rung: boolean;
  question: string;
}

/** Milliseconds until a running step is asked about again; what it shows is stored after 200. */
const WAITS = [350, 700, 1_500, 3_000, 5_000, 10_000];
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
  ) {}

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** The steps that are being followed, by cell. */
  get followed(): readonly string[] {
    return [...this._followed.keys()];
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
    for (const each of this._followed.values()) {
      if (each.request === request) {
        if (each.asking) {
          each.rung = true;
        } else if (each.quiet > 0 || each.timer === undefined) {
          each.quiet = 0;
          this._wait(each);
        }
        return;
      }
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
    const followed = this._followed.get(cell);
    if (followed !== undefined) {
      this._leave(followed);
    }
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    clearTimeout(this._timer);
    for (const each of [...this._followed.values()]) {
      this._leave(each);
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
      if (this._followed.get(step.cell)?.seq === step.seq) {
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
      this._follow(session, step, shown);
    }
    return !live;
  }

  /** Displays of other cells that these messages have updated. */
  private async _touch(session: string, shown: IShown, counts: boolean): Promise<void> {
    for (const { cell: id, seq } of shown.touched) {
      if (this._followed.has(id)) {
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

  // A running step ---------------------------------------------------------------------------------

  private _follow(session: string, step: ICellStep, shown: IShown): void {
    if (step.cell === null) {
      return;
    }
    const followed: IFollowed = {
      session,
      cell: step.cell,
      seq: step.seq,
      request: step.msg_id,
      next: shown.next,
      quiet: 0,
      timer: undefined,
      asking: false,
      rung: false,
      question: ''
    };
    this._followed.set(step.cell, followed);
    this._ask(followed, shown.question);
    this._wait(followed);
  }

  private _wait(followed: IFollowed): void {
    clearTimeout(followed.timer);
    const wait = WAITS[Math.min(followed.quiet, WAITS.length - 1)] ?? 0;
    followed.timer = setTimeout(() => void this._goOn(followed), wait);
  }

  private async _goOn(followed: IFollowed): Promise<void> {
    followed.timer = undefined;
    followed.asking = true;
    try {
      await this._more(followed);
    } catch (error) {
      this._failed(error);
      this._leave(followed);
      return;
    } finally {
      followed.asking = false;
    }
    if (this._followed.get(followed.cell) === followed) {
      if (followed.rung) {
        followed.rung = false;
        followed.quiet = 0;
      }
      this._wait(followed);
    }
  }

  private async _more(followed: IFollowed): Promise<void> {
    const { session, seq } = followed;
    const claimed = await this._claim(session);
    if (!claimed && this._cells.shared) {
      // This page slept, and another one has gone on.
      this._leave(followed);
      this.look(LEFT);
      return;
    }
    for (;;) {
      const told = await this._server.shown(session, seq, followed.next);
      const cell = this._cells.cell(followed.cell);
      if (this._followed.get(followed.cell) !== followed) {
        return;
      }
      if (cell === null || this._gone(session)) {
        this._leave(followed);
        return;
      }
      followed.quiet = told.messages.length > 0 ? 0 : followed.quiet + 1;
      followed.next = told.next;
      const over = told.outcome !== null && !told.more;
      const counts = claimed && !this._isAnothers(told);
      this._cells.change(counts, () => {
        if (told.whole) {
          cell.show(told, !over);
        } else {
          cell.add(told);
        }
        if (over) {
          cell.end(told.execution_count);
        }
      });
      await this._touch(session, told, counts);
      if (over) {
        this._ask(followed, null);
        this._leave(followed);
        this._cells.forget(followed.request);
        this._painted.set(seq, counts);
        this.look(0);
        return;
      }
      if (!told.more) {
        this._ask(followed, told.question);
        return;
      }
    }
  }

  private _ask(followed: IFollowed, question: IQuestion | null): void {
    const asked = question === null ? '' : JSON.stringify(question);
    if (asked === followed.question) {
      return;
    }
    followed.question = asked;
    this._cells.cell(followed.cell)?.ask(question, async value => {
      try {
        await this._server.answer(followed.session, followed.request, value);
        return true;
      } catch (error) {
        // Somebody else has answered, or the cell is over: what follows shows it. Else it asks again.
        if (!(error instanceof ApiError && error.code === 'not-asked')) {
          this._failed(error);
        }
        return false;
      } finally {
        followed.question = '';
        followed.quiet = 0;
        if (this._followed.get(followed.cell) === followed && !followed.asking) {
          this._wait(followed);
        }
      }
    });
  }

  private _leave(followed: IFollowed): void {
    clearTimeout(followed.timer);
    if (this._followed.get(followed.cell) === followed) {
      this._followed.delete(followed.cell);
    }
    if (followed.question !== '') {
      followed.question = '';
      this._cells.cell(followed.cell)?.ask(null, () => Promise.resolve(false));
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
    if (this._followed.size === 0) {
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

  private readonly _followed = new Map<string, IFollowed>();
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
