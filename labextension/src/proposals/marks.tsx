// The marks of one notebook panel: each at its cell, moved with it, and the way from one to the next.

import { ReactWidget } from '@jupyterlab/apputils';
import type { Cell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { UseSignal } from '@jupyterlab/ui-components';
import { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import * as React from 'react';

import { CELL_RANKS, ICellPlaces } from '../cellplaces/tokens';
import { ChangedView } from './changed';
import { anchorOf, IAnchor, Mark } from './model';
import { ISurroundings, ProposalView } from './proposal';
import type { NotebookEdits } from './service';

/** One mark at a cell. It is drawn anew as what is known of it changes. */
class MarkWidget extends ReactWidget {
  constructor(
    private readonly _key: string,
    private readonly _marks: PanelMarks
  ) {
    super();
    this.addClass('jp-Reprise-cellmark-widget');
  }

  protected override render(): React.JSX.Element {
    const { edits, around } = this._marks;
    return (
      <UseSignal signal={edits.changed}>
        {() => {
          const mark = edits.marks.find(each => each.key === this._key);
          if (mark === undefined) {
            return null;
          }
          return mark.kind === 'changed' ? (
            <ChangedView mark={mark} edits={edits} around={around} />
          ) : (
            <ProposalView
              proposal={mark}
              edits={edits}
              around={around}
              move={step => this._marks.move(mark, step)}
            />
          );
        }}
      </UseSignal>
    );
  }
}

interface IPlaced {
  readonly anchor: IAnchor;
  readonly cell: Cell;
  readonly node: HTMLElement;
  readonly placed: IDisposable;
}

/** Keeps the marks of a panel where they belong. */
export class PanelMarks implements IDisposable {
  constructor(
    readonly panel: NotebookPanel,
    readonly edits: NotebookEdits,
    readonly around: ISurroundings,
    private readonly _places: ICellPlaces
  ) {
    edits.changed.connect(this._settle, this);
    panel.disposed.connect(this.dispose, this);
    this._settle();
  }

  isDisposed = false;

  /** Show a mark: its cell in view, the focus on its group, never in its frame. */
  show(mark: Mark): void {
    const placed = this._placed.get(mark.key);
    if (placed === undefined) {
      return;
    }
    const { content } = this.panel;
    const index = content.widgets.indexOf(placed.cell);
    void content.scrollToItem(index, 'smart').then(() => {
      const node = [...placed.cell.node.querySelectorAll<HTMLElement>('[data-mark]')].find(
        each => each.dataset['mark'] === mark.key
      );
      node?.scrollIntoView({ block: 'nearest' });
      node?.focus({ preventScroll: true });
    });
  }

  /** To the next or the previous cell of the same question. */
  move(from: Mark, step: 1 | -1): void {
    const all = this.edits.marks.filter(
      each =>
        each.kind === 'proposal' && from.kind === 'proposal' && each.question === from.question
    );
    const at = all.findIndex(each => each.key === from.key);
    const next = all[(at + step + all.length) % all.length];
    if (next !== undefined) {
      this.show(next);
    }
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this.edits.changed.disconnect(this._settle, this);
    this.panel.disposed.disconnect(this.dispose, this);
    this._placed.forEach(each => each.placed.dispose());
    this._placed.clear();
    Signal.clearData(this);
  }

  private _settle(): void {
    const { marks } = this.edits;
    const cells = new Map(this.panel.content.widgets.map(each => [each.model.id, each]));
    const order = [...cells.keys()];
    const wanted = new Set<string>();
    for (const mark of marks) {
      const anchor = anchorOf(mark, order, marks);
      const cell = cells.get(anchor.cell);
      if (cell === undefined) {
        continue;
      }
      wanted.add(mark.key);
      const known = this._placed.get(mark.key);
      if (known !== undefined) {
        if (known.cell === cell && known.anchor.place === anchor.place) {
          continue;
        }
        known.placed.dispose();
      }
      const widget = new MarkWidget(mark.key, this);
      const placed =
        anchor.place === 'header'
          ? this._places.header(cell, widget, CELL_RANKS.proposal)
          : this._places.footer(cell, widget, CELL_RANKS.proposal);
      this._placed.set(mark.key, { anchor, cell, node: widget.node, placed });
    }
    for (const [key, { node, placed }] of this._placed) {
      if (!wanted.has(key)) {
        const focused = node.contains(document.activeElement);
        // A key that is still held down in a frame must not go on in the notebook.
        const framed = document.activeElement instanceof HTMLIFrameElement;
        this._placed.delete(key);
        placed.dispose();
        if (focused && !framed) {
          this.panel.content.activate();
        }
      }
    }
  }

  private readonly _placed = new Map<string, IPlaced>();
}
