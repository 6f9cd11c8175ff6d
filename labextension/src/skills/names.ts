// How skills, versions and scopes are named: in requests, and for people (pure).

import { ISkills } from './tokens';

/** As the specification has it (agentskills.io, `name`). */
export const NAME = /^[a-z0-9]+(-[a-z0-9]+)*$/;
export const MAX_NAME = 64;
/** Names no scope of the catalog: what comes with Reprise and was not added. */
export const SHIPPED = 'shipped';

/** This very version. */
export function nameOf(version: Pick<ISkills.Version, 'scope' | 'name' | 'number'>): ISkills.IName {
  return { skill: `${version.name}@${version.number}`, scope: version.scope };
}

/** A reference in one text: `team/ml:count-rows@3`, `count-rows`, `sha256:…`. */
export function reference(named: ISkills.IName): string {
  return named.scope === undefined ? named.skill : `${named.scope}:${named.skill}`;
}

/** The other way round; null for what names no skill. */
export function named(text: string): ISkills.IName | null {
  if (/^sha256:[0-9a-f]{64}$/.test(text)) {
    return { skill: text };
  }
  const found =
    /^(?:(personal|organisation|team\/[a-z0-9]+(?:[-_][a-z0-9]+)*):)?([a-z0-9]+(?:-[a-z0-9]+)*(?:@[1-9][0-9]{0,8})?)$/.exec(
      text
    );
  if (found === null) {
    return null;
  }
  const [, scope, skill = ''] = found;
  return scope === undefined ? { skill } : { skill, scope };
}

/** The name without a number; the digest of a name by digest. */
export function bare(named: ISkills.IName): string {
  return named.skill.split('@')[0] ?? named.skill;
}

/** All versions of it in its scope. */
export function every(named: ISkills.IName): ISkills.IName {
  return { ...named, skill: bare(named) };
}

/** A digest as people compare it at a glance. */
export function short(digest: string): string {
  return `${digest.slice(0, 8)}…`;
}

/** What a model's conversation calls up, and what the agent is told: `/count-rows`. */
export function command(name: string): string {
  return `/${name}`;
}
