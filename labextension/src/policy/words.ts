// How levels, decisions and outcomes are said (pure).

import type { TranslationBundle } from '@jupyterlab/translation';

import { IFindings, IOutcome } from './tokens';

export function levelWord(level: string, trans: TranslationBundle): string {
  switch (level) {
    case 'server':
      return trans.__('This server');
    case 'organisation':
      return trans.__('Organisation');
    case 'personal':
      return trans.__('Yours');
    case 'default':
      return trans.__('Built in');
    default:
      return level;
  }
}

export function decisionWord(decision: string, trans: TranslationBundle): string {
  switch (decision) {
    case 'allow':
      return trans.__('Allow');
    case 'ask':
      return trans.__('Ask');
    default:
      return trans.__('Deny');
  }
}

/** "Ask, by team/7." */
export function outcomeWords(outcome: Pick<IOutcome, 'verdict'>, trans: TranslationBundle): string {
  const { decision, rule } = outcome.verdict;
  return trans.__('%1, by %2.', decisionWord(decision, trans), rule);
}

/** "Of the last 200 calls 3 would change." */
export function trialWords(trial: IFindings['trial'], trans: TranslationBundle): string {
  if (trial === null || trial.calls === 0) {
    return trans.__('No call yet on which it could be tried.');
  }
  return trans._n(
    'Of the last call %3 would change.',
    'Of the last %2 calls %3 would change.',
    trial.calls,
    trial.calls.toLocaleString(),
    trial.changes.length.toLocaleString()
  );
}

/** A rule in a line: what it is about, after its name and decision. */
export function conditions(rule: Readonly<Record<string, unknown>>): string {
  return Object.entries(rule)
    .filter(([name]) => !['name', 'decision', 'why'].includes(name))
    .map(([name, value]) => `${name}: ${shown(value)}`)
    .join(' · ');
}

function shown(value: unknown): string {
  if (Array.isArray(value)) {
    return value.map(each => (Array.isArray(each) ? each.join(' ') : String(each))).join(', ');
  }
  return String(value);
}
