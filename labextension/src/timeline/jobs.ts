/** Follows a job of the server until it has ended. */

import type { IApi, IConnection, Schemas } from '../api/tokens';
import { ApiError } from '../api/tokens';

export type Job = Schemas['Job'];

/** Seconds that one request waits for news of a job. */
const WAIT = 20;
/** Milliseconds until a server is asked again that did not answer. */
const AGAIN = 2_000;

/** Whether nothing more comes of a job. */
export function isOver(job: Job): boolean {
  return job.state !== 'queued' && job.state !== 'running';
}

/**
 * The job at its end, whatever that is; `tell` hears of each change before.
 *
 * It goes on without a line to the server, so that is waited for. Rejects with ApiError: as the
 * server refuses, or with the code `cancelled` when the signal says so (the job itself goes on, for
 * others may wait for it).
 */
export async function ended(
  api: IApi,
  job: Job,
  tell: (job: Job) => void,
  signal?: AbortSignal
): Promise<Job> {
  let now = job;
  while (!isOver(now)) {
    tell(now);
    if (signal?.aborted) {
      throw new ApiError(0, 'cancelled', 'Not waited for any longer. The work itself goes on.');
    }
    try {
      now = await api.get('/jobs/{job}', {
        params: { path: { job: now.id }, query: { version: now.version, wait: WAIT } },
        signal
      });
    } catch (error) {
      if (!isAway(error)) {
        throw error;
      }
      await lineAgain(api.connection, signal);
    }
  }
  tell(now);
  return now;
}

/** Whether a request failed for want of a server that has time for it, or that knows us. */
function isAway(error: unknown): boolean {
  return (
    error instanceof ApiError &&
    (['offline', 'not-authenticated'].includes(error.code) ||
      [429, 502, 503, 504].includes(error.status))
  );
}

/** Until the line stands again, a while has passed, or nobody waits any more. */
function lineAgain(connection: IConnection, signal?: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const done = (): void => {
      clearTimeout(timer);
      connection.restored.disconnect(done);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, AGAIN);
    connection.restored.connect(done);
    signal?.addEventListener('abort', done);
  });
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
