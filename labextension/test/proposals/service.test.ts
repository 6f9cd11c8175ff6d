// What is known of edits is the newest that the server said, in whatever order its answers come.

import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { beforeEach, expect, it } from 'vitest';

import { EMPTY } from '../../src/agent/fold';
import type { IConversation } from '../../src/agent/tokens';
import type { IApi, Schemas } from '../../src/api/tokens';
import type { Pages } from '../../src/pages/service';
import { Kept } from '../../src/proposals/kept';
import type { IProposal } from '../../src/proposals/model';
import { IFollowed, NotebookEdits } from '../../src/proposals/service';

const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));
const signal = (): Signal<object, unknown> => new Signal<object, unknown>({});

interface ICell {
  id: string;
  source: string;
}

function edit(cell: string, source: string): object {
  return {
    turn: 1,
    cell,
    known: true,
    moved: false,
    behind: [],
    before: { cell_type: 'code', source: 'old' },
    after: { type: 'code', source }
  };
}

function setup(cells: ICell[]): {
  edits: NotebookEdits;
  typed: () => void;
  entered: () => void;
  answers: ((edits: object[]) => void)[];
} {
  const answers: ((edits: object[]) => void)[] = [];
  const entered = signal();
  const contentChanged = signal();
  const conversation = {
    id: 'c1',
    yours: true,
    model: EMPTY,
    pressed: () => null,
    entered,
    changed: signal()
  } as unknown as IConversation;
  const notebook = {
    path: 'a.ipynb',
    collaborative: false,
    changed: signal(),
    disposed: signal(),
    model: {
      contentChanged,
      sharedModel: {
        get cells() {
          return cells.map(({ id, source }) => ({
            cell_type: 'code',
            getId: () => id,
            getSource: () => source
          }));
        }
      }
    }
  } as unknown as IFollowed;
  const pages = { changed: signal(), conversationsOf: () => [conversation] } as unknown as Pages;
  const api = {
    events: signal(),
    connection: { restored: signal() },
    get: () =>
      new Promise(resolve => {
        answers.push(edits => resolve({ edits }));
      })
  } as unknown as IApi;
  const trans = nullTranslator.load('reprise');
  const kept = new Kept(null, '');
  return {
    edits: new NotebookEdits(notebook, pages, api, kept, null, trans),
    typed: () => contentChanged.emit(null),
    entered: () => entered.emit({ kind: 'result', body: { edits: [{}] } }),
    answers
  };
}

beforeEach(() => localStorage.clear());

it('shows what was asked for last, and what the cells hold now', async () => {
  const cells = [
    { id: 'a', source: 'one' },
    { id: 'b', source: 'two' }
  ];
  const { edits, typed, entered, answers } = setup(cells);
  entered();
  expect(answers).toHaveLength(2);
  answers[1]?.([edit('a', 'one'), edit('b', 'two')]);
  await settled();
  answers[0]?.([edit('a', 'one')]);
  await settled();
  expect(edits.marks.map(each => each.cell)).toEqual(['a', 'b']);
  cells[0] = { id: 'a', source: 'mine' };
  typed();
  await settled();
  expect(edits.marks.map(each => each.cell)).toEqual(['b']);
});

it('takes no answer back that a person gave', () => {
  const { edits } = setup([]);
  const decision = (...accepted: (boolean | null)[]): Schemas['Decision'] =>
    ({
      parts: accepted.map((each, at) => ({ part: `c${at}`, accepted: each, reason: null }))
    }) as unknown as Schemas['Decision'];
  const part = (cell: string): IProposal => ({ question: 'q', cell }) as unknown as IProposal;
  edits.told('q', decision(true, false));
  edits.told('q', decision(true, null));
  expect(edits.answerOf(part('c1'))).toEqual({ accepted: false, reason: null });
  expect(edits.answered('q')).toBe(2);
});

it('keeps what two tabs said to keep', () => {
  const [one, two] = [new Kept(localStorage, ''), new Kept(localStorage, '')];
  one.add('a');
  two.add('b');
  one.add('c');
  expect([...new Kept(localStorage, '').keys]).toEqual(['a', 'b', 'c']);
});
