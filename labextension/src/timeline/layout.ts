/** Which line of the list is what: steps, the newest first, with forks where they leave. Pure. */

import type { IFork } from './tokens';

/** A step, by its place among those that fit (the oldest is 0). */
export interface IStepLine {
  readonly is: 'step';
  readonly row: number;
}

/** A session that leaves, above the last step that it shares. */
export interface IForkLine {
  readonly is: 'fork';
  readonly fork: IFork;
}

/** Where this session itself left another: between the shared steps and its own. */
export interface IOriginLine {
  readonly is: 'origin';
  readonly parent: string;
  readonly seq: number;
}

export type Line = IStepLine | IForkLine | IOriginLine;

/** Where a session comes from. */
export interface IOrigin {
  readonly parent: string;
  readonly seq: number;
}

type Extra = IForkLine | IOriginLine;

/**
 * The lines of a list of `found` steps. Lines are numbered from the top, 0 is the newest.
 *
 * Forks stand between steps only where all steps are listed: a row is its step's number then.
 */
export class Layout {
  constructor(found: number, forks: readonly IFork[] = [], origin: IOrigin | null = null) {
    this.found = found;
    const extras: Extra[] = forks
      .filter(fork => fork.seq < found)
      .map(fork => ({ is: 'fork', fork }));
    if (origin !== null && origin.seq < found) {
      extras.push({ is: 'origin', parent: origin.parent, seq: origin.seq });
    }
    // From the top. The sort is stable, so forks of one step keep their order.
    this._extras = extras.sort((a, b) => leaves(b) - leaves(a));
    // Above the line of extra n stand the steps behind it, and the n extras before it.
    this._at = this._extras.map((extra, n) => found - 1 - leaves(extra) + n);
  }

  readonly found: number;

  get length(): number {
    return this.found + this._extras.length;
  }

  /** What stands at a line, undefined outside of the list. */
  line(index: number): Line | undefined {
    if (index < 0 || index >= this.length) {
      return undefined;
    }
    const before = this._before(index);
    const extra = this._extras[before];
    if (extra !== undefined && this._at[before] === index) {
      return extra;
    }
    return { is: 'step', row: this.found - 1 - (index - before) };
  }

  /** The line at which a step's row stands. */
  indexOf(row: number): number {
    // Extras that leave at this row or behind it stand above it.
    let low = 0;
    let high = this._extras.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (leaves(this._extras[middle] as Extra) >= row) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return this.found - 1 - row + low;
  }

  /** The rows of the steps at lines from ≤ index < to, as first ≤ row < stop; null: none. */
  rows(from: number, to: number): readonly [number, number] | null {
    let first: number | null = null;
    let last: number | null = null;
    for (let index = Math.max(0, from); index < Math.min(to, this.length); index++) {
      const line = this.line(index);
      if (line?.is === 'step') {
        last ??= line.row;
        first = line.row;
      }
    }
    return first === null || last === null ? null : [first, last + 1];
  }

  /** How many extras stand above a line. */
  private _before(index: number): number {
    let low = 0;
    let high = this._at.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this._at[middle] as number) < index) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  private readonly _extras: readonly Extra[];
  private readonly _at: readonly number[];
}

function leaves(extra: Extra): number {
  return extra.is === 'fork' ? extra.fork.seq : extra.seq;
}
