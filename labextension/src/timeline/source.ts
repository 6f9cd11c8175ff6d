/** What the timeline asks of the server, apart from how it is asked. */

import type { IFork, IStepFilter, IStepRow } from './tokens';

/** Some rows of a session, and how many there are. */
export interface IRows {
  readonly total: number;
  readonly found: number;
  readonly atLeast: boolean;
  readonly rows: readonly IStepRow[];
}

export interface IStepSource {
  /** Rows offset ≤ row < offset + limit of those that fit, the oldest is row 0. */
  rows(
    session: string,
    filter: IStepFilter,
    offset: number,
    limit: number,
    signal?: AbortSignal
  ): Promise<IRows>;
  forks(session: string): Promise<readonly IFork[]>;
}

export const NO_FILTER: IStepFilter = { kinds: [], actors: [], outcomes: [], words: '' };

/** Whether a filter lets everything through. */
export function isOpen(filter: IStepFilter): boolean {
  return (
    filter.kinds.length === 0 &&
    filter.actors.length === 0 &&
    filter.outcomes.length === 0 &&
    filter.words.trim() === ''
  );
}
