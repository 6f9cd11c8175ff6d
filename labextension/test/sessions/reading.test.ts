// What kernels and the server say of a session is read without trusting its shape.
// @vitest-environment node

import * as fc from 'fast-check';
import { expect, test } from 'vitest';

import { heard } from '../../src/sessions/heard';
import {
  readNotice,
  readStatus,
  sessionOf,
  UNKNOWN,
  withProgress
} from '../../src/sessions/reading';

const NOW = new Date('2026-11-30T12:00:00Z');

const SAID = {
  status: 'ok',
  session: '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0001',
  state: 'resuming',
  text: null,
  backend: { name: 'bubblewrap', isolated: true, isolation: 'Isolated by bubblewrap.' },
  environment: { name: 'default', digest: 'e'.repeat(64) },
  language: 'python3',
  network: { open: false, hosts: [], text: 'None.' },
  memory: { used: 1 << 20, limit: 4 * 2 ** 30 },
  steps: 42,
  running: null,
  since: null,
  output: { static: true, since: 7, rule: 'auto', why: 'An agent ran step 7.' },
  snapshot: { seq: 30, at: '2026-11-30T11:00:00Z', kind: 'tree' },
  plan: { steps: 11, estimate_s: 12, start_seq: 30 },
  resume: { done: 5, total: 11, estimate_s: 12, elapsed_s: 5, remaining_s: 7, start_seq: 30 },
  last_resume: { at: '2026-11-30T11:30:00Z', seconds: 11, seq: 41, steps: 11, left_out: [12] },
  death: {
    seq: 42,
    at: '2026-11-30T11:59:00Z',
    what: 'memory',
    text: 'out of memory',
    limit: 4 * 2 ** 30
  },
  held: null
};

test('a status is read whole', () => {
  const read = readStatus(SAID, NOW);
  expect(read.state).toBe('resuming');
  expect(read.backend?.isolated).toBe(true);
  expect(read.resume).toEqual({
    done: 5,
    total: 11,
    estimate: 12,
    elapsed: 5,
    remaining: 7,
    from: 30
  });
  expect(read.static).toEqual({ since: 7, why: 'An agent ran step 7.' });
  expect(read.back?.leftOut).toEqual([12]);
  expect(read.death?.limit).toBe(4 * 2 ** 30);
  expect(sessionOf(SAID)).toBe(SAID.session);
});

test('whatever is said, something is read, and what does not say that it isolates does not', () => {
  fc.assert(
    fc.property(fc.anything(), fc.anything(), (value, other) => {
      const names = Object.keys(SAID);
      for (const name of names) {
        const read = readStatus({ ...SAID, [name]: value }, NOW);
        expect(read.resume === null || read.resume.done <= read.resume.total).toBe(true);
      }
      expect(readStatus({ backend: { name: 'x', isolated: other } }, NOW).backend?.isolated).toBe(
        other === true
      );
      readNotice({ code: value, text: other }, NOW);
      withProgress(UNKNOWN, { done: value, total: other, over: value }, NOW);
    })
  );
});

test('a session is named by a whole id only', () => {
  for (const session of ['', 'x', 7, null, '../../etc', SAID.session.toUpperCase()]) {
    expect(sessionOf({ session })).toBeNull();
  }
});

test('progress is laid over what was known, and its end leaves it to be asked', () => {
  const going = withProgress(
    { ...UNKNOWN, state: 'ready' },
    { done: 2, total: 4, over: false },
    NOW
  );
  expect([going.state, going.resume?.done]).toEqual(['resuming', 2]);
  expect(withProgress(going, { over: true }, NOW).state).toBe('unknown');
  // The end of a start that was no news is none.
  const ready = { ...UNKNOWN, state: 'ready' as const };
  expect(withProgress(ready, { over: true }, NOW).state).toBe('ready');
  const pulling = withProgress(UNKNOWN, { done: 0, total: 0, text: 'Pulling an image.' }, NOW);
  expect([pulling.state, pulling.text]).toEqual(['starting', 'Pulling an image.']);
});

test('messages tell of steps, and nothing else does', () => {
  const message = (kind: string, content: object, parent = 'execute_request'): never =>
    ({ header: { msg_type: kind }, parent_header: { msg_type: parent }, content }) as never;
  const busy = { execution_state: 'busy' };
  const idle = { execution_state: 'idle' };
  expect(heard(message('status', busy))).toEqual({ what: 'began', cell: true });
  expect(heard(message('status', idle, 'step_request'))).toEqual({ what: 'ended', cell: true });
  expect(heard(message('status', idle, 'comm_msg'))).toEqual({ what: 'ended', cell: false });
  expect(heard(message('status', idle, 'complete_request'))).toBeNull();
  expect(heard(message('stream', { text: 'x' }))).toBeNull();
  expect(heard(message('reprise_notice', { code: 'x' }))?.what).toBe('notice');
});
