/** A notebook that is looked at and not changed: its cells rendered without trust, none editable. */

import type { Cell } from '@jupyterlab/cells';
import { StaticNotebook } from '@jupyterlab/notebook';

export class PastNotebook extends StaticNotebook {
  constructor(options: StaticNotebook.IOptions) {
    super(options);
    this.addClass('jp-Reprise-Past-notebook');
  }

  protected override onCellInserted(index: number, cell: Cell): void {
    super.onCellInserted(index, cell);
    cell.readOnly = true;
  }
}
