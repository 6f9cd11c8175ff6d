// How verdicts, states and counts are said and marked (pure).

import type { TranslationBundle } from '@jupyterlab/translation';

import { duration } from '../parts/words';
import { ReportHead, StepVerdict } from './tokens';

/** In the order of the report: what somebody has to look at first. */
export const VERDICTS: readonly StepVerdict[] = [
  'different',
  'could not run',
  'volatile',
  'skipped',
  'same'
];

/** A mark beside the word, so that no colour has to be seen. */
export const MARKS: Readonly<Record<StepVerdict, string>> = {
  same: '✓',
  volatile: '≈',
  different: '≠',
  'could not run': '✕',
  skipped: '–'
};

export function verdictWord(verdict: StepVerdict, trans: TranslationBundle): string {
  switch (verdict) {
    case 'same':
      return trans.__('same');
    case 'volatile':
      return trans.__('volatile');
    case 'different':
      return trans.__('different');
    case 'could not run':
      return trans.__('could not run');
    case 'skipped':
      return trans.__('skipped');
  }
}

/** What a verdict means, for a title. */
export function verdictMeaning(verdict: StepVerdict, trans: TranslationBundle): string {
  switch (verdict) {
    case 'same':
      return trans.__('It showed the same again.');
    case 'volatile':
      return trans.__('Equal but for what changes with every run: times, addresses, identifiers.');
    case 'different':
      return trans.__('Something else came out.');
    case 'could not run':
      return trans.__('It ended its sandbox, or took many times its recorded time.');
    case 'skipped':
      return trans.__('It had been rolled back or cut short, so there is nothing to play.');
  }
}

/** "57 steps · 54 same · 2 volatile · 1 different · 0 could not run". */
export function countsLine(
  total: number,
  counts: Readonly<Record<string, number>>,
  trans: TranslationBundle
): string {
  const of = (verdict: StepVerdict): number => counts[verdict] ?? 0;
  const parts = [
    trans._n('%2 step', '%2 steps', total, total.toLocaleString()),
    trans.__('%1 same', of('same').toLocaleString()),
    trans.__('%1 volatile', of('volatile').toLocaleString()),
    trans.__('%1 different', of('different').toLocaleString()),
    trans.__('%1 could not run', of('could not run').toLocaleString())
  ];
  if (of('skipped') > 0) {
    parts.push(trans.__('%1 skipped', of('skipped').toLocaleString()));
  }
  return parts.join(' · ');
}

/** `4 ms`, `2.1 s`: most steps take less than a second. */
export function took(seconds: number, trans: TranslationBundle): string {
  return seconds < 0.9995
    ? trans.__('%1 ms', Math.max(seconds > 0 ? 1 : 0, Math.round(seconds * 1000)))
    : duration(seconds, trans);
}

type State = ReportHead['states'][number];

/** "After step 56: the running kernel and the replay". */
export function stateTitle(
  state: Pick<State, 'seq' | 'against'>,
  trans: TranslationBundle
): string {
  const [left, right] = sides(state.against, trans);
  return trans.__('After step %1: %2 and %3', state.seq, left, right);
}

/** The two sides that are compared. */
export function sides(against: string, trans: TranslationBundle): [string, string] {
  switch (against) {
    case 'second replay':
      return [trans.__('first replay'), trans.__('second replay')];
    case 'running kernel':
      return [trans.__('running kernel'), trans.__('replay')];
    case 'recorded state':
      return [trans.__('recorded'), trans.__('replay')];
    default:
      return [trans.__('kept at the restart'), trans.__('replay')];
  }
}

/** "40 same, 2 different", or why nothing was compared. */
export function amounts(found: State['files'], trans: TranslationBundle): string {
  if (found.why_not !== null) {
    return trans.__('not compared: %1', found.why_not);
  }
  const parts = [
    found.same > 0 ? trans.__('%1 same', found.same.toLocaleString()) : '',
    found.volatile > 0 ? trans.__('%1 volatile', found.volatile.toLocaleString()) : '',
    found.different > 0 ? trans.__('%1 different', found.different.toLocaleString()) : '',
    found.not_compared > 0 ? trans.__('%1 not comparable', found.not_compared.toLocaleString()) : ''
  ].filter(each => each !== '');
  return parts.length === 0 ? trans.__('none') : parts.join(', ');
}

export function pieceWord(kind: string, trans: TranslationBundle): string {
  switch (kind) {
    case 'stdout':
      return trans.__('output');
    case 'stderr':
      return trans.__('errors and warnings (stderr)');
    case 'error':
      return trans.__('error');
    case 'result':
      return trans.__('result');
    case 'markup':
      return trans.__('HTML, its source');
    case 'image':
      return trans.__('image');
    case 'question':
      return trans.__('asked for input');
    case 'end':
      return trans.__('end');
    default:
      return trans.__('note');
  }
}
