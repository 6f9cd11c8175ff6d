/** What of conversations is said to screen readers, and heard: questions, answers, failures. Never tokens. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';

import type { Entry } from '../agent/model';
import type { IAgent, IConversation, Told } from '../agent/tokens';
import type { IAnnouncer } from '../parts/tokens';
import { record, word } from '../agent/bodies';

/** Announce all conversations that are open, until what is returned is disposed. */
export function announceConversations(
  agent: IAgent,
  announcer: IAnnouncer,
  sound: () => boolean,
  trans: TranslationBundle
): IDisposable {
  const heard = new Map<IConversation, IDisposable>();
  const look = (): void => {
    const open = new Set(agent.opened);
    for (const [conversation, listening] of heard) {
      if (!open.has(conversation)) {
        heard.delete(conversation);
        listening.dispose();
      }
    }
    for (const conversation of open) {
      if (!heard.has(conversation)) {
        heard.set(conversation, announce(conversation, announcer, sound, trans));
      }
    }
  };
  agent.openedChanged.connect(look);
  look();
  return new DisposableDelegate(() => {
    agent.openedChanged.disconnect(look);
    for (const listening of heard.values()) {
      listening.dispose();
    }
  });
}

function announce(
  conversation: IConversation,
  announcer: IAnnouncer,
  sound: () => boolean,
  trans: TranslationBundle
): IDisposable {
  let live = false;
  let answering = false;
  const entered = (_: IConversation, entry: Entry): void => {
    if (!live) {
      return; // what was there before is no news
    }
    const body = record(entry.body);
    if (entry.kind === 'question') {
      const act = record(body['act']);
      const title = word(act['title']);
      announcer.assertive(
        title === ''
          ? trans.__('The agent asks you a question.')
          : trans.__('The agent wants to %1. It waits for you.', title)
      );
      if (sound()) {
        chime();
      }
    } else if (entry.kind === 'result' && body['status'] === 'error') {
      announcer.polite(trans.__('A call of the agent failed.'));
    } else if (entry.kind === 'ended') {
      answering = false;
      announcer.polite(
        body['status'] === 'done'
          ? trans.__('The answer is complete.')
          : trans.__('The turn has ended before its end.')
      );
    }
  };
  const told = (_: IConversation, said: Told): void => {
    if (said.type === 'told') {
      live = true;
    } else if (said.type === 'hello') {
      live = false;
    } else if (said.type === 'delta' && !answering && live) {
      answering = true;
      announcer.polite(trans.__('The agent answers.'));
    }
  };
  conversation.entered.connect(entered);
  conversation.told.connect(told);
  return new DisposableDelegate(() => {
    conversation.entered.disconnect(entered);
    conversation.told.disconnect(told);
  });
}

/** A short sound of two notes, for whoever switched it on. */
function chime(): void {
  const context = new AudioContext();
  const gain = context.createGain();
  gain.connect(context.destination);
  gain.gain.setValueAtTime(0.08, context.currentTime);
  gain.gain.exponentialRampToValueAtTime(0.001, context.currentTime + 0.5);
  for (const [note, at] of [
    [660, 0],
    [880, 0.15]
  ] as const) {
    const oscillator = context.createOscillator();
    oscillator.frequency.value = note;
    oscillator.connect(gain);
    oscillator.start(context.currentTime + at);
    oscillator.stop(context.currentTime + at + 0.3);
  }
  setTimeout(() => void context.close(), 1_000);
}
