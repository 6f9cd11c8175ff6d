// Environments are read again when they change; a notebook names its session, or is not made.
// @vitest-environment node

import { afterEach, beforeEach, expect, test } from 'vitest';

import { Api } from '../../src/api/client';
import { createNotebook, Files } from '../../src/environments/create';
import { Environments } from '../../src/environments/service';
import { Traffic } from '../../src/environments/traffic';
import { FakeServer } from '../server';

const SESSION = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0001';
const NOW = '2026-11-30T14:02:11Z';

let server: FakeServer;
let api: Api;
let environments: Environments;

beforeEach(async () => {
  server = await FakeServer.start();
  api = new Api({ settings: server.settings });
  environments = new Environments(api);
});

afterEach(async () => {
  environments.dispose();
  api.dispose();
  await server.close();
});

const LISTED = {
  environment: 'default',
  built: null,
  image: null,
  here: true,
  bytes: null,
  sessions: null,
  network: [],
  output: 'auto',
  team: null
};

test('nothing is promised of what is not known', async () => {
  expect([environments.list, environments.isolated]).toEqual([null, false]);
  server.on('GET /environments', () => ({
    json: {
      environments: [LISTED],
      broken: { bad: 'It is not JSON.' },
      usual: 'default',
      backend: 'bubblewrap',
      isolated: true
    }
  }));
  await environments.refresh();
  expect(environments.list?.map(each => each.environment)).toEqual(['default']);
  expect([environments.isolated, environments.broken.bad]).toEqual([true, 'It is not JSON.']);
  server.on('GET /environments', () => ({
    status: 503,
    json: { error: { code: 'unavailable', message: 'No database.' } }
  }));
  await environments.refresh();
  // What was read stays, and why there is nothing newer is told.
  expect(environments.list).toHaveLength(1);
  expect(environments.failure?.message).toBe('No database.');
});

function files(save: () => Promise<unknown>): Files & { log: unknown[] } {
  const log: unknown[] = [];
  return {
    log,
    newUntitled: async (options: unknown) => {
      log.push(['new', options]);
      return { path: 'work/Untitled.ipynb' };
    },
    save: async (path: string, model: unknown) => {
      log.push(['save', path, model]);
      return save();
    },
    delete: async (path: string) => {
      log.push(['delete', path]);
    },
    localPath: (path: string) => path
  } as unknown as Files & { log: unknown[] };
}

test('a new notebook names the session that was begun for it', async () => {
  server.on('POST /sessions', asked => {
    expect(asked.body).toEqual({ kernel: 'python3', environment: 'stats' });
    return {
      status: 201,
      json: {
        id: SESSION,
        owner: 'alice',
        name: null,
        created_at: NOW,
        last_at: NOW,
        steps: 0,
        notebook: null,
        kernel: 'python3',
        environment: null,
        holder: null,
        parent: null,
        fork_seq: null,
        revoked_skills: []
      }
    };
  });
  const there = files(async () => undefined);
  expect(await createNotebook(environments, there, 'stats', 'work')).toBe('work/Untitled.ipynb');
  const [, saved] = there.log as [unknown, [string, string, any]];
  expect(saved[2].content.metadata.reprise).toEqual({ session: SESSION });
  // One that could not be written would run somewhere else: it is not left there.
  const full = files(async () => {
    throw new Error('The disk is full.');
  });
  await expect(createNotebook(environments, full, 'stats', 'work')).rejects.toThrow('full');
  expect(full.log.at(-1)).toEqual(['delete', 'work/Untitled.ipynb']);
});

test('no notebook is made where no session can be begun', async () => {
  server.on('POST /sessions', () => ({
    status: 404,
    json: { error: { code: 'environment-not-found', message: 'There is no environment.' } }
  }));
  const there = files(async () => undefined);
  await expect(createNotebook(environments, there, 'gone', '')).rejects.toThrow('no environment');
  expect(there.log).toEqual([]);
});

test('a check is followed to its end, and its failure told', async () => {
  const job = (state: string, more: object = {}): object => ({
    id: SESSION,
    kind: 'environment-check',
    session: null,
    by: 'alice',
    asked: {},
    state,
    cancelling: false,
    created_at: NOW,
    started_at: NOW,
    ended_at: null,
    progress: { text: `at ${state}`, done: null, total: null, counts: {} },
    outputs: 0,
    summary: null,
    result_bytes: null,
    error: null,
    version: 1,
    ...more
  });
  server.on('POST /environments/{environment}/check', () => ({ status: 202, json: job('queued') }));
  const summary = { environment: 'stats', ok: false, problems: ['x'], notes: [], files: 3 };
  server.on('GET /jobs/{job}', () => ({ json: job('done', { summary }) }));
  const told: string[] = [];
  expect(await environments.check('stats', text => told.push(text))).toEqual(summary);
  expect(told).toEqual(['at queued']);
  const error = { code: 'unavailable', message: 'What was built is gone.' };
  server.on('GET /jobs/{job}', () => ({ json: job('failed', { error }) }));
  await expect(environments.check('stats', () => undefined)).rejects.toThrow('is gone');
});

const CHOSEN = {
  session: SESSION,
  chosen: null,
  allow: [],
  private: [],
  running: null,
  next: { environment: 'default', network: [] },
  gone: null
};

function asked(seq: number | null, host: string): object {
  return {
    seq,
    at: `2026-11-30T14:02:${String(10 + (seq ?? 0)).padStart(2, '0')}Z`,
    host,
    port: 443,
    address: null,
    via: 'connect',
    verdict: 'refused',
    reason: '',
    bytes_up: 0,
    bytes_down: 0,
    duration_s: 0,
    replay: false,
    detail: {}
  };
}

test('connections come page by page, each once, and what fails keeps what was there', async () => {
  const traffic = new Traffic(environments, SESSION);
  let all = [asked(1, 'a'), asked(2, 'b'), asked(9, 'c')];
  server.on('GET /sessions/{session}/environment', () => ({ json: CHOSEN }));
  server.on('GET /sessions/{session}/network', ({ query }) => {
    const from = Number(query.from);
    const rows = all.filter(each => (each as { seq: number }).seq >= from);
    const at = query.after === undefined ? 0 : Number(query.after);
    return {
      json: {
        network: rows.slice(at, at + 2),
        next: at + 2 < rows.length ? String(at + 2) : null
      }
    };
  });
  await traffic.refresh();
  expect(traffic.rows.map(each => each.host)).toEqual(['a', 'b', 'c']);
  all = [...all, asked(9, 'late'), asked(10, 'd')];
  // Looks that come while one is under way become one more.
  await Promise.all([traffic.refresh(), traffic.refresh(), traffic.refresh()]);
  expect(traffic.rows.map(each => each.host)).toEqual(['a', 'b', 'c', 'late', 'd']);
  server.on('GET /sessions/{session}/network', () => ({
    status: 503,
    json: { error: { code: 'unavailable', message: 'No database.' } }
  }));
  await traffic.refresh();
  expect([traffic.rows.length, traffic.failure?.message]).toEqual([5, 'No database.']);
  traffic.dispose();
});
