/** What is asked before turns are undone names those that are; what is undone already asks nothing. */

import { nullTranslator } from '@jupyterlab/translation';
import { screen, waitFor } from '@testing-library/dom';
import { expect, it } from 'vitest';

import { EMPTY, foldAll } from '../../src/agent/fold';
import type { Turn } from '../../src/agent/model';
import type { IConversation, UndoPlan } from '../../src/agent/tokens';
import { dialogsOf } from '../../src/chat/dialogs';
import { OTHER, Story } from '../agent/entries';

const PLAN: UndoPlan = {
  turn: 2,
  at: 1,
  cells: [],
  kept: [],
  outside: [],
  others: [],
  notebook: null
};

const undone = { session: OTHER, at: 1, cells: [], kept: [], outside: [] };

function setup(story: Story): { first: Turn; said: string[]; conversation: IConversation } {
  const model = foldAll(EMPTY, story.entries);
  const said: string[] = [];
  const conversation = {
    model,
    undoPlan: () =>
      model.turns.every(each => each.undone !== null)
        ? Promise.reject(new Error('There is nothing to undo.'))
        : Promise.resolve(PLAN),
    resend: (turn: number, text: string) => {
      said.push(`${turn} ${text}`);
      return Promise.resolve();
    }
  } as unknown as IConversation;
  return { first: model.turns[0] as Turn, said, conversation };
}

const trans = nullTranslator.load('reprise');

it('says a turn anew that is undone already, without a question', async () => {
  const story = new Story()
    .begun()
    .said('One')
    .ended()
    .add('undone', { turn: 1, ...undone });
  const { first, said, conversation } = setup(story);
  expect(await dialogsOf(conversation, trans).resend(first, 'Otherwise')).toBe(true);
  expect(said).toEqual(['1 Otherwise']);
});

it('names the turns that are undone', async () => {
  const story = new Story()
    .begun()
    .said('One')
    .ended()
    .add('undone', { turn: 1, ...undone });
  story.said('Two').ended();
  const { first, said, conversation } = setup(story);
  const asked = dialogsOf(conversation, trans).resend(first, 'Otherwise');
  await waitFor(() => screen.getByText('Undo turn 2 and say it anew?'));
  screen.getByText('Cancel').click();
  expect(await asked).toBe(false);
  expect(said).toEqual([]);
});
