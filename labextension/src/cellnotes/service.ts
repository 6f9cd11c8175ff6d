// Keeps the notes of one notebook in step with its session's log: they come from there alone, so
// that they are the same after a reload, in another tab, and after a step of another client.

import { Cell } from '@jupyterlab/cells';
import { IDisposable } from '@lumino/disposable';

import type { INotebookSession, IStepped } from '../sessions/tokens';
import { ICutStep, INote, isCutShort } from './notes';

/** Milliseconds between two looks at the log. */
const PAUSE = 400;

/** The newest step of a cell. `outcome` null: it runs. */
export interface ICellStep {
  readonly cell: string | null;
  readonly seq: number;
  readonly outcome: string | null;
}

/** What is asked of the log. Both reject with ApiError. */
export interface ICellLog {
  /** The newest step behind `after` of each cell, and how many steps there are. */
  newest(session: string, after: number): Promise<{ steps: number; cells: readonly ICellStep[] }>;
  /** Why a step ended as it did. */
  cause(session: string, seq: number): Promise<Readonly<Record<string, unknown>>>;
}

/** The cells of a notebook, as far as notes need them. */
export interface INotedCells {
  /** Calls back when cells came or went. */
  onChanged(act: () => void): IDisposable;
  /** The cell with an id; null where the notebook has none (any more). */
  find(id: string): Cell | null;
  /** Whether the cell waits for its end, or to begin. */
  runs(cell: Cell): boolean;
}

/** Shows a note at a cell until the result is disposed. */
export type Place = (cell: Cell, note: INote) => IDisposable;

export class CellNotes implements IDisposable {
  constructor(
    private readonly _session: INotebookSession,
    private readonly _log: ICellLog,
    private readonly _cells: INotedCells,
    /** What a step's note says now; null: nothing. */
    private readonly _note: (step: ICutStep) => INote | null,
    private readonly _place: Place
  ) {
    _session.attached.connect(this._onAttached, this);
    _session.stepped.connect(this._onStepped, this);
    _session.statusChanged.connect(this._show, this);
    this._watch = _cells.onChanged(() => this._show());
    this._onAttached();
  }

  /** A cell was sent to the kernel: what is said of its last run is over, if it does run. */
  ran(cell: string): void {
    this._hidden.add(cell);
    this._show();
  }

  /** For tests: the steps that have a note to say. */
  get cut(): ReadonlyMap<string, ICutStep> {
    return this._cut;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    clearTimeout(this._timer);
    this._watch.dispose();
    this._session.attached.disconnect(this._onAttached, this);
    this._session.stepped.disconnect(this._onStepped, this);
    this._session.statusChanged.disconnect(this._show, this);
    this._clear();
  }

  /** Read the log from where it was read to; resolves when it has been. */
  async look(): Promise<void> {
    const session = this._session.id;
    if (session === null || this._isDisposed) {
      return;
    }
    const { steps, cells } = await this._log.newest(session, this._read);
    const cut = cells.filter(each => each.cell !== null && isCutShort(each.outcome));
    const found = await Promise.all(
      cut.map(async each => ({ each, cause: await this._log.cause(session, each.seq) }))
    );
    if (session !== this._session.id || this.isDisposed) {
      return; // it was rewound meanwhile
    }
    for (const { cell } of cells) {
      if (cell !== null) {
        this._cut.delete(cell);
      }
    }
    for (const { each, cause } of found) {
      if (each.cell !== null && isCutShort(each.outcome)) {
        this._cut.set(each.cell, { cell: each.cell, seq: each.seq, outcome: each.outcome, cause });
      }
    }
    for (const id of this._hidden) {
      const cell = this._cells.find(id);
      if (cell === null || !this._cells.runs(cell)) {
        this._hidden.delete(id);
      }
    }
    // A step that runs is looked at again when it has ended.
    const open = cells.filter(each => each.outcome === null).map(each => each.seq);
    this._read = Math.min(steps, ...open) - 1;
    this._show();
  }

  private _onAttached(): void {
    this._cut.clear();
    this._hidden.clear();
    this._read = -1;
    this._clear();
    this._soon();
  }

  private _onStepped(_: unknown, stepped: IStepped): void {
    if (stepped.ended) {
      this._soon();
    }
  }

  /** Look before long; one look at a time, so that none overtakes another. */
  private _soon(): void {
    if (this._looking) {
      this._again = true;
      return;
    }
    this._timer ??= setTimeout(() => void this._lookNow(), PAUSE);
  }

  private async _lookNow(): Promise<void> {
    this._timer = undefined;
    this._looking = true;
    try {
      await this.look();
    } catch (error) {
      // Offline, or the log is away: the next step, or the next connection, has it looked at again.
      console.warn('Reprise: notes at cells could not be read.', error);
    }
    this._looking = false;
    if (this._again && !this._isDisposed) {
      this._again = false;
      this._soon();
    }
  }

  /** Have exactly the notes in the notebook that are to be there. */
  private _show(): void {
    const wanted = new Map<string, { cell: Cell; note: INote }>();
    for (const step of this._cut.values()) {
      const cell = this._hidden.has(step.cell) ? null : this._cells.find(step.cell);
      const note = cell === null ? null : this._note(step);
      if (cell !== null && note !== null) {
        wanted.set(step.cell, { cell, note });
      }
    }
    for (const [id, shown] of this._shown) {
      const next = wanted.get(id);
      const same = next?.note.seq === shown.note.seq && next.note.text === shown.note.text;
      if (same && next.cell === shown.cell) {
        wanted.delete(id);
      } else {
        shown.placed.dispose();
        this._shown.delete(id);
      }
    }
    for (const [id, { cell, note }] of wanted) {
      this._shown.set(id, { cell, note, placed: this._place(cell, note) });
    }
  }

  private _clear(): void {
    for (const { placed } of this._shown.values()) {
      placed.dispose();
    }
    this._shown.clear();
  }

  /** The last step that was read, with its end. */
  private _read = -1;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _looking = false;
  private _again = false;
  private _isDisposed = false;
  private readonly _watch: IDisposable;
  private readonly _cut = new Map<string, ICutStep>();
  /** Cells that were sent to the kernel again. */
  private readonly _hidden = new Set<string>();
  private readonly _shown = new Map<string, { cell: Cell; note: INote; placed: IDisposable }>();
}
