// What was found in what is brought in, which of it is wanted, and what became of it (pure).

import { nameOf } from './names';
import { ISkills } from './tokens';

/** Why a job failed, in the server's words; null while nothing has. */
export function failureOf(job: ISkills.Job): string | null {
  const error = job.error as { message?: unknown } | null;
  return typeof error?.message === 'string' ? error.message : null;
}

/** One skill that was looked at, before anything is kept. */
export interface Candidate {
  readonly name: string;
  readonly folder: string;
  /** Why it cannot be taken at all. */
  readonly why_not: string | null;
  readonly errors: number;
  readonly warnings: number;
  readonly digest: string | null;
}

export function candidates(checked: readonly ISkills.IChecked[]): readonly Candidate[] {
  return checked.map(each => ({
    name: each.name,
    folder: each.folder,
    why_not: each.why_not,
    errors: each.findings.filter(one => one.severity === 'error').length,
    warnings: each.findings.filter(one => one.severity === 'warning').length,
    digest: each.digest
  }));
}

/**
 * Names to ask for of one upload: none when it is wanted whole, null when nothing of it is.
 *
 * @param chosen `INDEX NAME` of each that is wanted
 */
export function chosenNames(
  found: readonly Candidate[],
  index: number,
  chosen: ReadonlySet<string>
): readonly string[] | null {
  const wanted = found.filter(each => each.why_not === null && chosen.has(`${index} ${each.name}`));
  if (wanted.length === 0) {
    return null;
  }
  // Those that cannot be taken would be told of again.
  return wanted.length === found.length ? [] : [...new Set(wanted.map(each => each.name))];
}

export interface IOutcome {
  readonly name: string;
  readonly what: ISkills.Arrivals['skills'][number]['what'];
  readonly named: ISkills.IName | null;
  readonly problem: string | null;
  readonly notes: readonly string[];
}

export function outcomes(arrivals: ISkills.Arrivals): readonly IOutcome[] {
  return arrivals.skills.map(each => ({
    name: each.name || each.folder,
    what: each.what,
    named: each.version === null ? null : nameOf(each.version),
    problem: each.problem,
    notes: each.notes
  }));
}
