// Cells of a notebook as they are brought into a message, by number and first line.

import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

import { firstLine } from '../parts/words';
import { fitting } from './mentions';
import type { IItem } from './message';
import type { ISource, ISuggestion } from './suggestions';

/** A cell's number as people count, from 1; null where it is not there. */
export function numberOf(panel: NotebookPanel, cell: string): number | null {
  const cells = panel.model?.sharedModel.cells ?? [];
  const at = cells.findIndex(each => each.getId() === cell);
  return at < 0 ? null : at + 1;
}

/** A cell as it is now; null where it is gone. */
export function cellItem(
  panel: NotebookPanel,
  cell: string,
  trans: TranslationBundle
): IItem | null {
  const found = panel.model?.sharedModel.cells.find(each => each.getId() === cell);
  const number = numberOf(panel, cell);
  if (found === undefined || number === null) {
    return null;
  }
  return {
    kind: 'cell',
    name: cell,
    title: trans.__('cell %1 (%2)', number, found.cell_type),
    content: found.getSource(),
    more: `read_notebook with cells=["${cell}"] shows it, with what it shows.`
  };
}

/** The cells of the notebook at hand. */
export class CellSource implements ISource {
  constructor(
    private readonly _panel: () => NotebookPanel | null,
    private readonly _trans: TranslationBundle
  ) {}

  find(words: string): Promise<readonly ISuggestion[]> {
    const panel = this._panel();
    const trans = this._trans;
    const cells = panel?.model?.sharedModel.cells ?? [];
    const active = panel?.content.activeCell?.model.id;
    const found = cells.map((cell, index): ISuggestion => {
      const id = cell.getId();
      const number = index + 1;
      return {
        key: `cell:${id}`,
        group: 'cells',
        label: trans.__('cell %1', number),
        detail: firstLine(cell.getSource(), 80),
        instead: trans.__('cell %1', number),
        bring: () => {
          const item = panel === null ? null : cellItem(panel, id, trans);
          return item === null
            ? Promise.reject(new Error(trans.__('That cell is not there any more.')))
            : Promise.resolve(item);
        }
      };
    });
    const number = /^(?:cell)?(\d+)$/i.exec(words)?.[1];
    if (number !== undefined) {
      return Promise.resolve(found.filter((_, index) => String(index + 1).startsWith(number)));
    }
    const here = found.find(each => each.key === `cell:${active ?? ''}`);
    const ordered = here === undefined ? found : [here, ...found.filter(each => each !== here)];
    return Promise.resolve(fitting(ordered, words));
  }
}
