// A batch is made whole or not at all, over nobody's words, as one step of undo.

import { YNotebook } from '@jupyter/ydoc';
import { NotebookModel } from '@jupyterlab/notebook';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { answer, write } from '../../src/pages/apply';

interface Cell {
  id: string;
  cell_type: string;
  source: string;
  metadata: Record<string, unknown>;
  outputs?: unknown[];
  execution_count?: number | null;
}

function code(id: string, source = `${id} = 1`, more: Partial<Cell> = {}): Cell {
  return {
    id,
    cell_type: 'code',
    source,
    metadata: {},
    outputs: [],
    execution_count: null,
    ...more
  };
}

function notebook(...cells: Cell[]): NotebookModel {
  const model = new NotebookModel();
  model.fromJSON({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells: cells as never[] });
  model.sharedModel.clearUndoHistory();
  return model;
}

function cells(model: NotebookModel): Cell[] {
  const found = answer(model, { do: 'read' });
  const sent = JSON.parse(JSON.stringify(found)) as { notebook?: { cells: Cell[] } };
  return sent.notebook?.cells ?? [];
}

const sources = (model: NotebookModel): string[] => cells(model).map(each => each.source);
const apply = (model: NotebookModel, ...changes: object[]): object =>
  answer(model, { do: 'apply', changes });
const expect_ = (id: string): object => ({ type: 'code', source: `${id} = 1` });

describe('a batch of changes', () => {
  it('is made in its order, by ids, and told so', () => {
    const model = notebook(code('a'), code('b'), code('c'));
    const done = apply(
      model,
      {
        what: 'replace',
        cell: 'a',
        expect: expect_('a'),
        put: { cell_type: 'code', source: 'a = 2' },
        mark: { reprise_edited_by: 'agent' }
      },
      { what: 'insert', cell: 'n', after: 'a', put: code('', 'n = 1') },
      { what: 'insert', cell: 'm', after: 'n', put: { ...code('', '# m'), cell_type: 'markdown' } },
      { what: 'delete', cell: 'b', expect: expect_('b') },
      { what: 'move', cell: 'c', expect: expect_('c'), after: '' },
      { what: 'replace', cell: 'n', put: { cell_type: 'code', source: 'n = 2' } }
    );
    expect(done).toEqual({ applied: true });
    expect(sources(model)).toEqual(['c = 1', 'a = 2', 'n = 2', '# m']);
    expect(cells(model).map(each => each.id)).toEqual(['c', 'a', 'n', 'm']);
    expect(cells(model)[1]?.metadata).toEqual({ reprise_edited_by: 'agent' });
    // The live model is what pages show.
    expect(Array.from(model.cells, each => each.sharedModel.getSource())).toEqual(sources(model));
  });

  it.each([
    [
      { what: 'replace', cell: 'a', expect: { type: 'code', source: 'x' }, put: code('', 'y') },
      ['a']
    ],
    [
      { what: 'replace', cell: 'a', expect: { type: 'markdown', source: 'a = 1' }, put: code('') },
      ['a']
    ],
    [{ what: 'delete', cell: 'gone', expect: expect_('gone') }, ['gone']],
    [{ what: 'insert', cell: 'n', after: 'gone', put: code('') }, ['gone']],
    [{ what: 'insert', cell: 'b', after: '', put: code('') }, ['b']],
    [{ what: 'move', cell: 'a', expect: expect_('a'), after: 'gone' }, ['gone']],
    [{ what: 'outputs', cell: 'gone', outputs: [], execution_count: null }, ['gone']]
  ])('is not made where one is stale: %j', (change, stale) => {
    const model = notebook(code('a'), code('b'));
    const before = cells(model);
    const fine = { what: 'delete', cell: 'b', expect: expect_('b') };
    expect(apply(model, ...(change.cell === 'b' ? [] : [fine]), change)).toEqual({ stale });
    expect(cells(model)).toEqual(before);
    expect(model.sharedModel.canUndo()).toBe(false);
  });

  it.each([
    [{ do: 'dance' }, 'does not know how to dance'],
    [null, 'is no object'],
    [{ do: 'apply', changes: [{ what: 'explode', cell: 'a' }] }, 'knows no change explode'],
    [{ do: 'apply', changes: [{ what: 'insert', cell: 'a', after: '' }] }, '`put` is no object'],
    [
      { do: 'apply', changes: [{ what: 'replace', cell: 'a', put: { cell_type: 'code' } }] },
      'source'
    ]
  ])('that is none is answered in words: %j', (asks, words) => {
    const model = notebook(code('a'));
    const found = answer(model, asks);
    expect('error' in found && found.error).toContain(words);
    expect(sources(model)).toEqual(['a = 1']);
  });

  it('is one step of undo, between those of a person', () => {
    const model = notebook(code('a'), code('b'));
    const shared = model.sharedModel;
    shared.insertCell(0, code('mine', 'typed') as never);
    apply(
      model,
      { what: 'replace', cell: 'a', expect: expect_('a'), put: { cell_type: 'code', source: 'A' } },
      { what: 'insert', cell: 'n', after: 'a', put: code('', 'N') },
      { what: 'delete', cell: 'b', expect: expect_('b') }
    );
    shared.insertCell(0, code('later', 'later') as never);
    shared.undo();
    expect(sources(model)).toEqual(['typed', 'A', 'N']);
    shared.undo();
    expect(sources(model)).toEqual(['typed', 'a = 1', 'b = 1']);
    shared.redo();
    expect(sources(model)).toEqual(['typed', 'A', 'N']);
    shared.undo();
    shared.undo();
    expect(sources(model)).toEqual(['a = 1', 'b = 1']);
  });

  it('of outputs is no step of undo, and what is shown is not trusted', () => {
    const model = notebook(code('a', '1', { metadata: { trusted: true } }));
    const cell = model.cells.get(0);
    expect(cell.trusted).toBe(true);
    const html = { output_type: 'display_data', data: { 'text/html': '<b>x</b>' }, metadata: {} };
    apply(model, { what: 'outputs', cell: 'a', outputs: [html], execution_count: 7 });
    expect(cell.trusted).toBe(false);
    expect(cells(model)[0]).toMatchObject({
      execution_count: 7,
      metadata: { trusted: false },
      outputs: [html]
    });
    expect((cell as unknown as { outputs: { trusted: boolean } }).outputs.trusted).toBe(false);
    expect(model.sharedModel.canUndo()).toBe(false);
  });

  it('keeps what a cell showed when its source changes, and what only its old type has not', () => {
    const shown = [{ output_type: 'stream', name: 'stdout', text: '1' }];
    const model = notebook(code('a', 'a = 1', { outputs: shown, execution_count: 3 }));
    apply(model, { what: 'replace', cell: 'a', put: { cell_type: 'code', source: 'a = 2' } });
    expect(cells(model)[0]).toMatchObject({ outputs: shown, execution_count: 3 });
    apply(model, { what: 'replace', cell: 'a', put: { cell_type: 'markdown', source: '# a' } });
    expect(cells(model)[0]).toEqual({
      id: 'a',
      cell_type: 'markdown',
      metadata: {},
      source: '# a'
    });
    apply(model, { what: 'replace', cell: 'a', put: code('a', 'back', { outputs: shown }) });
    expect(cells(model)[0]).toMatchObject({ cell_type: 'code', source: 'back', outputs: shown });
  });

  it('puts a whole cell back, and nothing of what the agent marked stays', () => {
    const model = notebook(
      code('a', 'new', { metadata: { reprise_edited_by: 'agent', tags: [] } })
    );
    apply(model, { what: 'replace', cell: 'a', put: code('a', 'old', { metadata: { mine: 1 } }) });
    expect(cells(model)[0]).toMatchObject({ source: 'old', metadata: { mine: 1 } });
    expect(Object.keys(cells(model)[0]?.metadata ?? {})).toEqual(['mine']);
  });

  it('is not made in a notebook that is read-only', () => {
    const model = notebook(code('a'));
    model.readOnly = true;
    expect(apply(model, { what: 'delete', cell: 'a' })).toHaveProperty('error');
    expect(sources(model)).toEqual(['a = 1']);
  });

  it('gives a notebook of format 4.4 the ids by which it was read', () => {
    const model = new NotebookModel();
    const old = { ...code('x', 'old') } as Partial<Cell>;
    delete old.id;
    model.fromJSON({ nbformat: 4, nbformat_minor: 4, metadata: {}, cells: [old as never] });
    const [cell] = cells(model);
    expect(cell?.id).toMatch(/.+/);
    apply(model, { what: 'replace', cell: cell?.id, put: { cell_type: 'code', source: 'new' } });
    expect(model.sharedModel.toJSON()).toMatchObject({
      nbformat_minor: 5,
      cells: [{ id: cell?.id, source: 'new' }]
    });
  });
});

describe('a source', () => {
  it('is written where it differs alone, and never within a character', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '\n', '😀', '😁'), maxLength: 12 });
    fc.assert(
      fc.property(text, text, (before, after) => {
        const shared = YNotebook.create();
        const cell = shared.addCell({ cell_type: 'raw', source: before });
        const seen: string[] = [];
        cell.changed.connect(() => seen.push(cell.getSource()));
        write(cell, after);
        expect(cell.getSource()).toBe(after);
        // It throws at half of one.
        seen.forEach(each => encodeURIComponent(each));
      })
    );
  });
});
