// What stands at which cell follows from entries and live cells alone, so it is there after a reload.

import { createHash } from 'node:crypto';

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { Question } from '../../src/agent/model';
import {
  anchorOf,
  canonical,
  editsOf,
  hashOf,
  IChanged,
  inserts,
  IProposal,
  lines,
  proposalsOf,
  proposed,
  puttingBack,
  readAs,
  standing
} from '../../src/proposals/model';

function question(edits: unknown, tool = 'edit_notebook'): Question {
  return { id: 'q1', act: { tool, input: { notebook: 'n.ipynb', edits } } } as unknown as Question;
}

const EDITS = [
  { do: 'replace', cell: 'a', was: 'h', type: 'code', source: 'one' },
  { do: 'insert', cell: 'n', after: 'a', type: 'code', source: 'new' },
  { do: 'insert', cell: 'm', after: 'n', type: 'markdown', source: '# new' },
  { do: 'replace', cell: 'a', was: 'h2', type: 'code', source: 'two' },
  { do: 'delete', cell: 'b', was: 'h3' },
  { do: 'move', cell: 'c', was: 'h4', after: '' }
];

const at = (all: readonly IProposal[], cell: string): IProposal => {
  const found = all.find(each => each.cell === cell);
  if (found === undefined) {
    throw new Error(`nothing is proposed for ${cell}`);
  }
  return found;
};

describe('proposals', () => {
  const all = proposalsOf('c1', question(EDITS));

  it('are one for each cell, counted', () => {
    expect(all.map(each => [each.cell, each.number, each.count])).toEqual([
      ['a', 1, 5],
      ['n', 2, 5],
      ['m', 3, 5],
      ['b', 4, 5],
      ['c', 5, 5]
    ]);
    expect(new Set(all.map(each => each.key)).size).toBe(5);
    expect(at(all, 'a').edits).toHaveLength(2);
  });

  it('say what a cell would be, and as what it was read', () => {
    const now = { type: 'code', source: 'now' };
    expect(proposed(at(all, 'a'), now)?.source).toBe('two');
    expect(proposed(at(all, 'n'), null)?.source).toBe('new');
    expect(proposed(at(all, 'b'), now)).toBeNull();
    expect(proposed(at(all, 'c'), now)).toEqual(now);
    expect([readAs(at(all, 'a')), readAs(at(all, 'n')), readAs(at(all, 'b'))]).toEqual([
      'h',
      null,
      'h3'
    ]);
    expect([inserts(at(all, 'n')), inserts(at(all, 'a'))]).toEqual([true, false]);
  });

  it('stand at their cell, or below the one that they would follow', () => {
    const order = ['x', 'a', 'b', 'c'];
    expect(anchorOf(at(all, 'b'), order, all)).toEqual({ cell: 'b', place: 'header' });
    expect(anchorOf(at(all, 'n'), order, all)).toEqual({ cell: 'a', place: 'footer' });
    expect(anchorOf(at(all, 'm'), order, all)).toEqual({ cell: 'a', place: 'footer' });
    expect(anchorOf(at(all, 'n'), ['x'], all)).toEqual({ cell: 'x', place: 'header' });
  });

  it('are none of other calls, and nothing breaks by what is no edit', () => {
    expect(proposalsOf('c1', question(EDITS, 'run_command'))).toEqual([]);
    expect(proposalsOf('c1', { id: 'q', act: null } as unknown as Question)).toEqual([]);
    fc.assert(
      fc.property(fc.anything(), given => {
        for (const each of editsOf(given)) {
          expect(typeof each.cell).toBe('string');
        }
      })
    );
  });

  it('that follow each other in a circle end', () => {
    const circle = proposalsOf(
      'c1',
      question([
        { do: 'insert', cell: 'p', after: 'q', type: 'code', source: '' },
        { do: 'insert', cell: 'q', after: 'p', type: 'code', source: '' }
      ])
    );
    expect(anchorOf(at(circle, 'p'), ['x'], circle)).toEqual({ cell: 'x', place: 'header' });
  });
});

describe('a hash', () => {
  it('is the one that the server reckons', async () => {
    // tests/agent: hash_of('code', 'a = "ü\u2028😀\x7f\t"\n')
    const text = { type: 'code', source: 'a = "ü\u2028😀\x7f\t"\n' };
    expect(canonical(text)).toBe('["code","a = \\"\\u00fc\\u2028\\ud83d\\ude00\\u007f\\t\\"\\n"]');
    const expected = createHash('sha256').update(canonical(text)).digest('hex');
    expect(await hashOf(text)).toBe(expected);
    expect(expected).toBe('73925ed5cc91711fd2fc989dcac60aad52d3f4da1b71d627f1e3792245f1ee1a');
  });
});

type Edit = IChanged['edit'];

function edit(given: Partial<Edit>): Edit {
  return {
    cell: 'a',
    turn: 3,
    before: { id: 'a', cell_type: 'code', source: 'old', metadata: {}, outputs: [] },
    known: true,
    behind: [],
    after: { type: 'code', source: 'new' },
    moved: false,
    ...given
  } as Edit;
}

describe('what was changed', () => {
  const cells = new Map([['a', { type: 'code', source: 'new' }]]);

  it('stands while the cell is as the agent left it', () => {
    expect(standing('c', [edit({})], cells, new Set())).toHaveLength(1);
    const typed = new Map([['a', { type: 'code', source: 'new!' }]]);
    expect(standing('c', [edit({})], typed, new Set())).toEqual([]);
    expect(standing('c', [edit({ after: null })], cells, new Set())).toEqual([]);
    expect(standing('c', [edit({ cell: 'gone', after: null })], cells, new Set())).toHaveLength(1);
    expect(standing('c', [edit({ cell: 'gone' })], cells, new Set())).toEqual([]);
  });

  it('does not once a person keeps it, until a later turn changes it again', () => {
    const [mark] = standing('c', [edit({})], cells, new Set());
    const kept = new Set([mark?.key ?? '']);
    expect(standing('c', [edit({})], cells, kept)).toEqual([]);
    expect(standing('c', [edit({ turn: 4 })], cells, kept)).toHaveLength(1);
  });

  it('is put back by changes that expect what the agent left', () => {
    const order = ['x', 'y', 'a'];
    expect(puttingBack(edit({}), order)).toEqual([
      { what: 'replace', cell: 'a', expect: edit({}).after, put: edit({}).before }
    ]);
    expect(puttingBack(edit({ before: null }), order)).toEqual([
      { what: 'delete', cell: 'a', expect: edit({}).after }
    ]);
    const gone = edit({ cell: 'g', after: null, behind: ['z', 'y', 'x'] });
    expect(puttingBack(gone, order)).toEqual([
      { what: 'insert', cell: 'g', after: 'y', put: { ...gone.before, id: 'g' } }
    ]);
    const moved = edit({ moved: true, behind: ['x'] });
    expect(puttingBack(moved, order)[1]).toEqual({ what: 'move', cell: 'a', after: 'x' });
    expect(puttingBack(edit({ moved: true }), order)[1]).toMatchObject({ after: '' });
  });

  it('that is gone stands where it was', () => {
    const mark: IChanged = {
      kind: 'changed',
      key: 'k',
      conversation: 'c',
      cell: 'g',
      edit: edit({ cell: 'g', after: null, behind: ['z', 'y'] })
    };
    expect(anchorOf(mark, ['x', 'y'], [mark])).toEqual({ cell: 'y', place: 'footer' });
    expect(anchorOf(mark, ['x'], [mark])).toEqual({ cell: 'x', place: 'header' });
  });
});

describe('lines', () => {
  it('are those that people count', () => {
    expect(['', 'a', 'a\n', 'a\nb'].map(lines)).toEqual([0, 1, 1, 2]);
  });
});
