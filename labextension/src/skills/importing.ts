// What became of skills that were brought in, and of the job that did it (pure).

import { ISkills } from './tokens';

/** Why a job failed, in the server's words; null while nothing has. */
export function failureOf(job: ISkills.Job): string | null {
  const error = job.error as { message?: unknown } | null;
  return typeof error?.message === 'string' ? error.message : null;
}

/** One skill that was looked at, before anything is kept. */
export interface ICandidate {
  /** Names it within its upload; two of one name are one in the server's choice. */
  readonly name: string;
  readonly folder: string;
  readonly why_not: string | null;
  readonly errors: number;
  readonly warnings: number;
  readonly digest: string | null;
}

export function candidates(checked: readonly ISkills.IChecked[]): readonly ICandidate[] {
  return checked.map(each => ({
    name: each.name,
    folder: each.folder,
    why_not: each.why_not,
    errors: each.findings.filter(one => one.severity === 'error').length,
    warnings: each.findings.filter(one => one.severity === 'warning').length,
    digest: each.digest
  }));
}
