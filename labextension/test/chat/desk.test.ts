/** Which conversation is shown: one host for each, however often one comes back to it. */

import { Signal } from '@lumino/signaling';
import { expect, it } from 'vitest';

import { EMPTY } from '../../src/agent/fold';
import type { IAgent, IConversation, IHeld } from '../../src/agent/tokens';
import { Desk } from '../../src/chat/desk';
import type { INotebookSession, ISessions } from '../../src/sessions/tokens';

const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

function notebook(name: string): INotebookSession {
  return {
    id: `s-${name}`,
    path: `${name}.ipynb`,
    panel: { id: `p-${name}` },
    statusChanged: new Signal<object, void>({})
  } as unknown as INotebookSession;
}

function setup(): { desk: Desk; opened: IHeld[]; go: (to: INotebookSession) => Promise<void> } {
  const opened: IHeld[] = [];
  const agent = {
    list: ({ session }: { session?: string }) =>
      Promise.resolve([{ id: `c-${session ?? ''}`, session }]),
    open: (id: string): IHeld => {
      const held = {
        isDisposed: false,
        dispose: () => {
          held.isDisposed = true;
        },
        conversation: {
          id,
          info: {},
          running: false,
          model: { ...EMPTY, session: id.slice(2) },
          changed: new Signal<object, void>({})
        } as unknown as IConversation
      };
      opened.push(held);
      return held;
    },
    show: () => undefined
  } as unknown as IAgent;
  const sessions = {
    current: null as INotebookSession | null,
    currentChanged: new Signal<object, void>({}),
    changed: new Signal<object, void>({})
  };
  const desk = new Desk(
    agent,
    sessions as unknown as ISessions,
    {
      undo: () => Promise.resolve(),
      fresh: () => Promise.resolve(),
      export: () => Promise.resolve()
    },
    { closed: () => '', where: () => '' }
  );
  const go = async (to: INotebookSession): Promise<void> => {
    sessions.current = to;
    sessions.currentChanged.emit();
    await settled();
  };
  return { desk, opened, go };
}

it('comes back to the very host of a conversation: what is queued in two would be sent twice', async () => {
  const { desk, opened, go } = setup();
  const [one, two] = [notebook('one'), notebook('two')];
  await go(one);
  const { host } = desk;
  expect(host.conversation).toBe('c-s-one');
  await go(two);
  expect(desk.host.conversation).toBe('c-s-two');
  await go(one);
  expect(desk.host).toBe(host);
  expect(opened).toHaveLength(2);
});

it('holds nothing of a conversation that is deleted', async () => {
  const { desk, opened, go } = setup();
  const one = notebook('one');
  await go(one);
  desk.forget('c-s-one');
  expect(desk.conversation).toBeNull();
  expect(opened[0]?.isDisposed).toBe(true);
  await go(notebook('two'));
  desk.choose('c-other');
  desk.forget('c-s-two');
  expect(desk.host.conversation).toBe('c-other');
  expect(opened.map(each => each.isDisposed)).toEqual([true, true, false]);
});
