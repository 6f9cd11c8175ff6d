// Which note stands at a cell whose newest step did not end by itself, and what it says (pure).

import { TranslationBundle } from '@jupyterlab/translation';

import type { ISessionStatus } from '../sessions/tokens';
import { memory } from '../status/words';

/** Ends of a step after which a cell gets a note. */
export type CutShort = 'died' | 'lost' | 'interrupted' | 'timeout';

/** The newest step of a cell, as the log has it. */
export interface ICutStep {
  readonly cell: string;
  readonly seq: number;
  readonly outcome: CutShort;
  readonly cause: Readonly<Record<string, unknown>>;
}

/** What can be done about it. `raise`: a limit of the environment. */
export type NoteAct = 'run' | 'step' | 'raise';

export interface INote {
  readonly seq: number;
  readonly kind: 'rolled-back' | 'kept' | 'gone';
  readonly text: string;
  readonly acts: readonly NoteAct[];
}

export function isCutShort(outcome: unknown): outcome is CutShort {
  return (
    outcome === 'died' || outcome === 'lost' || outcome === 'interrupted' || outcome === 'timeout'
  );
}

/** Null: nothing needs saying (what the step had done can be had again). */
export function noteOf(
  step: ICutStep,
  status: ISessionStatus,
  trans: TranslationBundle
): INote | null {
  const { seq, outcome, cause } = step;
  switch (outcome) {
    case 'died': {
      const text = trans.__(
        'Rolled back: %1. %2; the next cell works.',
        whyDied(cause, trans),
        stateBefore(seq, trans)
      );
      return { seq, kind: 'rolled-back', text, acts: acts(raisable(cause)) };
    }
    case 'lost':
      return { seq, kind: 'rolled-back', text: lostText(cause, trans), acts: acts(false) };
    case 'interrupted':
    case 'timeout':
      return keptNote(step, status, trans);
  }
}

function keptNote(step: ICutStep, status: ISessionStatus, trans: TranslationBundle): INote | null {
  const { seq, outcome, cause } = step;
  const what =
    outcome === 'timeout'
      ? trans.__('Stopped at its time limit%1.', limitOf(cause, trans))
      : trans.__('Interrupted.');
  const more = acts(outcome === 'timeout');
  if (status.back?.leftOut.includes(seq) === true) {
    const gone = trans.__('It was left out when the session came back: what it had done is gone.');
    return { seq, kind: 'gone', text: `${what} ${gone}`, acts: more };
  }
  const { snapshot } = status;
  if (snapshot !== null && snapshot.kind !== 'tree' && snapshot.seq >= seq) {
    return null;
  }
  const kept = trans.__('Its effects are here, but cannot be played again if the sandbox ends.');
  return { seq, kind: 'kept', text: `${what} ${kept}`, acts: more };
}

function lostText(cause: ICutStep['cause'], trans: TranslationBundle): string {
  return cause.what === 'aborted'
    ? trans.__('Not run: the language kernel refused it. State is as before.')
    : trans.__(
        'We stopped before its end was recorded. State is as before. It may have acted outside, so it runs only if you ask.'
      );
}

function stateBefore(seq: number, trans: TranslationBundle): string {
  return seq > 0
    ? trans.__('State is as after step %1', seq - 1)
    : trans.__('State is as at the beginning');
}

/** A few words; the cell's own output has the whole sentence. */
export function whyDied(cause: ICutStep['cause'], trans: TranslationBundle): string {
  switch (cause.what) {
    case 'memory':
      return typeof cause.limit === 'number'
        ? trans.__('out of memory (%1)', memory(cause.limit))
        : trans.__('out of memory');
    case 'timeout':
      return trans.__('over its time limit');
    case 'signal':
      return signalWords(cause.signal, trans);
    case 'exit':
      return trans.__('the language kernel exited by itself (code %1)', number(cause.code));
    case 'violation':
      return trans.__('the sandbox broke the protocol');
    case 'never sent':
      return trans.__('the sandbox was gone before it could begin');
    case 'shutdown':
      return trans.__('the kernel was shut down');
    case 'killed':
      return trans.__('the sandbox was ended');
    default:
      return trans.__('the sandbox vanished');
  }
}

function signalWords(signal: unknown, trans: TranslationBundle): string {
  switch (signal) {
    case 11:
      return trans.__('a segmentation fault');
    case 9:
      return trans.__('killed (signal 9)');
    case 6:
      return trans.__('aborted (signal 6)');
    default:
      return trans.__('ended by signal %1', number(signal));
  }
}

function number(value: unknown): string {
  return typeof value === 'number' ? String(value) : '?';
}

function limitOf(cause: ICutStep['cause'], trans: TranslationBundle): string {
  return typeof cause.limit_s === 'number' ? trans.__(' (%1 s)', cause.limit_s) : '';
}

function raisable(cause: ICutStep['cause']): boolean {
  return cause.what === 'memory' || cause.what === 'timeout';
}

function acts(raise: boolean): readonly NoteAct[] {
  return raise ? ['run', 'step', 'raise'] : ['run', 'step'];
}
