/** One line of the list in the page: made once, filled anew with each line that it shows. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { exact } from '../parts/words';
import { Glyph } from './glyphs';
import type { Line } from './layout';
import { actorWord, kindWord, outcomeWord, took } from './words';
import type { IStepRow } from './tokens';

/** What a line shows. */
export interface ILineState {
  readonly index: number;
  readonly line: Line;
  /** Of a step: its row, undefined while it is not here. */
  readonly row: IStepRow | undefined;
  readonly selected: boolean;
  readonly active: boolean;
  readonly first: boolean;
  readonly last: boolean;
  readonly top: number;
  /** Of a branch: what the session that it leads to is called; else empty. */
  readonly name: string;
}

export class LineView {
  constructor(private readonly _trans: TranslationBundle) {
    this.node = document.createElement('div');
    this.node.setAttribute('role', 'row');
    const glyph = document.createElement('span');
    glyph.className = 'jp-Reprise-Timeline-gutter';
    glyph.setAttribute('aria-hidden', 'true');
    glyph.append(this._glyph.node);
    this.node.append(glyph);
    for (const name of ['seq', 'kind', 'who', 'outcome', 'text', 'took'] as const) {
      const cell = document.createElement('span');
      cell.setAttribute('role', 'gridcell');
      cell.className = `jp-Reprise-Timeline-cell jp-Reprise-Timeline-${name}`;
      this._cells[name] = cell;
      this.node.append(cell);
    }
  }

  readonly node: HTMLDivElement;

  get state(): ILineState | null {
    return this._state;
  }

  show(state: ILineState): void {
    const before = this._state;
    this._state = state;
    if (before?.top !== state.top) {
      this.node.style.transform = `translateY(${state.top}px)`;
    }
    if (before?.index !== state.index) {
      this.node.setAttribute('aria-rowindex', String(state.index + 1));
    }
    if (before?.active !== state.active) {
      this.node.tabIndex = state.active ? 0 : -1;
      this.node.classList.toggle('jp-mod-active', state.active);
    }
    const same =
      before !== null &&
      before.selected === state.selected &&
      before.first === state.first &&
      before.last === state.last &&
      before.row === state.row &&
      before.name === state.name &&
      sameLine(before.line, state.line);
    if (!same) {
      this._fill(state);
    }
  }

  private _fill(state: ILineState): void {
    const { line, row } = state;
    const trans = this._trans;
    this.node.className = `jp-Reprise-Timeline-row jp-mod-${line.is}`;
    this.node.classList.toggle('jp-mod-active', state.active);
    if (line.is === 'step') {
      this.node.setAttribute('aria-selected', String(state.selected));
    } else {
      this.node.removeAttribute('aria-selected');
      this.node.removeAttribute('aria-busy');
    }
    if (line.is !== 'step') {
      const seq = line.is === 'fork' ? line.fork.seq : line.seq;
      const { name } = state;
      this._glyph.draw(line.is, state.first, state.last);
      const text = line.is === 'fork' ? trans.__('fork: %1', name) : trans.__('left %1', name);
      const title =
        line.is === 'fork'
          ? trans.__('%1 goes on from step %2. Open its timeline.', name, seq)
          : trans.__('Here this session left %1, after step %2. Open its timeline.', name, seq);
      this.node.title = title;
      this._write(seq < 0 ? '' : String(seq), '', '', '', text, '');
      return;
    }
    this.node.setAttribute('aria-busy', String(row === undefined));
    if (row === undefined) {
      this._glyph.draw('waiting', state.first, state.last);
      this.node.removeAttribute('title');
      this._write('', '', '', '', '', '');
      this.node.classList.add('jp-mod-waiting');
      return;
    }
    this._glyph.draw(row.outcome ?? 'running', state.first, state.last);
    const outcome = outcomeWord(trans, row.outcome);
    this.node.classList.add(`jp-mod-${row.outcome ?? 'running'}`);
    const asked = exact(row.text);
    const shown = row.shown === null ? null : exact(row.shown);
    const text = row.lines > 1 ? `${asked} …` : asked;
    this.node.title = shown === null ? asked : `${asked}\n→ ${shown}`;
    this._write(
      String(row.seq),
      kindWord(trans, row.kind),
      actorWord(trans, row.actor.kind),
      outcome,
      text,
      took(row.duration_s),
      shown
    );
  }

  private _write(
    seq: string,
    kind: string,
    who: string,
    outcome: string,
    text: string,
    duration: string,
    shown: string | null = null
  ): void {
    this._cells.seq.textContent = seq;
    this._cells.kind.textContent = kind;
    this._cells.who.textContent = who;
    this._cells.outcome.textContent = outcome;
    this._cells.took.textContent = duration;
    const code = document.createElement('span');
    code.className = 'jp-Reprise-Timeline-asked';
    code.textContent = text;
    if (shown === null) {
      this._cells.text.replaceChildren(code);
    } else {
      const answer = document.createElement('span');
      answer.className = 'jp-Reprise-Timeline-shown';
      answer.textContent = shown;
      this._cells.text.replaceChildren(code, answer);
    }
  }

  private readonly _glyph = new Glyph();
  private readonly _cells = {} as Record<
    'seq' | 'kind' | 'who' | 'outcome' | 'text' | 'took',
    HTMLSpanElement
  >;
  private _state: ILineState | null = null;
}

/** Whether two lines are the same line of the list. */
export function sameLine(a: Line, b: Line): boolean {
  if (a.is === 'step') {
    return b.is === 'step' && a.row === b.row;
  }
  if (a.is === 'fork') {
    return b.is === 'fork' && a.fork === b.fork;
  }
  return b.is === 'origin' && a.parent === b.parent && a.seq === b.seq;
}

/** A text that tells lines apart. */
export function lineKey(line: Line): string {
  return line.is === 'step' ? `s${line.row}` : line.is === 'fork' ? `f${line.fork.session}` : 'o';
}
