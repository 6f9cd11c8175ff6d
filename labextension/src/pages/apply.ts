// A batch of the agent's changes made in a live notebook, in one transaction and one step of undo.

import type { ISharedCell, ISharedCodeCell, ISharedNotebook, SharedCell } from '@jupyter/ydoc';
import type { IOutput } from '@jupyterlab/nbformat';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { PartialJSONObject } from '@lumino/coreutils';

import { Answer, BadRequest, CellJson, Change, askedOf, staleOf } from './changes';

/** What the model of a notebook is asked for. */
export type LiveNotebook = Pick<INotebookModel, 'sharedModel' | 'cells' | 'readOnly'>;

/** Answer a request of the server's. It never throws: what went wrong is the answer. */
export function answer(notebook: LiveNotebook, asks: unknown): Answer {
  try {
    const asked = askedOf(asks);
    if (asked.do === 'read') {
      return { notebook: read(notebook.sharedModel) };
    }
    if (notebook.readOnly) {
      return { error: 'The notebook is open read-only in this page.' };
    }
    const stale = staleOf(notebook.sharedModel.cells.map(textOf), asked.changes);
    if (stale.length > 0) {
      return { stale };
    }
    make(notebook, asked.changes);
    return { applied: true };
  } catch (failed) {
    if (!(failed instanceof BadRequest)) {
      console.error('Reprise: a change of the notebook failed', failed);
    }
    return { error: failed instanceof Error ? failed.message : String(failed) };
  }
}

/** The notebook with what is not saved, every cell with its id: as the agent names them. */
export function read(shared: ISharedNotebook): object {
  return {
    ...shared.toJSON(),
    // A notebook below 4.5 is written without ids; those of the live cells are the ones that count.
    nbformat_minor: Math.max(shared.nbformat_minor, 5),
    cells: shared.cells.map(cell => ({ ...cell.toJSON(), id: cell.getId() }))
  };
}

function textOf(cell: ISharedCell): { id: string; type: string; source: string } {
  return { id: cell.getId(), type: cell.cell_type, source: cell.getSource() };
}

/** Of a shared notebook what its interface leaves out; another implementation may lack it. */
interface IWithUndo {
  undoManager?: { stopCapturing?: () => void };
  nbformat_minor: number;
}

function make(notebook: LiveNotebook, changes: readonly Change[]): void {
  const shared = notebook.sharedModel;
  const live = shared as unknown as IWithUndo;
  // What a cell showed is nobody's edit: undo leaves it alone.
  const undoable = changes.some(change => change.what !== 'outputs');
  const making = new Making(notebook);
  // What somebody typed just before is a step of undo of its own, and so is what comes after.
  live.undoManager?.stopCapturing?.();
  shared.transact(() => {
    if (undoable && shared.nbformat === 4 && shared.nbformat_minor < 5) {
      live.nbformat_minor = 5;
    }
    changes.forEach(change => making.change(change));
  }, undoable);
  live.undoManager?.stopCapturing?.();
}

/** The shared model tells its cells anew only at a transaction's end: they are followed here. */
class Making {
  constructor(notebook: LiveNotebook) {
    this._shared = notebook.sharedModel;
    this._cells = [...this._shared.cells];
    for (const model of notebook.cells) {
      this._untrust.set(model.id, () => {
        model.trusted = false;
      });
    }
  }

  change(change: Change): void {
    const at = this._cells.findIndex(each => each.getId() === change.cell);
    const cell = this._cells[at];
    if (change.what === 'insert') {
      this._insert(this._behind(change.after), { ...change.put, id: change.cell });
      return;
    }
    if (cell === undefined) {
      throw new BadRequest(`There is no cell ${change.cell}.`);
    }
    switch (change.what) {
      case 'replace':
        this._replace(at, cell, change.put, change.mark);
        break;
      case 'delete':
        this._delete(at);
        break;
      case 'move': {
        const kept = { ...cell.toJSON(), id: change.cell } as CellJson;
        this._delete(at);
        this._insert(this._behind(change.after), kept);
        break;
      }
      case 'outputs':
        this._paint(cell, change.outputs, change.count);
        break;
    }
  }

  private _behind(after: string): number {
    return this._cells.findIndex(each => each.getId() === after) + 1;
  }

  private _insert(at: number, json: CellJson): void {
    this._cells.splice(at, 0, this._shared.insertCell(at, json as unknown as SharedCell.Cell));
  }

  private _delete(at: number): void {
    this._cells.splice(at, 1);
    this._shared.deleteCell(at);
  }

  private _replace(at: number, cell: ISharedCell, put: CellJson, mark: CellJson): void {
    const id = cell.getId();
    const type = String(put['cell_type']);
    const metadata = {
      ...(put['metadata'] === undefined ? cell.getMetadata() : (put['metadata'] as object)),
      ...mark
    } as PartialJSONObject;
    if (type !== cell.cell_type) {
      // A cell of another type is another object; what only the old type has goes with it.
      const rest = Object.fromEntries(
        Object.entries(cell.toJSON()).filter(([key]) => !OF_ONE_TYPE.has(key))
      );
      this._delete(at);
      this._insert(at, {
        ...rest,
        ...(type === 'code' ? { outputs: [], execution_count: null } : {}),
        ...put,
        id,
        metadata
      });
      return;
    }
    write(cell, String(put['source']));
    for (const key of Object.keys(cell.getMetadata())) {
      if (!(key in metadata)) {
        cell.deleteMetadata(key);
      }
    }
    cell.setMetadata(metadata);
    if (cell.cell_type === 'code' && Array.isArray(put['outputs'])) {
      const count = put['execution_count'];
      const outputs = put['outputs'] as CellJson[];
      this._show(cell, outputs, typeof count === 'number' ? count : null);
    }
  }

  private _paint(cell: ISharedCell, outputs: readonly CellJson[], count: number | null): void {
    if (outputs.length > 0) {
      // Before they are there: what is trusted when it is shown may run scripts.
      this._untrust.get(cell.getId())?.();
      cell.setMetadata('trusted', false);
    }
    this._show(cell, outputs, count);
  }

  private _show(cell: ISharedCell, outputs: readonly CellJson[], count: number | null): void {
    if (isCode(cell)) {
      cell.setOutputs(outputs as unknown as IOutput[]);
      cell.execution_count = count;
    }
  }

  private readonly _shared: ISharedNotebook;
  private readonly _cells: ISharedCell[];
  private readonly _untrust = new Map<string, () => void>();
}

/** What a cell of one type has and one of another has not. */
const OF_ONE_TYPE: ReadonlySet<string> = new Set(['outputs', 'execution_count', 'attachments']);

function isCode(cell: ISharedCell): cell is ISharedCodeCell {
  return cell.cell_type === 'code';
}

/** Change only what is different between two sources, so that cursors and selections stay. */
export function write(cell: ISharedCell, source: string): void {
  const old = cell.getSource();
  if (old === source) {
    return;
  }
  const most = Math.min(old.length, source.length);
  let start = 0;
  while (start < most && old[start] === source[start]) {
    start += 1;
  }
  let end = 0;
  while (end < most - start && old[old.length - 1 - end] === source[source.length - 1 - end]) {
    end += 1;
  }
  // Not within a character of two halves.
  if (start > 0 && /[\ud800-\udbff]/.test(old[start - 1] ?? '')) {
    start -= 1;
  }
  if (end > 0 && /[\udc00-\udfff]/.test(old[old.length - end] ?? '')) {
    end -= 1;
  }
  cell.updateSource(start, old.length - end, source.slice(start, source.length - end));
}
