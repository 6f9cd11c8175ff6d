/** The line on the left of the list, drawn as SVG: a mark for each end, a branch for each fork. */

import type { Outcome } from './tokens';

const SVG = 'http://www.w3.org/2000/svg';

export type Mark = Outcome | 'running' | 'fork' | 'origin' | 'waiting';

/** Paths in a box of 24 × 28, the line in the middle of it. */
const MARKS: Readonly<Record<Mark, string>> = {
  ok: 'M12 10a4 4 0 1 0 0 8a4 4 0 1 0 0-8',
  running: 'M12 10a4 4 0 1 0 4 4',
  error: 'M8.5 10.5l7 7M15.5 10.5l-7 7',
  died: 'M8.5 10.5l7 7M15.5 10.5l-7 7',
  lost: 'M12 9l5 5l-5 5l-5-5z',
  interrupted: 'M8.5 10.5h7v7h-7z',
  timeout: 'M8.5 10.5h7v7h-7z',
  fork: 'M12 28C12 19 19 22 19 13M19 7a3 3 0 1 0 0 6a3 3 0 1 0 0-6',
  origin: 'M12 28C12 19 19 22 19 13M16 7h6v6h-6z',
  waiting: 'M12 14v0.01'
};

/** The line above and below a mark; a mark that is open is not crossed by it. */
const LINES: Readonly<Record<'through' | 'around' | 'first' | 'last' | 'only', string>> = {
  through: 'M12 0V28',
  around: 'M12 0V9M12 19V28',
  first: 'M12 19V28',
  last: 'M12 0V9',
  only: ''
};

/** A glyph that is drawn anew in place. */
export class Glyph {
  constructor() {
    this.node = document.createElementNS(SVG, 'svg');
    this.node.setAttribute('viewBox', '0 0 24 28');
    this.node.setAttribute('aria-hidden', 'true');
    this.node.setAttribute('class', 'jp-Reprise-Timeline-glyph');
    this._line = document.createElementNS(SVG, 'path');
    this._line.setAttribute('class', 'jp-Reprise-Timeline-line');
    this._mark = document.createElementNS(SVG, 'path');
    this.node.append(this._line, this._mark);
  }

  readonly node: SVGSVGElement;

  /** first, last: whether no step stands above, or below. */
  draw(mark: Mark, first: boolean, last: boolean): void {
    const key = `${mark} ${first} ${last}`;
    if (key === this._drawn) {
      return;
    }
    this._drawn = key;
    const through = mark === 'fork' || mark === 'origin' || mark === 'waiting';
    this._line.setAttribute(
      'd',
      through
        ? first
          ? LINES.only
          : LINES.through
        : first && last
          ? LINES.only
          : first
            ? LINES.first
            : last
              ? LINES.last
              : LINES.around
    );
    this._mark.setAttribute('d', MARKS[mark]);
    this._mark.setAttribute('class', `jp-Reprise-Timeline-mark jp-Reprise-Timeline-mark-${mark}`);
  }

  private readonly _line: SVGPathElement;
  private readonly _mark: SVGPathElement;
  private _drawn = '';
}
