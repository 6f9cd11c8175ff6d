// Requests are typed by the document; every failure is an ApiError; 428 is pressed, then asked again.
// @vitest-environment node

import { afterEach, beforeEach, expect, test } from 'vitest';

import { Api } from '../../src/api/client';
import { ApiError } from '../../src/api/tokens';
import { FakeServer } from '../server';

let server: FakeServer;
let api: Api;

const ME = {
  name: 'alice',
  anonymous: false,
  login: 'alice',
  personal: { may: true, why: 'This is you.' },
  governance: { may: false, why: 'No team.' }
};

beforeEach(async () => {
  server = await FakeServer.start();
  api = new Api({ settings: server.settings });
});

afterEach(async () => {
  api.dispose();
  await server.close();
});

async function failed(asked: Promise<unknown>): Promise<ApiError> {
  try {
    await asked;
  } catch (error) {
    expect(error).toBeInstanceOf(ApiError);
    return error as ApiError;
  }
  throw new Error('it did not fail');
}

test('an answer is what the document says', async () => {
  server.on('GET /me', () => ({ json: ME }));
  expect((await api.get('/me')).login).toBe('alice');
  expect(api.connection.line.state).toBe('online');
});

test('lists in a query are repeated, as the server reads them', async () => {
  const session = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0001';
  server.on('GET /sessions/{session}/steps', asked => {
    expect(asked.query.kind).toEqual(['cell', 'command']);
    return { json: { session, total: 0, steps: [], next: null } };
  });
  const { total } = await api.get('/sessions/{session}/steps', {
    params: { path: { session }, query: { kind: ['cell', 'command'] } }
  });
  expect(total).toBe(0);
});

test('a refusal is told as the server told it', async () => {
  server.on('GET /me', () => ({
    status: 429,
    json: { error: { code: 'too-many', message: 'Wait.', retry_after_s: 7, where: '/x' } }
  }));
  const error = await failed(api.get('/me'));
  expect([error.status, error.code, error.message, error.retryAfter, error.where]).toEqual([
    429,
    'too-many',
    'Wait.',
    7,
    '/x'
  ]);
});

test('a page in place of an answer, such as a login, is a failure like any other', async () => {
  server.on('GET /me', () => ({ status: 200, bytes: '<html>sign in', type: 'text/html' }));
  expect((await failed(api.get('/me'))).code).toBe('unknown');
});

test('an answer that is no JSON is told as one that says nothing', async () => {
  server.on('GET /me', () => ({ status: 500, bytes: '<html>oops', type: 'text/html' }));
  const error = await failed(api.get('/me'));
  expect(error.code).toBe('unknown');
  expect(error.message).toContain('500');
});

test('who is signed out is told so, and the line says it', async () => {
  server.on('GET /me', () => ({
    status: 403,
    json: { error: { code: 'not-authenticated', message: 'Sign in.' } }
  }));
  expect((await failed(api.get('/me'))).code).toBe('not-authenticated');
  expect(api.connection.line.state).toBe('expired');
});

test('a server that is away is offline, tried again, and restored', async () => {
  server.on('GET /me', () => ({ json: ME }));
  await server.go();
  const states: string[] = [];
  api.connection.changed.connect((_, line) => states.push(line.state));
  expect((await failed(api.get('/me'))).code).toBe('offline');
  expect(api.connection.line.state).toBe('offline');
  await api.connection.tryNow();
  expect(api.connection.line.state).toBe('offline');
  const restored = new Promise<void>(resolve => api.connection.restored.connect(() => resolve()));
  server.come();
  await api.connection.tryNow();
  await restored;
  expect(states.at(-1)).toBe('online');
});

test('an act that needs a press is pressed once, then asked again with it', async () => {
  const decision = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0002';
  const seen: (string | undefined)[] = [];
  server.on('POST /environments/{environment}/network/allow', asked => {
    const pressed = asked.headers['x-reprise-decision'] as string | undefined;
    seen.push(pressed);
    expect(asked.body).toEqual({ places: ['example.org'] });
    return {
      status: 428,
      json: {
        error: { code: 'decision-needed', message: 'Press.', decision, frame: '/f' }
      }
    };
  });
  const asked: string[] = [];
  api.setDecider({
    decide: (id, frame) => {
      asked.push(`${id} ${frame}`);
      return Promise.resolve();
    }
  });
  const error = await failed(
    api.post('/environments/{environment}/network/allow', {
      params: { path: { environment: 'default' } },
      body: { places: ['example.org'] }
    })
  );
  // The server is not satisfied here: it is not pressed a second time for one request.
  expect(error.status).toBe(428);
  expect(asked).toEqual([`${decision} /f`]);
  expect(seen).toEqual([undefined, decision]);
});

test('an act whose decision was closed is not asked again', async () => {
  let times = 0;
  server.on('POST /environments/{environment}/network/allow', () => {
    times += 1;
    return {
      status: 428,
      json: {
        error: {
          code: 'decision-needed',
          message: 'Press.',
          decision: '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0002',
          frame: '/f'
        }
      }
    };
  });
  api.setDecider({ decide: () => Promise.reject(new ApiError(428, 'cancelled', 'Closed.')) });
  const error = await failed(
    api.post('/environments/{environment}/network/allow', {
      params: { path: { environment: 'default' } },
      body: { places: ['example.org'] }
    })
  );
  expect([error.code, times]).toEqual(['cancelled', 1]);
});
