// What is said of skills: standings, states, scopes, acts, in the words of the design (pure).

import { TranslationBundle } from '@jupyterlab/translation';

import { SHIPPED } from './names';
import { ISkills } from './tokens';

/** Which colour goes with a word; never the colour alone. */
export type Tone = 'good' | 'warn' | 'bad' | 'plain';

export interface IWord {
  readonly word: string;
  readonly tone: Tone;
  /** What it means, in a sentence. */
  readonly means: string;
}

/** The trust word of a content. */
export function standing(of: ISkills.Standing, trans: TranslationBundle): IWord {
  switch (of) {
    case 'trusted':
      return {
        word: trans.__('trusted'),
        tone: 'good',
        means: trans.__('Somebody with the right approved exactly this content.')
      };
    case 'untrusted':
      return {
        word: trans.__('untrusted'),
        tone: 'warn',
        means: trans.__(
          'Nobody has approved it. It can be read, and runs only in a sandbox without a network.'
        )
      };
    case 'revoked':
      return {
        word: trans.__('revoked'),
        tone: 'bad',
        means: trans.__('It was taken back. No new mounts; sessions that used it go on.')
      };
  }
}

/** The state of a version in its scope. */
export function state(version: ISkills.Version, trans: TranslationBundle): IWord {
  const words: Record<ISkills.Version['state'], IWord> = {
    draft: {
      word: trans.__('draft'),
      tone: 'plain',
      means:
        version.scope === 'personal'
          ? trans.__('Yours to use.')
          : trans.__('Asked for; nobody has approved it yet.')
    },
    reviewed: {
      word: trans.__('reviewed'),
      tone: 'plain',
      means: trans.__('Another person approved it; nobody gets it yet.')
    },
    published: {
      word: trans.__('published'),
      tone: 'good',
      means: trans.__('What others get.')
    }
  };
  return words[version.state];
}

/** A scope as a tab and a badge have it. */
export function scope(of: string, trans: TranslationBundle): string {
  if (of === 'personal') {
    return trans.__('Personal');
  }
  if (of === 'organisation') {
    return trans.__('Organisation');
  }
  if (of === SHIPPED) {
    return trans.__('Shipped');
  }
  return of.startsWith('team/') ? trans.__('Team %1', of.slice('team/'.length)) : of;
}

/** `v3`, or where the skill has no version here. */
export function number(version: ISkills.Version | null, trans: TranslationBundle): string {
  return version === null ? trans.__('shipped') : `v${version.number}`;
}

/** `~1,240 tokens`: estimates lean to too much, and are marked. */
export function tokens(value: number, counted: boolean, trans: TranslationBundle): string {
  return trans._n('%3%2 token', '%3%2 tokens', value, value.toLocaleString(), counted ? '' : '~');
}

/** `~1.2k`, where a row has no room for more. */
export function fewTokens(value: number): string {
  if (value < 1_000) {
    return `~${value}`;
  }
  const thousands = value / 1_000;
  return `~${thousands < 10 ? thousands.toFixed(1) : Math.round(thousands)}k`;
}

/** What was done, as the history tells it. */
export function act(event: ISkills.Event, trans: TranslationBundle): string {
  const known: Readonly<Record<string, string>> = {
    add: trans.__('added'),
    ask: trans.__('asked for promotion'),
    approve: trans.__('approved'),
    refuse: trans.__('refused'),
    withdraw: trans.__('withdrew the request'),
    release: trans.__('released'),
    deprecate: trans.__('deprecated'),
    undeprecate: trans.__('took the deprecation back'),
    restore: trans.__('restored'),
    trust: trans.__('trusted'),
    distrust: trans.__('took the trust back'),
    revoke: trans.__('revoked'),
    reinstate: trans.__('reinstated')
  };
  return known[event.act] ?? event.act;
}

/** Where a version came from. */
export function origin(version: ISkills.Version, trans: TranslationBundle): string {
  const { kind, where, commit } = version.origin;
  switch (kind) {
    case 'git':
      return commit
        ? trans.__('Git: %1 at %2', where, commit.slice(0, 12))
        : trans.__('Git: %1', where);
    case 'archive':
      return where ? trans.__('Archive: %1', where) : trans.__('An archive');
    case 'folder':
      return where ? trans.__('Folder: %1', where) : trans.__('A folder');
    case 'shipped':
      return trans.__('Comes with Reprise');
    case 'written':
      return trans.__('Written here');
  }
}

/** How a promotion stands, in one word for a badge. */
export function decided(promotion: ISkills.Promotion, trans: TranslationBundle): IWord {
  const { version } = promotion;
  switch (promotion.decided) {
    case null:
      return { word: trans.__('waits'), tone: 'warn', means: trans.__('Nobody has decided yet.') };
    case 'refused':
      return {
        word: trans.__('refused'),
        tone: 'bad',
        means: promotion.reason || trans.__('Without a reason.')
      };
    case 'withdrawn':
      return {
        word: trans.__('withdrawn'),
        tone: 'plain',
        means: trans.__('Whoever asked took it back.')
      };
    case 'approved':
      return state(version, trans);
  }
}
