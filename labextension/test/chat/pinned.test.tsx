// What stood above the composer ends in words of its own only where it did not end in this page.

import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { act, fireEvent, render, screen, waitFor } from '@testing-library/react';
import * as React from 'react';
import { afterEach, expect, it, vi } from 'vitest';

import { EMPTY, foldAll } from '../../src/agent/fold';
import type { Entry } from '../../src/agent/model';
import type { IConversation } from '../../src/agent/tokens';
import { type Surroundings, SurroundingsProvider } from '../../src/chat/context';
import { Pinned } from '../../src/chat/pinned';
import { Story } from '../agent/entries';

vi.mock('../../src/chat/prose', () => ({ Prose: () => null }));

const PRESSED = { yours: true, decision: 'd', frame: '/f' };

class FakeConversation {
  readonly story = new Story().begun().said('Do it.');
  readonly changed = new Signal<this, void>(this);
  readonly streamed = new Signal<this, void>(this);
  readonly entered = new Signal<this, Entry>(this);
  readonly yours = true;
  model = EMPTY;

  pressed(): object {
    return PRESSED;
  }

  answer(): Promise<void> {
    return Promise.resolve();
  }

  deny(): Promise<void> {
    return Promise.resolve();
  }

  /** Tell what the story has gained. */
  tells(): void {
    const before = this.model.seq;
    this.model = foldAll(this.model, this.story.entries);
    act(() => {
      this.changed.emit();
      for (const entry of this.story.entries.filter(each => each.seq > before)) {
        this.entered.emit(entry);
      }
    });
  }
}

function shown(): FakeConversation {
  const conversation = new FakeConversation();
  conversation.tells();
  const around = { trans: nullTranslator.load('reprise') } as unknown as Surroundings;
  render(
    <SurroundingsProvider value={around}>
      <div className="jp-Reprise-chat">
        <div className="jp-Reprise-log" tabIndex={0} />
        <Pinned conversation={conversation as unknown as IConversation} />
      </div>
    </SurroundingsProvider>
  );
  return conversation;
}

const decided = { question: 'q1', decision: 'deny', how: 'frame', by: 'alice', reason: null };

afterEach(() => {
  document.body.replaceChildren();
  vi.unstubAllGlobals();
});

it('is told of another tab, not of this one', () => {
  vi.stubGlobal('isSecureContext', false);
  const conversation = shown();
  conversation.story.called('c1', 'run_command', 'run', 'ask').question('q1', 'c1');
  conversation.tells();
  fireEvent.click(screen.getByRole('button', { name: 'Deny' }));
  conversation.story.add('decided', decided);
  conversation.tells();
  expect(screen.queryByText('Denied in another tab.')).toBeNull();
  conversation.story.called('c2', 'run_command', 'run', 'ask').question('q2', 'c2');
  conversation.tells();
  conversation.story.add('decided', { ...decided, question: 'q2' });
  conversation.tells();
  expect(screen.queryByText('Denied in another tab.')).not.toBeNull();
});

it('says nothing of the answer to a question of the model’s own, and loses no focus', async () => {
  const conversation = shown();
  conversation.story.add('question', {
    id: 'q1',
    call: 'c1',
    text: 'Once or twice?',
    options: ['once', 'twice'],
    until_us: 0,
    act: null
  });
  conversation.tells();
  const option = screen.getByRole('button', { name: 'once' });
  option.focus();
  fireEvent.click(option);
  conversation.story.add('decided', { ...decided, decision: 'once', how: 'frame' });
  conversation.tells();
  expect(screen.queryByText('Allowed once in another tab.')).toBeNull();
  await waitFor(() => expect(document.activeElement?.className).toBe('jp-Reprise-log'));
});
