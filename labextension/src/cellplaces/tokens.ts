// Places at a cell where parts add notes: its header and its footer (interfaces only).

import type { Cell } from '@jupyterlab/cells';
import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { Widget } from '@lumino/widgets';

/** Adds widgets above and below a cell's input and outputs.
 *
 * They are children of the cell's own header and footer, so the notebook's content factory stays
 * whoever's it is. A cell that the notebook has not rendered yet gets them when it is; one that is
 * taken out of view and comes back keeps them. Keys pressed in them are no notebook commands. */
export interface ICellPlaces {
  /** Show `widget` above the cell, ordered by rank. Disposing the result takes it away and disposes
   * the widget; disposing the cell does the same. */
  header(cell: Cell, widget: Widget, rank?: number): IDisposable;
  /** Show `widget` below the cell's outputs, ordered by rank. */
  footer(cell: Cell, widget: Widget, rank?: number): IDisposable;
}

export const ICellPlaces = new Token<ICellPlaces>(
  '@jupyter-reprise/lab:ICellPlaces',
  'Adds notes to the header and the footer of cells.'
);

/** Ranks: what stands nearer to the cell's input has the higher one in a header, the lower in a footer. */
export const CELL_RANKS = { rolledBack: 100, staticOutput: 200, proposal: 300, ask: 400 } as const;
