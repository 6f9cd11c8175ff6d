// A step that still runs: what it shows is added as the log has it, until its end.

import { ApiError } from '../api/tokens';
import { INotebookCells, IQuestion, IShown, IShownServer } from './contract';
import { ICellStep } from './memory';

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

/** Whoever follows steps. */
export interface IFollower {
  /** Whether this page writes now. */
  claim(session: string): Promise<boolean>;
  /** Whether what it shows is a change that counts, where this page writes. */
  counts(step: ICellStep): boolean;
  /** Displays of other cells were updated. */
  touch(session: string, shown: IShown, counts: boolean): Promise<void>;
  /** Whether the notebook, or its session, is another one by now. */
  gone(session: string): boolean;
  /** The step is over, and its cell shows all of it. */
  over(seq: number, counts: boolean): void;
  /** Another page has gone on with it. */
  yielded(): void;
  failed(error: unknown): void;
}

export class Following {
  constructor(
    private readonly _cells: INotebookCells,
    private readonly _server: IShownServer,
    private readonly _by: IFollower
  ) {}

  /** The cells whose steps are followed. */
  get cells(): readonly string[] {
    return [...this._followed.keys()];
  }

  has(cell: string, seq?: number): boolean {
    const followed = this._followed.get(cell);
    return followed !== undefined && (seq === undefined || followed.seq === seq);
  }

  /** Something of a request was heard; false where its step is not followed. */
  heard(request: string): boolean {
    for (const each of this._followed.values()) {
      if (each.request === request) {
        if (each.asking) {
          each.rung = true;
        } else if (each.quiet > 0 || each.timer === undefined) {
          each.quiet = 0;
          this._wait(each);
        }
        return true;
      }
    }
    return false;
  }

  /** Follow it no more. */
  leave(cell: string): void {
    const followed = this._followed.get(cell);
    if (followed !== undefined) {
      this._leave(followed);
    }
  }

  /** @param shown what the cell shows of it by now */
  follow(session: string, step: ICellStep, shown: IShown): void {
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
      this._by.failed(error);
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
    const claimed = await this._by.claim(session);
    if (!claimed && this._cells.shared) {
      // This page slept, and another one has gone on.
      this._leave(followed);
      this._by.yielded();
      return;
    }
    for (;;) {
      const told = await this._server.shown(session, seq, followed.next);
      const cell = this._cells.cell(followed.cell);
      if (this._followed.get(followed.cell) !== followed) {
        return;
      }
      if (cell === null || this._by.gone(session)) {
        this._leave(followed);
        return;
      }
      followed.quiet = told.messages.length > 0 ? 0 : followed.quiet + 1;
      followed.next = told.next;
      const over = told.outcome !== null && !told.more;
      const counts = claimed && this._by.counts(told);
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
      await this._by.touch(session, told, counts);
      if (over) {
        this._ask(followed, null);
        this._leave(followed);
        this._cells.forget(followed.request);
        this._by.over(seq, counts);
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
          this._by.failed(error);
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

  private readonly _followed = new Map<string, IFollowed>();
}
