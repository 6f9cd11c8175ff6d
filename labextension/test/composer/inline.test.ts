// An input at a cell writes to the notebook's conversation, or begins it; stopped as soon as it can be.

import { Signal } from '@lumino/signaling';
import { expect, it } from 'vitest';

import { EMPTY } from '../../src/agent/fold';
import type { BeginAsked, IAgent, IConversation, IHeld } from '../../src/agent/tokens';
import { Drafts } from '../../src/composer/drafts';
import { InlineHost } from '../../src/composer/inline';
import { Writing } from '../../src/composer/writing';

const WHERE = {
  path: 'a.ipynb',
  cell: 'c',
  session: () => 's1',
  unknown: 'not known',
  another: 'not yours'
};

function conversation(more: object = {}): IHeld & { stopped: number } {
  const made = {
    stopped: 0,
    isDisposed: false,
    dispose: () => undefined,
    conversation: {
      id: 'c1',
      info: null,
      yours: false,
      model: EMPTY,
      changed: new Signal<object, void>({}),
      say: () => Promise.resolve(),
      cancel: () => {
        made.stopped += 1;
        return Promise.resolve();
      },
      ...more
    } as unknown as IConversation
  };
  return made;
}

it('begins the conversation, and is stopped where Stop was pressed meanwhile', async () => {
  const held = conversation();
  const begun: BeginAsked[] = [];
  let begin!: () => void;
  const agent = {
    begin: (asked: BeginAsked) => {
      begun.push(asked);
      return new Promise<IHeld>(resolve => (begin = () => resolve(held)));
    }
  } as unknown as IAgent;
  const host = new InlineHost(agent, WHERE, null);
  const writing = new Writing(host, new Drafts(null, null, ''));
  writing.write('Why?');
  const sent = writing.submit();
  await Promise.resolve();
  expect(host.state).toBe('running');
  await writing.stop();
  begin();
  expect(await sent).toBe('sent');
  expect(begun).toEqual([{ session: 's1', notebook: 'a.ipynb', title: 'Why?' }]);
  expect(held.stopped).toBe(1);
});

it('says why nothing can be asked, and is not closed before it is known', () => {
  const agent = {} as IAgent;
  expect(new InlineHost(agent, { ...WHERE, session: () => null }, null).why).toBe('not known');
  expect(new InlineHost(agent, WHERE, conversation()).state).toBe('ready');
  const others = new InlineHost(agent, WHERE, conversation({ info: {} }));
  expect([others.state, others.why]).toEqual(['closed', 'not yours']);
});
