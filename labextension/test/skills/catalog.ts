// Skills, versions and promotions as the server tells them, for the tests of this folder.

import { ISkills } from '../../src/skills/tokens';

export const DIGEST = '91c4'.repeat(16);
export const OTHER = 'ab12'.repeat(16);

export function version(more: Partial<ISkills.Version> = {}): ISkills.Version {
  const made: ISkills.Version = {
    scope: 'personal',
    name: 'count-rows',
    number: 3,
    reference: '',
    digest: DIGEST,
    description: 'Counts the rows of a table.',
    state: 'draft',
    standing: 'untrusted',
    deprecated: false,
    by: 'anna',
    at: '2026-11-30T14:02:11.000000Z',
    origin: { kind: 'written', where: '', commit: null, subfolder: '' },
    note: '',
    ...more
  };
  return { ...made, reference: more.reference ?? `${made.scope}:${made.name}@${made.number}` };
}

export function promotion(more: Partial<ISkills.Promotion> = {}): ISkills.Promotion {
  return {
    id: '6f1f0d5e-8f60-4c4e-9d2f-0a2b4c6d8e01',
    version: version({ scope: 'team/ml', number: 1 }),
    to: 'team/ml',
    by: 'anna',
    at: '2026-11-30T14:02:11.000000Z',
    note: '',
    decided: null,
    decided_by: null,
    decided_at: null,
    reason: '',
    number: 3,
    ...more
  };
}

export function me(login: string, may = true): ISkills.Me {
  return {
    name: login,
    anonymous: false,
    login,
    personal: { may: true, why: 'You are the person of this login.' },
    governance: { may, why: may ? 'You are the person of this login.' : 'One login for all.' }
  };
}

export function page<K extends string, T>(
  key: K,
  items: readonly T[]
): { [each in K]: readonly T[] } & { total: number; next_offset: null } {
  return { [key]: items, total: items.length, next_offset: null } as never;
}
