// A verify is begun or joined, followed to its end whatever the line does, and told when it is lost.
// @vitest-environment node

import { afterEach, beforeEach, expect, test } from 'vitest';

import { Api } from '../../src/api/client';
import { Verification } from '../../src/verify/service';
import { VerifyState } from '../../src/verify/tokens';
import { FakeServer } from '../server';

const SESSION = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0001';
const JOB = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0002';
const NOW = '2026-11-30T14:02:11Z';

let server: FakeServer;
let api: Api;
let verification: Verification;

beforeEach(async () => {
  server = await FakeServer.start();
  api = new Api({ settings: server.settings });
  verification = new Verification(api, SESSION, 0);
});

afterEach(async () => {
  verification.dispose();
  api.dispose();
  await server.close();
});

function job(state: string, more: object = {}): object {
  const over = ['done', 'failed', 'cancelled'].includes(state);
  return {
    id: JOB,
    kind: 'verify',
    session: SESSION,
    by: 'alice',
    asked: { from: 0, to: null, replays: 'as needed' },
    state,
    cancelling: false,
    created_at: NOW,
    started_at: NOW,
    ended_at: over ? NOW : null,
    progress: { text: 'playing', done: 2, total: 8, counts: { same: 2 } },
    outputs: 0,
    summary: null,
    result_bytes: null,
    error: null,
    version: 1,
    ...more
  };
}

const HEAD = {
  session: SESSION,
  ok: true,
  sentence: 'All 8 steps that ran showed what they had shown.',
  took_s: 1.5,
  from: 0,
  brought_back: 0,
  replays: 1,
  backend: 'bubblewrap',
  environment_changes: [],
  not_compared: [],
  counts: { same: 8, volatile: 0, different: 0, 'could not run': 0, skipped: 0 },
  steps: 8,
  states: [],
  title: '/home/a/../churn:x.ipynb',
  page_bytes: 3
};

const REFUSED = (status: number, code: string) => ({
  status,
  json: { error: { code, message: `It is ${code}.` } }
});

function session(steps: number): object {
  return {
    id: SESSION,
    owner: 'alice',
    notebook: null,
    kernel: 'python3',
    created_at: NOW,
    last_at: NOW,
    steps,
    environment: null,
    parent: null,
    fork_seq: null,
    holder: null,
    revoked_skills: [],
    name: null,
    environment_spec: null
  };
}

async function until(...states: VerifyState[]): Promise<void> {
  await new Promise<void>(resolve => {
    const look = (): void => {
      if (states.includes(verification.state)) {
        verification.changed.disconnect(look);
        resolve();
      }
    };
    verification.changed.connect(look);
    look();
  });
}

/** Ended the second time that somebody looks. */
function ends(how = 'done', more: object = {}): void {
  let looked = 0;
  server.on('GET /jobs/{job}', () => ({
    json: (looked += 1) < 2 ? job('running', { version: 2 }) : job(how, { version: 3, ...more })
  }));
}

test('one is begun, followed, and its report read', async () => {
  server.on('POST /sessions/{session}/verify', asked => {
    expect(asked.body).toEqual({ from: 0 });
    return { status: 202, json: job('queued') };
  });
  ends();
  server.on('GET /jobs/{job}/report', () => ({ json: HEAD }));
  server.on('GET /sessions/{session}', () => ({ json: session(11) }));
  await verification.begin();
  expect(verification.state).toBe('queued');
  await until('done');
  expect(verification.head?.sentence).toBe(HEAD.sentence);
  await expect.poll(() => verification.newer).toBe(3);
  expect(server.asked.filter(each => each.startsWith('GET /jobs/'))[0]).toContain('version=1');
});

test('a page that is loaded anew joins the one that is on its way', async () => {
  server.on('GET /jobs', asked => {
    expect(asked.query).toEqual({ session: SESSION, kind: ['verify'] });
    const of = (from: number, state: string): object => ({
      ...job(state),
      id: `0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f001${from}`,
      asked: { from, to: null }
    });
    // Of another part, cancelled, and an older one: none of them is it.
    return {
      json: {
        jobs: [of(3, 'running'), { ...job('cancelled') }, job('running'), { ...job('done') }]
      }
    };
  });
  ends();
  server.on('GET /jobs/{job}/report', () => ({ json: HEAD }));
  server.on('GET /sessions/{session}', () => ({ json: session(8) }));
  await verification.look();
  expect(verification.state).toBe('running');
  expect(verification.progress.done).toBe(2);
  await until('done');
  expect(server.asked.some(each => each.startsWith('POST'))).toBe(false);
});

test('nothing is begun by looking', async () => {
  server.on('GET /jobs', () => ({ json: { jobs: [] } }));
  await verification.look();
  expect(verification.state).toBe('none');
  verification.forgotten();
  expect(verification.state).toBe('lost');
});

test('a server that restarted has lost it, and says so', async () => {
  server.on('POST /sessions/{session}/verify', () => ({ status: 202, json: job('running') }));
  server.on('GET /jobs/{job}', () => REFUSED(404, 'job-not-found'));
  await verification.begin();
  await until('lost');
  expect(verification.failure).toBeNull();
});

test('a report that was forgotten while it was read is lost', async () => {
  server.on('GET /jobs', () => ({ json: { jobs: [job('done')] } }));
  server.on('GET /jobs/{job}/report', () => ({ json: HEAD }));
  server.on('GET /sessions/{session}', () => ({ json: session(8) }));
  server.on('GET /jobs/{job}/report/steps', () => REFUSED(404, 'job-not-found'));
  await verification.look();
  expect(verification.state).toBe('done');
  await expect(verification.rows([], 0, 10)).rejects.toThrow('job-not-found');
  expect(verification.state).toBe('lost');
});

test('a line that is gone for a while loses nothing', async () => {
  server.on('POST /sessions/{session}/verify', () => ({ status: 202, json: job('running') }));
  let tries = 0;
  server.on('GET /jobs/{job}', () => {
    tries += 1;
    return tries < 2 ? 'reset' : { json: job('done', { version: 9 }) };
  });
  server.on('GET /me', () => ({
    json: {
      name: null,
      anonymous: true,
      login: 'a',
      personal: { may: true, why: '' },
      governance: { may: false, why: '' }
    }
  }));
  server.on('GET /jobs/{job}/report', () => ({ json: HEAD }));
  server.on('GET /sessions/{session}', () => ({ json: session(8) }));
  await verification.begin();
  await until('done');
  expect(tries).toBe(2);
});

test('one is stopped, and that it was is not a failure', async () => {
  server.on('POST /sessions/{session}/verify', () => ({ status: 202, json: job('running') }));
  let stopped = false;
  server.on('POST /jobs/{job}/cancel', () => {
    stopped = true;
    return { status: 202, json: job('running', { cancelling: true }) };
  });
  server.on('GET /jobs/{job}', async () => {
    await expect.poll(() => stopped).toBe(true);
    const error = { code: 'cancelled', message: 'It was cancelled.' };
    return { json: job('cancelled', { version: 4, error }) };
  });
  await verification.begin();
  await verification.stop();
  await until('stopped');
  expect([verification.failure, verification.stoppedHere]).toEqual([null, true]);
});

test('one that is stopped before the server has answered is stopped all the same', async () => {
  let stopped = false;
  server.on('POST /sessions/{session}/verify', () => ({ status: 202, json: job('queued') }));
  server.on('POST /jobs/{job}/cancel', () => {
    stopped = true;
    return { status: 202, json: job('queued', { cancelling: true }) };
  });
  server.on('GET /jobs/{job}', async () => {
    await expect.poll(() => stopped).toBe(true);
    return { json: job('cancelled', { version: 4 }) };
  });
  const beginning = verification.begin();
  await verification.stop();
  await beginning;
  await until('stopped');
});

test('why it failed is told in the words of the server', async () => {
  server.on('POST /sessions/{session}/verify', () => ({ status: 202, json: job('running') }));
  ends('failed', { error: { code: 'unavailable', message: 'No sandbox can be started.' } });
  await verification.begin();
  await until('failed');
  expect(verification.failure?.message).toBe('No sandbox can be started.');
});

test('what cannot be begun is told, and can be begun later', async () => {
  server.on('POST /sessions/{session}/verify', () => REFUSED(429, 'too-many-jobs'));
  await verification.begin();
  expect(verification.state).toBe('failed');
  server.on('POST /sessions/{session}/verify', () => ({ status: 200, json: job('running') }));
  ends();
  server.on('GET /jobs/{job}/report', () => ({ json: HEAD }));
  server.on('GET /sessions/{session}', () => ({ json: session(8) }));
  await verification.begin();
  await until('done');
});

test('what is begun anew is not overtaken by what was followed before', async () => {
  let begun = 0;
  server.on('POST /sessions/{session}/verify', () => {
    begun += 1;
    return {
      status: 202,
      json: job('running', { id: `0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f009${begun}` })
    };
  });
  let letGo: (() => void) | undefined;
  server.on('GET /jobs/{job}', async asked => {
    if (asked.path.job?.endsWith('1') === true) {
      await new Promise<void>(resolve => {
        letGo = resolve;
      });
      return { json: job('failed', { id: asked.path.job, version: 5 }) };
    }
    return { json: job('done', { id: asked.path.job, version: 5 }) };
  });
  server.on('GET /jobs/{job}/report', () => ({ json: HEAD }));
  server.on('GET /sessions/{session}', () => ({ json: session(8) }));
  await verification.begin();
  await expect.poll(() => letGo).toBeDefined();
  await verification.begin();
  await until('done');
  letGo?.();
  await new Promise(resolve => setTimeout(resolve, 50));
  expect(verification.state).toBe('done');
});

test('a file is named after its notebook, whatever that is called', async () => {
  server.on('GET /jobs', () => ({ json: { jobs: [job('done')] } }));
  server.on('GET /jobs/{job}/report', () => ({ json: HEAD }));
  server.on('GET /sessions/{session}', () => ({ json: session(8) }));
  server.on('GET /jobs/{job}/report/page', () => ({
    bytes: '<p>',
    type: 'application/octet-stream'
  }));
  await verification.look();
  const { name, data } = await verification.save('html');
  expect(name).toBe('churnx verified.html');
  expect(await data.text()).toBe('<p>');
});
