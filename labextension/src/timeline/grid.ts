/** The list of steps: a grid of lines of one height, of which only those in view are in the page. */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { keyAct } from './keys';
import { Layout } from './layout';
import type { IOrigin, Line } from './layout';
import { lineKey, LineView } from './lineview';
import { isOpen } from './source';
import { scrolledTo, tall, viewport } from './viewport';
import type { IHistory, IStepFilter, IStepRow } from './tokens';

/** Pixels of a line, as the style sheet has it. */
export const LINE = 28;

/** Where a menu is asked for, in pixels of the window. */
export interface IMenuWish {
  readonly row: IStepRow;
  readonly x: number;
  readonly y: number;
}

export class StepGrid extends Widget {
  constructor(private readonly _trans: TranslationBundle) {
    super();
    this.addClass('jp-Reprise-Timeline-grid');
    this._box.className = 'jp-Reprise-Timeline-box';
    this._box.setAttribute('role', 'presentation');
    this.node.append(this._box);
    this.node.setAttribute('role', 'grid');
    this.node.setAttribute('aria-label', _trans.__('Steps, the newest first'));
    this.node.setAttribute('aria-multiselectable', 'true');
  }

  /** The step that the detail is of; null: none. */
  readonly activeChanged = new Signal<this, IStepRow | null>(this);
  readonly selectionChanged = new Signal<this, void>(this);
  /** A session of a branch was asked for. */
  readonly branchOpened = new Signal<this, string>(this);
  /** The detail of the active step was asked for. */
  readonly stepOpened = new Signal<this, IStepRow>(this);
  readonly menuAsked = new Signal<this, IMenuWish>(this);
  readonly left = new Signal<this, void>(this);
  /** `live` or `news` is other than before. */
  readonly liveChanged = new Signal<this, void>(this);

  /** What sessions are called, for branches. */
  nameOf: (session: string) => string = session => session;

  get origin(): IOrigin | null {
    return this._origin;
  }

  get history(): IHistory | null {
    return this._history;
  }

  get active(): IStepRow | null {
    const line = this._active;
    return line?.is === 'step' ? (this._history?.row(line.row) ?? null) : null;
  }

  /** Steps that were selected, the oldest first. */
  get selected(): readonly number[] {
    return [...this._selected].sort((a, b) => a - b);
  }

  /** New steps are shown as they come. */
  get live(): boolean {
    return this._live;
  }

  /** How many steps have come that are not shown, since the list was scrolled. */
  get news(): number {
    return Math.max(0, (this._history?.found ?? 0) - this._lines.found);
  }

  setHistory(history: IHistory | null, origin: IOrigin | null): void {
    this._engaged = false;
    this._history?.changed.disconnect(this._onChanged, this);
    this._history = history;
    this._origin = origin;
    history?.changed.connect(this._onChanged, this);
    this._selected.clear();
    this._list(this._follows);
    this._setActive(null);
    this.selectionChanged.emit(undefined);
  }

  /** Where the session comes from is known now, or is another place. */
  setOrigin(origin: IOrigin | null): void {
    this._origin = origin;
    this._relayout(this._lines.found);
    this._draw();
  }

  /** Whether new steps are shown as they come while the list is at its top, or when asked for. */
  setFollows(follows: boolean): void {
    if (follows === this._follows) {
      return;
    }
    this._follows = follows;
    if (!follows) {
      this.pause();
    } else if (this._atTop) {
      this._list(true);
    }
  }

  /** Show the newest steps, and go on doing so. */
  toTop(): void {
    this.node.scrollTop = 0;
    this._list(true);
  }

  /** Stay at the steps that are shown now. */
  pause(): void {
    this._live = false;
    this.liveChanged.emit(undefined);
  }

  /** The filter is another one: what is shown begins anew. Selected steps stay selected. */
  restart(): void {
    this._engaged = false;
    this._setActive(null);
    this.node.scrollTop = 0;
    this._list(this._follows);
  }

  /** The detail was closed: it opens when a step is asked for again, not because that has news. */
  release(): void {
    this._engaged = false;
    this._told = null;
  }

  /** Bring a row into view, and make it the active one. */
  reveal(row: number): void {
    this._engaged = true;
    if (row >= this._lines.found) {
      this._relayout();
    }
    this._setActive({ is: 'step', row });
    this._scrollTo(this._lines.indexOf(row), true);
  }

  /** Put the focus into the list. */
  focusActive(): void {
    if (this._active === null) {
      const first = this._lines.line(0);
      if (first !== undefined) {
        this._setActive(first);
      }
    }
    this._focusing = true;
    this._render();
  }

  handleEvent(event: Event): void {
    switch (event.type) {
      case 'scroll':
        this._onScroll();
        break;
      case 'mousedown':
        this._onPress(event as MouseEvent);
        break;
      case 'dblclick':
        this._open();
        break;
      case 'contextmenu':
        this._onMenu(event as MouseEvent);
        break;
      case 'keydown':
        this._onKey(event as KeyboardEvent);
        break;
      case 'pointerenter':
        this._hovered = true;
        break;
      case 'pointerleave':
        this._hovered = false;
        this._onChanged();
        break;
    }
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._history?.changed.disconnect(this._onChanged, this);
    cancelAnimationFrame(this._frame);
    Signal.clearData(this);
    super.dispose();
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    for (const type of EVENTS) {
      this.node.addEventListener(type, this, { passive: type === 'scroll' });
    }
    // What stands above and below grows and shrinks without a word of Lumino's.
    this._observer.observe(this.node);
    this.update();
  }

  protected override onBeforeDetach(msg: Message): void {
    for (const type of EVENTS) {
      this.node.removeEventListener(type, this);
    }
    this._observer.disconnect();
    super.onBeforeDetach(msg);
  }

  protected override onAfterShow(): void {
    this._measure();
  }

  protected override onUpdateRequest(): void {
    this._measure();
  }

  private _measure(): void {
    this._seen = this.node.clientHeight;
    this._render();
  }

  private _onChanged(): void {
    const found = this._history?.found ?? 0;
    // Under the pointer nothing moves: what is new waits until it has left.
    const live = this._live && !this._hovered;
    const other = this._lines.found === 0 || this._lines.found > found;
    if (live || other || this._history?.filter !== this._filter) {
      this._relayout();
    }
    this.liveChanged.emit(undefined);
    this._draw();
  }

  /** What is listed, from what is known now. */
  private _relayout(found = this._history?.found ?? 0): void {
    const history = this._history;
    const whole = history !== null && isOpen(history.filter);
    this._filter = history?.filter;
    this._lines = new Layout(found, whole ? history.forks : [], whole ? this._origin : null);
  }

  private get _atTop(): boolean {
    return this.node.scrollTop < LINE / 2;
  }

  /** List what there is. live: and what comes. */
  private _list(live: boolean): void {
    this._live = live;
    this._relayout();
    this.liveChanged.emit(undefined);
    this._draw();
  }

  private _onScroll(): void {
    const atTop = this._atTop;
    if (atTop && !this._live && this._follows) {
      this._list(true);
    } else if (!atTop && this._live) {
      this.pause();
    }
    this._draw();
  }

  /** Draw once, with the next frame. */
  private _draw(): void {
    if (this._frame === 0) {
      this._frame = requestAnimationFrame(() => {
        this._frame = 0;
        this._render();
      });
    }
  }

  private _render(): void {
    if (!this.isVisible || this.isDisposed) {
      return;
    }
    const layout = this._lines;
    const height = `${tall(layout.length, LINE)}px`;
    if (this._box.style.height !== height) {
      this._box.style.height = height;
      this.node.setAttribute('aria-rowcount', String(layout.length));
    }
    const { first, stop, shift } = viewport(layout.length, LINE, this.node.scrollTop, this._seen);
    const rows = layout.rows(first, stop);
    if (rows !== null) {
      this._history?.want(rows[0], rows[1]);
    }
    const shown = new Map<string, [number, Line]>();
    for (let index = first; index < stop; index++) {
      const line = layout.line(index);
      if (line !== undefined) {
        shown.set(lineKey(line), [index, line]);
      }
    }
    // The line that has the focus stays in the page, wherever it has been scrolled to.
    const active = this._active === null ? undefined : this._indexOf(this._active);
    if (active !== undefined && this._active !== null) {
      const key = lineKey(this._active);
      if (
        !shown.has(key) &&
        (this._focusing || this._views.get(key)?.node.contains(document.activeElement))
      ) {
        shown.set(key, [active, this._active]);
      }
    }
    this._place(shown, shift);
    if (this._focusing && this._active !== null) {
      this._focusing = false;
      this._views.get(lineKey(this._active))?.node.focus({ preventScroll: true });
    }
    this._tellActive();
  }

  /** Have exactly these lines in the page, in their order, in elements that are there already. */
  private _place(shown: ReadonlyMap<string, readonly [number, Line]>, shift: number): void {
    const spare: LineView[] = [];
    for (const [key, view] of this._views) {
      if (!shown.has(key)) {
        this._views.delete(key);
        spare.push(view);
      }
    }
    const focusable = this._active === null ? null : lineKey(this._active);
    const someActive = focusable !== null && shown.has(focusable);
    let next: ChildNode | null = this._box.firstChild;
    let position = 0;
    for (const [key, [index, line]] of [...shown].sort((a, b) => a[1][0] - b[1][0])) {
      let view = this._views.get(key);
      if (view === undefined) {
        view = spare.pop() ?? new LineView(this._trans);
        this._views.set(key, view);
        this._of.set(view.node, view);
      }
      const row = line.is === 'step' ? this._history?.row(line.row) : undefined;
      view.show({
        index,
        line,
        row,
        selected: row !== undefined && this._selected.has(row.seq),
        active: someActive ? key === focusable : position === 0,
        first: index <= this._lines.indexOf(this._lines.found - 1),
        last: index === this._lines.length - 1,
        top: index * LINE + shift,
        name:
          line.is === 'fork' ? line.fork.name : line.is === 'origin' ? this.nameOf(line.parent) : ''
      });
      if (view.node === next) {
        next = next.nextSibling;
      } else {
        this._box.insertBefore(view.node, next);
      }
      position++;
    }
    for (const view of spare) {
      view.node.remove();
    }
  }

  private _indexOf(line: Line): number | undefined {
    if (line.is === 'step') {
      return line.row < this._lines.found ? this._lines.indexOf(line.row) : undefined;
    }
    const seq = line.is === 'fork' ? line.fork.seq : line.seq;
    // Lines of branches stand right above the step that they leave at.
    const below = seq < 0 ? this._lines.length : this._lines.indexOf(seq);
    for (let index = below - 1; index >= 0; index--) {
      const each = this._lines.line(index);
      if (each === undefined || each.is === 'step') {
        return undefined;
      }
      if (lineKey(each) === lineKey(line)) {
        return index;
      }
    }
    return undefined;
  }

  private _scrollTo(index: number, middle = false): void {
    const top = this.node.scrollTop;
    let to = scrolledTo(this._lines.length, LINE, top, this._seen, index);
    if (middle && to !== top) {
      to = Math.max(0, to + Math.sign(to - top) * (this._seen / 2 - LINE));
    }
    if (to !== top) {
      this.node.scrollTop = to;
      if (to >= LINE / 2) {
        this._live = false;
        this.liveChanged.emit(undefined);
      }
    }
    this._draw();
  }

  private _setActive(line: Line | null): void {
    this._active = line;
    this._tellActive();
    this._draw();
  }

  /** The active step is told once its row is here. */
  private _tellActive(): void {
    const row = this.active;
    const known = this._active !== null && this._active.is === 'step' && row === null;
    if (this._engaged && !known && row !== this._told) {
      this._told = row;
      this.activeChanged.emit(row);
    }
  }

  private _lineOf(event: Event): Line | null {
    for (
      let at = event.target as Node | null;
      at !== null && at !== this.node;
      at = at.parentNode
    ) {
      const view = this._of.get(at);
      if (view !== undefined) {
        return view.state?.line ?? null;
      }
    }
    return null;
  }

  private _onPress(event: MouseEvent): void {
    this._engaged = true;
    const line = this._lineOf(event);
    if (line === null) {
      return;
    }
    event.preventDefault();
    if (line.is !== 'step') {
      this._setActive(line);
      this._focus();
      if (event.button === 0) {
        this._open();
      }
      return;
    }
    const before = this._active;
    this._setActive(line);
    this._focus();
    if (event.button !== 0) {
      return;
    }
    if (event.ctrlKey || event.metaKey) {
      this._toggle(line.row);
    } else if (event.shiftKey && before?.is === 'step') {
      this._range(before.row, line.row);
    } else {
      this._select([line.row]);
    }
  }

  private _onMenu(event: MouseEvent): void {
    const line = this._lineOf(event);
    const row = line?.is === 'step' ? this._history?.row(line.row) : undefined;
    if (row !== undefined) {
      event.preventDefault();
      event.stopPropagation();
      this.menuAsked.emit({ row, x: event.clientX, y: event.clientY });
    }
  }

  private _onKey(event: KeyboardEvent): void {
    const act = keyAct(event);
    if (act === null) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    this._engaged = act.do !== 'leave';
    switch (act.do) {
      case 'move':
        this._move(act.by, event.shiftKey);
        break;
      case 'page':
        this._move(act.by * Math.max(1, Math.floor(this._seen / LINE) - 1), event.shiftKey);
        break;
      case 'first':
        this._moveTo(0, event.shiftKey);
        break;
      case 'last':
        this._moveTo(this._lines.length - 1, event.shiftKey);
        break;
      case 'toggle':
        if (this._active?.is === 'step') {
          this._toggle(this._active.row);
        } else {
          this._open();
        }
        break;
      case 'open':
        this._open();
        break;
      case 'menu':
        this._menuAtActive();
        break;
      case 'leave':
        this.left.emit(undefined);
        break;
    }
  }

  private _move(by: number, extend: boolean): void {
    const at = this._active === null ? -1 : (this._indexOf(this._active) ?? -1);
    this._moveTo(at < 0 ? 0 : at + by, extend);
  }

  private _moveTo(index: number, extend: boolean): void {
    const to = Math.min(Math.max(0, index), this._lines.length - 1);
    const line = this._lines.line(to);
    if (line === undefined) {
      return;
    }
    const before = this._active;
    this._setActive(line);
    if (extend && before?.is === 'step' && line.is === 'step') {
      this._range(before.row, line.row, true);
    }
    this._scrollTo(to);
    this._focus();
  }

  private _menuAtActive(): void {
    const row = this.active;
    const view = this._active === null ? undefined : this._views.get(lineKey(this._active));
    if (row !== null && view !== undefined) {
      const box = view.node.getBoundingClientRect();
      this.menuAsked.emit({ row, x: box.left + 24, y: box.bottom });
    }
  }

  private _open(): void {
    const line = this._active;
    if (line?.is === 'fork') {
      this.branchOpened.emit(line.fork.session);
    } else if (line?.is === 'origin') {
      this.branchOpened.emit(line.parent);
    } else if (this.active !== null) {
      this.stepOpened.emit(this.active);
    }
  }

  private _focus(): void {
    this._focusing = true;
    this._draw();
  }

  private _toggle(row: number): void {
    const seq = this._history?.row(row)?.seq;
    if (seq !== undefined && !this._selected.delete(seq)) {
      this._selected.add(seq);
    }
    this.selectionChanged.emit(undefined);
    this._draw();
  }

  private _range(from: number, to: number, add = false): void {
    const rows: number[] = [];
    for (let row = Math.min(from, to); row <= Math.max(from, to); row++) {
      rows.push(row);
    }
    this._select(rows, add);
  }

  private _select(rows: readonly number[], add = false): void {
    if (!add) {
      this._selected.clear();
    }
    for (const row of rows) {
      const seq = this._history?.row(row)?.seq;
      if (seq !== undefined) {
        this._selected.add(seq);
      }
    }
    this.selectionChanged.emit(undefined);
    this._draw();
  }

  private readonly _observer = new ResizeObserver(() => this._measure());
  private readonly _box = document.createElement('div');
  private _history: IHistory | null = null;
  private _origin: IOrigin | null = null;
  private _lines = new Layout(0);
  /** The filter under which these lines were found. */
  private _filter: IStepFilter | undefined = undefined;
  private readonly _views = new Map<string, LineView>();
  private readonly _of = new WeakMap<Node, LineView>();
  private readonly _selected = new Set<number>();
  private _active: Line | null = null;
  private _told: IStepRow | null = null;
  private _follows = true;
  private _live = true;
  private _hovered = false;
  private _focusing = false;
  /** A step was asked for by a press, a key or a link: a mere focus opens no detail. */
  private _engaged = false;
  private _seen = 0;
  private _frame = 0;
}

const EVENTS = [
  'scroll',
  'mousedown',
  'dblclick',
  'contextmenu',
  'keydown',
  'pointerenter',
  'pointerleave'
] as const;
