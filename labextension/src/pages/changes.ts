// The server's requests about a notebook, read strictly, and what they would make of its cells (pure).

/** A cell's type and source, as a change expects it or puts it there. */
export interface IText {
  readonly type: string;
  readonly source: string;
}

/** nbformat JSON of a cell; the server writes it. */
export type CellJson = Readonly<Record<string, unknown>>;

/** One change of a batch (docs/agent-notebook.md, "What a page answers"). */
export type Change =
  | {
      readonly what: 'insert';
      readonly cell: string;
      readonly after: string;
      readonly put: CellJson;
    }
  | {
      readonly what: 'replace';
      readonly cell: string;
      readonly expect: IText | null;
      readonly put: CellJson;
      readonly mark: CellJson;
    }
  | { readonly what: 'delete'; readonly cell: string; readonly expect: IText | null }
  | {
      readonly what: 'move';
      readonly cell: string;
      readonly expect: IText | null;
      readonly after: string;
    }
  | {
      readonly what: 'outputs';
      readonly cell: string;
      readonly outputs: readonly CellJson[];
      readonly count: number | null;
    };

export type Asked =
  { readonly do: 'read' } | { readonly do: 'apply'; readonly changes: readonly Change[] };

/** What a page answers. */
export type Answer =
  | { readonly notebook: object }
  | { readonly applied: true }
  | { readonly stale: readonly string[] }
  | { readonly error: string };

/** A request that is none. Its message is what the agent reads. */
export class BadRequest extends Error {}

/** Raises BadRequest. */
export function askedOf(asks: unknown): Asked {
  const given = record(asks, 'The request');
  if (given['do'] === 'read') {
    return { do: 'read' };
  }
  if (given['do'] !== 'apply' || !Array.isArray(given['changes'])) {
    throw new BadRequest(`This page does not know how to ${String(given['do']).slice(0, 40)}.`);
  }
  return { do: 'apply', changes: given['changes'].map(changeOf) };
}

function changeOf(value: unknown): Change {
  const given = record(value, 'A change');
  const cell = text(given['cell'], 'cell');
  const expect = given['expect'] === undefined ? null : textOf(given['expect']);
  switch (given['what']) {
    case 'insert': {
      const put = record(given['put'], '`put`');
      text(put['cell_type'], 'put.cell_type');
      return { what: 'insert', cell, after: text(given['after'], 'after'), put };
    }
    case 'replace': {
      const put = record(given['put'], '`put`');
      text(put['cell_type'], 'put.cell_type');
      text(put['source'], 'put.source');
      const mark = given['mark'] === undefined ? {} : record(given['mark'], '`mark`');
      return { what: 'replace', cell, expect, put, mark };
    }
    case 'delete':
      return { what: 'delete', cell, expect };
    case 'move':
      return { what: 'move', cell, expect, after: text(given['after'], 'after') };
    case 'outputs': {
      const count = given['execution_count'] ?? null;
      if (!Array.isArray(given['outputs']) || (count !== null && typeof count !== 'number')) {
        throw new BadRequest('A change of outputs lacks `outputs` or `execution_count`.');
      }
      const outputs = given['outputs'].map(each => record(each, 'An output'));
      return { what: 'outputs', cell, outputs, count };
    }
    default:
      throw new BadRequest(`This page knows no change ${String(given['what']).slice(0, 40)}.`);
  }
}

function textOf(value: unknown): IText {
  const given = record(value, '`expect`');
  return {
    type: text(given['type'], 'expect.type'),
    source: text(given['source'], 'expect.source')
  };
}

function record(value: unknown, name: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new BadRequest(`${name} is no object.`);
  }
  return value as Record<string, unknown>;
}

function text(value: unknown, name: string): string {
  if (typeof value !== 'string') {
    throw new BadRequest(`\`${name}\` is no text.`);
  }
  return value;
}

/** A cell as staleness is found by. */
export interface ICellText extends IText {
  readonly id: string;
}

/**
 * The cells that are not as the changes expect them, or not there; none where all can be made.
 *
 * What an earlier change of the same batch made of a cell is no surprise: only the first has
 * `expect`. An `after` that is not there is stale as well.
 */
export function staleOf(cells: readonly ICellText[], changes: readonly Change[]): string[] {
  const order = cells.map(each => each.id);
  const texts = new Map<string, IText>(cells.map(each => [each.id, each]));
  const stale = new Set<string>();
  const place = (cell: string, after: string): void => {
    const at = after === '' ? 0 : order.indexOf(after) + 1;
    if (after !== '' && at === 0) {
      stale.add(after);
    }
    order.splice(at, 0, cell);
  };
  for (const change of changes) {
    const { cell } = change;
    if (change.what === 'insert') {
      if (order.includes(cell)) {
        stale.add(cell);
      } else {
        place(cell, change.after);
        texts.set(cell, putText(change.put));
      }
      continue;
    }
    const now = texts.get(cell);
    if (now === undefined || !order.includes(cell)) {
      stale.add(cell);
      continue;
    }
    if (change.what === 'outputs') {
      if (now.type !== 'code') {
        stale.add(cell);
      }
      continue;
    }
    const { expect } = change;
    if (expect !== null && (expect.type !== now.type || expect.source !== now.source)) {
      stale.add(cell);
      continue;
    }
    if (change.what === 'replace') {
      texts.set(cell, putText(change.put));
    } else {
      order.splice(order.indexOf(cell), 1);
      if (change.what === 'move') {
        place(cell, change.after);
      }
    }
  }
  return [...stale];
}

function putText(put: CellJson): IText {
  const source = put['source'];
  return { type: String(put['cell_type']), source: typeof source === 'string' ? source : '' };
}
