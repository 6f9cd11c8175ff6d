// What the status button and its popup say of a session, in words (pure).

import type { TranslationBundle } from '@jupyterlab/translation';

import type { IDeath, INotice, ISessionStatus } from '../sessions/tokens';

import { moment } from '../parts/words';

/** The button's words, and how they are marked: `tone` only chooses the icon beside them. */
export interface IFace {
  readonly label: string;
  readonly tone: 'ready' | 'busy' | 'waits' | 'trouble' | 'none';
  /** What the button is, for those who hear it. */
  readonly name: string;
}

/** `4.0 GiB`: limits are set in powers of two, so that is how they are told. */
export function memory(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1023.5 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const places = unit > 0 && value < 10 ? 1 : 0;
  return `${value.toFixed(places)} ${units[unit] ?? ''}`;
}

/** `12 s`, `4 min`, `2 h`: what is left, as exact as an estimate can be. */
export function about(seconds: number, trans: TranslationBundle): string {
  if (seconds < 90) {
    return trans.__('%1 s', Math.max(1, Math.ceil(seconds)));
  }
  if (seconds < 5_400) {
    return trans.__('%1 min', Math.round(seconds / 60));
  }
  return trans.__('%1 h', Math.round(seconds / 3_600));
}

/** How long coming back still takes, counted on from when it was told. Null: nobody can say. */
export function left(status: ISessionStatus, now: Date): number | null {
  const told = status.resume?.remaining ?? null;
  if (told === null) {
    return null;
  }
  const since = status.heard === null ? 0 : (now.getTime() - status.heard.getTime()) / 1_000;
  return Math.max(0, told - since);
}

/** What the button shows. `back`: words about a resume that has just ended, shown for a while. */
export function face(
  status: ISessionStatus,
  back: string | null,
  now: Date,
  trans: TranslationBundle
): IFace {
  const open = status.backend !== null && !status.backend.isolated;
  const [words, tone] = stateWords(status, now, trans);
  let label = words;
  if (status.state === 'ready' || status.state === 'running') {
    const wall = open ? trans.__('Not isolated') : trans.__('isolated');
    label = back ?? (status.backend === null ? words : trans.__('%1 · %2', words, wall));
    if (back !== null && open) {
      label = trans.__('%1 · %2', back, wall);
    }
  } else if (open) {
    // Whatever else is said, this is.
    label = trans.__('%1 · %2', words, trans.__('Not isolated'));
  }
  return {
    label,
    tone: open && tone === 'ready' ? 'waits' : tone,
    name: trans.__('Session: %1', label)
  };
}

function stateWords(
  status: ISessionStatus,
  now: Date,
  trans: TranslationBundle
): [string, IFace['tone']] {
  switch (status.state) {
    case 'ready':
    case 'running':
      return [trans.__('Ready'), 'ready'];
    case 'resuming': {
      const seconds = left(status, now);
      const text =
        seconds === null
          ? trans.__('Coming back')
          : trans.__('Coming back · %1', about(seconds, trans));
      return [text, 'busy'];
    }
    case 'waiting':
      return [trans.__('Ready to come back'), 'waits'];
    case 'stopped':
      return [stoppedAt(status, trans), 'waits'];
    case 'held':
      return [trans.__('Open elsewhere'), 'trouble'];
    case 'failed':
      return [trans.__('No sandbox'), 'trouble'];
    case 'ended':
      return [trans.__('No kernel'), 'none'];
    case 'starting':
    case 'unknown':
      return [trans.__('Starting'), 'busy'];
  }
}

function stoppedAt(status: ISessionStatus, trans: TranslationBundle): string {
  const { resume } = status;
  return resume === null
    ? trans.__('Stopped')
    : trans.__('Stopped at %1 of %2', resume.done, resume.total);
}

/** Why the sandbox went: "Sandbox ran out of memory (4.0 GiB) at step 42." Null: it did not. */
export function deathLine(status: ISessionStatus, trans: TranslationBundle): string | null {
  const { death } = status;
  if (death === null) {
    return null;
  }
  const { limit, seq, text, what } = death;
  if (what === 'memory') {
    const limited = limit === null ? '' : trans.__(' (%1)', memory(limit));
    return seq === null
      ? trans.__('Sandbox ran out of memory%1.', limited)
      : trans.__('Sandbox ran out of memory%1 at step %2.', limited, seq);
  }
  const why = text.replace(/\.$/, '') || trans.__('it vanished');
  return seq === null
    ? trans.__('The sandbox is gone: %1.', why)
    : trans.__('The sandbox went at step %1: %2.', seq, why);
}

/** The sentences of a state that is not simply ready; empty where there is nothing to say. */
export function stateLines(
  status: ISessionStatus,
  now: Date,
  trans: TranslationBundle
): readonly string[] {
  switch (status.state) {
    case 'resuming':
      return [resumeLine(status, now, trans)];
    case 'waiting':
      return [
        status.plan === null
          ? trans.__('Ready to come back. Starts with your first cell.')
          : trans.__(
              'Ready to come back: about %1 (%2). Starts with your first cell.',
              about(status.plan.seconds, trans),
              steps(status.plan.steps, trans)
            )
      ];
    case 'stopped':
      return [trans.__('%1. The log is whole.', stoppedAt(status, trans))];
    case 'held':
      return [heldLine(status, trans)];
    case 'failed':
      return [status.text ?? trans.__('No sandbox could be started. The log is whole.')];
    case 'ended':
      return [
        trans.__('The kernel is not running. The log is whole: it comes back with the next one.')
      ];
    case 'starting':
    case 'unknown':
      return status.text === null ? [trans.__('A sandbox is being started.')] : [status.text];
    case 'ready':
    case 'running':
      return status.running === null ? [] : [trans.__('Step %1 is running.', status.running)];
  }
}

function resumeLine(status: ISessionStatus, now: Date, trans: TranslationBundle): string {
  const { resume } = status;
  if (resume === null) {
    return trans.__('The steps are being played again.');
  }
  const from =
    resume.from === null
      ? trans.__('Playing %1 from the beginning.', steps(resume.total, trans))
      : trans.__('Playing %1 from snapshot %2.', steps(resume.total, trans), resume.from);
  const seconds = left(status, now);
  return seconds === null ? from : trans.__('%1 About %2.', from, about(seconds, trans));
}

function heldLine(status: ISessionStatus, trans: TranslationBundle): string {
  const since = status.held?.since ?? null;
  const at = since === null ? null : new Date(since);
  return at === null || Number.isNaN(at.getTime())
    ? trans.__('Open in another kernel. Close it there or fork.')
    : trans.__('Open in another kernel since %1. Close it there or fork.', hour(at));
}

function hour(at: Date): string {
  // Minutes are enough for "since"; another day is named.
  return moment(at).replace(/^(\d{1,2}:\d{2}):\d{2}$/, '$1');
}

/** `1 step`, `212 steps`. */
export function steps(number: number, trans: TranslationBundle): string {
  return trans._n('%1 step', '%1 steps', number);
}

/** "Back at step 41 in 11 s", from the notice that ends a resume. Null: it is none. */
export function backLine(notice: INotice, trans: TranslationBundle): string | null {
  if (notice.code !== 'resumed') {
    return null;
  }
  const seconds = notice.detail.seconds;
  const step = /^Back at step (\d+)/.exec(notice.text)?.[1];
  if (step === undefined || typeof seconds !== 'number') {
    return null;
  }
  return trans.__('Back at step %1 in %2', step, about(seconds, trans));
}

/** "After step 30, 13:40"; what there is to come back from. */
export function snapshotLine(status: ISessionStatus, trans: TranslationBundle): string {
  const { snapshot } = status;
  if (snapshot === null) {
    return trans.__('None: coming back plays all steps');
  }
  const at = snapshot.at === null ? null : new Date(snapshot.at);
  const where =
    snapshot.kind === 'tree'
      ? trans.__('Files after step %1', snapshot.seq)
      : trans.__('After step %1', snapshot.seq);
  return at === null || Number.isNaN(at.getTime()) ? where : `${where}, ${hour(at)}`;
}

/** What one hears when a state becomes another; null: nothing worth saying. */
export function announcement(
  before: ISessionStatus,
  status: ISessionStatus,
  trans: TranslationBundle
): { text: string; assertive: boolean } | null {
  const { state } = status;
  if (state === before.state) {
    return null;
  }
  if (state === 'held' || state === 'failed') {
    return { text: stateLines(status, new Date(), trans).join(' '), assertive: true };
  }
  // A death is told until a later step has ended well, so it may be known from before a restart.
  const went = state === 'resuming' || state === 'waiting' || !same(before.death, status.death);
  if ((before.state === 'ready' || before.state === 'running') && status.death !== null && went) {
    return { text: deathLine(status, trans) ?? '', assertive: true };
  }
  if (state === 'stopped' || state === 'waiting') {
    return { text: stateLines(status, new Date(), trans).join(' '), assertive: false };
  }
  return null;
}

function same(before: IDeath | null, now: IDeath | null): boolean {
  return before?.seq === now?.seq && before?.what === now?.what && before?.text === now?.text;
}

/** Of how many parts of a resume were passed between two moments: 25, 50, 75 or null. */
export function quarter(before: ISessionStatus, now: ISessionStatus): number | null {
  const share = (status: ISessionStatus): number =>
    status.resume === null || status.resume.total === 0
      ? 0
      : (100 * status.resume.done) / status.resume.total;
  const [was, is] = [share(before), share(now)];
  return [75, 50, 25].find(mark => was < mark && is >= mark && is < 100) ?? null;
}

/** A share in whole percent. */
export function percent(done: number, total: number): number {
  return total <= 0 ? 0 : Math.round((100 * Math.min(done, total)) / total);
}
