// @vitest-environment node
/** A job goes on while the line to its server is gone, and is followed when it stands again. */

import { afterEach, beforeEach, expect, it } from 'vitest';

import { Api } from '../../src/api/client';
import { ended } from '../../src/timeline/jobs';
import type { Job } from '../../src/timeline/jobs';
import { FakeServer } from '../server';

let server: FakeServer;
let api: Api;

beforeEach(async () => {
  server = await FakeServer.start();
  api = new Api({ settings: server.settings });
});

afterEach(async () => {
  api.dispose();
  await server.close();
});

function job(more: Partial<Job> = {}): Job {
  return {
    id: '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0002',
    kind: 'cell',
    session: '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0001',
    by: 'alice',
    asked: {},
    state: 'running',
    cancelling: false,
    created_at: '2026-11-30T14:02:11Z',
    started_at: '2026-11-30T14:02:11Z',
    ended_at: null,
    progress: { text: 'running', done: null, total: null, counts: {} },
    outputs: 0,
    summary: null,
    result_bytes: null,
    error: null,
    version: 1,
    ...more
  };
}

it('is followed through a line that tears', async () => {
  let tears = 1;
  server.on('GET /jobs/{job}', () =>
    tears-- > 0
      ? 'reset'
      : { json: job({ state: 'done', ended_at: '2026-11-30T14:02:12Z', version: 2 }) }
  );
  expect((await ended(api, job(), () => undefined)).state).toBe('done');
});

it('that the server does not know, or that nobody waits for, is not followed', async () => {
  server.on('GET /jobs/{job}', () => ({
    status: 404,
    json: { error: { code: 'job-not-found', message: 'There is no such job.' } }
  }));
  await expect(ended(api, job(), () => undefined)).rejects.toThrow('There is no such job.');
  await server.go();
  const abort = new AbortController();
  const waits = ended(api, job(), () => undefined, abort.signal);
  setTimeout(() => abort.abort(), 200);
  await expect(waits).rejects.toMatchObject({ code: 'cancelled' });
});
