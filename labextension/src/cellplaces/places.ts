// Adds widgets to the header and the footer of cells, whoever's content factory made those.

import type { Cell } from '@jupyterlab/cells';
import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { Message } from '@lumino/messaging';
import { Panel, PanelLayout, Widget } from '@lumino/widgets';

import type { ICellPlaces } from './tokens';

type Where = 'header' | 'footer';

/** The classes that JupyterLab gives a cell's header and footer, whatever widget they are. */
const PLACES: Readonly<Record<Where, string>> = {
  header: 'jp-Cell-header',
  footer: 'jp-Cell-footer'
};

/** What is added to one place of one cell, ordered by rank. */
class Place extends Panel {
  constructor(where: Where) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-cellplace');
    this.addClass(`jp-mod-${where}`);
    // Else "D D" on a focused button deletes the cell.
    this.node.dataset['lmSuppressShortcuts'] = 'true';
  }

  add(widget: Widget, rank: number): void {
    const after = this._placed.findIndex(each => each.rank > rank);
    const index = after < 0 ? this._placed.length : after;
    this._placed.splice(index, 0, { widget, rank });
    this.insertWidget(index, widget);
    this.show();
  }

  protected override onChildRemoved(message: Widget.ChildMessage): void {
    super.onChildRemoved(message);
    this._placed = this._placed.filter(each => each.widget !== message.child);
    this.setHidden(this._placed.length === 0);
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    for (const each of QUIET) {
      this.node.addEventListener(each, quiet);
    }
  }

  protected override onBeforeDetach(message: Message): void {
    for (const each of QUIET) {
      this.node.removeEventListener(each, quiet);
    }
    super.onBeforeDetach(message);
  }

  private _placed: { readonly widget: Widget; readonly rank: number }[] = [];
}

/** What the notebook would take for its own: it selects, drags and edits cells by these. */
const QUIET = ['mousedown', 'dblclick', 'contextmenu', 'keydown'] as const;

function quiet(event: Event): void {
  event.stopPropagation();
}

/** The places of all cells of a page. */
export class CellPlaces implements ICellPlaces {
  header(cell: Cell, widget: Widget, rank = 100): IDisposable {
    return this._add('header', cell, widget, rank);
  }

  footer(cell: Cell, widget: Widget, rank = 100): IDisposable {
    return this._add('footer', cell, widget, rank);
  }

  private _add(where: Where, cell: Cell, widget: Widget, rank: number): IDisposable {
    const added = new DisposableDelegate(() => {
      cell.disposed.disconnect(added.dispose, added);
      widget.disposed.disconnect(added.dispose, added);
      widget.dispose();
    });
    cell.disposed.connect(added.dispose, added);
    widget.disposed.connect(added.dispose, added);
    const put = (): void => {
      if (!added.isDisposed && !cell.isDisposed) {
        this._place(where, cell).add(widget, rank);
      }
    };
    if (placeOf(where, cell) === null) {
      // The notebook has not rendered it yet.
      void cell.ready.then(put);
    } else {
      put();
    }
    return added;
  }

  private _place(where: Where, cell: Cell): Place {
    const places = this._places.get(cell) ?? {};
    const known = places[where];
    if (known !== undefined && !known.isDisposed) {
      return known;
    }
    const made = new Place(where);
    this._places.set(cell, { ...places, [where]: made });
    const host = placeOf(where, cell);
    if (host !== null && host.layout === null) {
      host.layout = new PanelLayout();
    }
    if (host !== null && host.layout instanceof PanelLayout) {
      host.addClass('jp-Reprise-has-place');
      host.layout.addWidget(made);
    } else {
      // Another extension's header that lays itself out: stand beside it.
      const layout = cell.layout as PanelLayout;
      const at = host === null ? -1 : layout.widgets.indexOf(host);
      if (at < 0) {
        layout.addWidget(made);
      } else {
        layout.insertWidget(where === 'header' ? at + 1 : at, made);
      }
    }
    return made;
  }

  private readonly _places = new WeakMap<Cell, Partial<Record<Where, Place>>>();
}

function placeOf(where: Where, cell: Cell): Widget | null {
  const layout = cell.layout;
  if (!(layout instanceof PanelLayout)) {
    return null;
  }
  return layout.widgets.find(each => each.hasClass(PLACES[where])) ?? null;
}
