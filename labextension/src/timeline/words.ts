/** Words for steps: their kinds, who asked, how they ended, how long they took. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { size } from '../parts/words';
import type { ActorKind, IActor, Outcome, StepKind } from './tokens';

export const KINDS: readonly StepKind[] = ['cell', 'command', 'upload', 'mount', 'comm', 'restart'];
export const ACTORS: readonly ActorKind[] = ['user', 'agent', 'system'];
/** Ends that a person looks for when something went wrong. */
export const FAILED: readonly Outcome[] = ['error', 'interrupted', 'timeout', 'died', 'lost'];

export function kindWord(trans: TranslationBundle, kind: StepKind): string {
  switch (kind) {
    case 'cell':
      return trans.__('cell');
    case 'command':
      return trans.__('command');
    case 'upload':
      return trans.__('upload');
    case 'mount':
      return trans.__('mount');
    case 'comm':
      return trans.__('widget');
    case 'restart':
      return trans.__('restart');
  }
}

export function actorWord(trans: TranslationBundle, actor: ActorKind): string {
  switch (actor) {
    case 'user':
      return trans.__('you');
    case 'agent':
      return trans.__('agent');
    case 'system':
      return trans.__('system');
  }
}

export function outcomeWord(trans: TranslationBundle, outcome: Outcome | null): string {
  switch (outcome) {
    case 'ok':
      return trans.__('ok');
    case 'error':
      return trans.__('error');
    case 'interrupted':
      return trans.__('interrupted');
    case 'timeout':
      return trans.__('timeout');
    case 'died':
      return trans.__('died');
    case 'lost':
      return trans.__('lost');
    case null:
      return trans.__('running');
  }
}

/** What an end meant for the state, in a sentence; null where it needs none. */
export function endSentence(trans: TranslationBundle, outcome: Outcome | null): string | null {
  switch (outcome) {
    case 'died':
      return trans.__('The sandbox went with it: state is as before this step.');
    case 'lost':
      return trans.__(
        'Its end was not recorded: state is as before this step. It may have acted outside.'
      );
    case 'interrupted':
      return trans.__('It was cut short; what it had done by then stayed.');
    case 'timeout':
      return trans.__('It ran over its time; what it had done by then stayed.');
    default:
      return null;
  }
}

/** A duration in the shortest exact-enough form: `12 ms`, `0.2 s`, `14.0 s`, `3:05 min`. */
export function took(seconds: number | null): string {
  if (seconds === null) {
    return '';
  }
  if (seconds < 0.0995) {
    return `${Math.round(seconds * 1000)} ms`;
  }
  if (seconds < 59.95) {
    return `${seconds.toFixed(1)} s`;
  }
  const whole = Math.round(seconds);
  if (whole < 3600) {
    return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')} min`;
  }
  return `${Math.floor(whole / 3600)}:${String(Math.floor((whole % 3600) / 60)).padStart(2, '0')} h`;
}

/** Who asked, for a person: an agent with its turn where that is known. */
export function actorSentence(trans: TranslationBundle, actor: IActor): string {
  if (actor.kind === 'agent' && actor.turn !== undefined) {
    return trans.__('agent, turn %1', actor.turn);
  }
  return actorWord(trans, actor.kind);
}

/** Why a step did not come to its end, as the kernel recorded it; null where it did not say. */
export function causeSentence(
  trans: TranslationBundle,
  cause: Readonly<Record<string, unknown>> | null
): string | null {
  switch (cause?.['what']) {
    case 'memory':
      return typeof cause['limit'] === 'number'
        ? trans.__('Out of memory (%1).', size(cause['limit']))
        : trans.__('Out of memory.');
    case 'signal':
      return cause['signal'] === 11
        ? trans.__('A segmentation fault.')
        : trans.__('Ended by signal %1.', Number(cause['signal']));
    case 'exit':
      return trans.__('The language kernel exited by itself.');
    case 'killed':
    case 'vanished':
      return trans.__('Its sandbox was ended.');
    case 'shutdown':
      return trans.__('The kernel was shut down while it ran.');
    case 'timeout':
      return trans.__('It ran over its time limit.');
    case 'interrupt':
      return trans.__('Interrupted.');
    default:
      return null;
  }
}
