/** Follows a job of the server until it has ended. */

import type { IApi, Schemas } from '../api/tokens';
import { ApiError } from '../api/tokens';

export type Job = Schemas['Job'];

/** Seconds that one request waits for news of a job. */
const WAIT = 20;

/**
 * The job at its end, whatever that is; `tell` hears of each change before.
 *
 * Rejects with ApiError: as a request does, or with the code `cancelled` when the signal says so
 * (the job itself goes on, for others may wait for it).
 */
export async function ended(
  api: IApi,
  job: Job,
  tell: (job: Job) => void,
  signal?: AbortSignal
): Promise<Job> {
  let now = job;
  while (now.state === 'queued' || now.state === 'running') {
    tell(now);
    if (signal?.aborted) {
      throw new ApiError(0, 'cancelled', 'Not waited for any longer. The work itself goes on.');
    }
    now = await api.get('/jobs/{job}', {
      params: { path: { job: now.id }, query: { version: now.version, wait: WAIT } },
      signal
    });
  }
  tell(now);
  return now;
}

/** Rejects with what a job that has not come to its result says of that. */
export function orRefusal(job: Job): Job {
  if (job.state === 'done') {
    return job;
  }
  const error = job.error as { code?: unknown; message?: unknown } | null;
  throw new ApiError(
    0,
    typeof error?.code === 'string' ? error.code : job.state,
    typeof error?.message === 'string'
      ? error.message
      : 'It was cancelled before it had ended. Nothing was changed.'
  );
}

/** How far a job is, as 0 to 1; null where that cannot be said. */
export function part(job: Job): number | null {
  const { done, total } = job.progress;
  return done === null || total === null || total === 0 ? null : done / total;
}
