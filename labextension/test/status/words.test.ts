// The status button's words are those of the design, in every state.
// @vitest-environment node

import { nullTranslator } from '@jupyterlab/translation';
import { expect, test } from 'vitest';

import { readStatus, UNKNOWN } from '../../src/sessions/reading';
import { ISessionStatus } from '../../src/sessions/tokens';
import {
  about,
  announcement,
  backLine,
  deathLine,
  face,
  memory,
  quarter,
  stateLines
} from '../../src/status/words';

const trans = nullTranslator.load('reprise');
const NOW = new Date('2026-11-30T14:00:00');
const CLOSED = { name: 'bubblewrap', isolated: true, isolation: '' };
const OPEN = { name: 'process', isolated: false, isolation: 'Nothing isolates it.' };

function status(change: Partial<ISessionStatus>): ISessionStatus {
  return { ...UNKNOWN, backend: CLOSED, heard: NOW, ...change };
}

const resume = { done: 5, total: 11, estimate: 20, elapsed: 8, remaining: 12, from: 30 };

test.each<[Partial<ISessionStatus>, string]>([
  [{ state: 'ready' }, 'Ready · isolated'],
  [{ state: 'running', running: 4 }, 'Ready · isolated'],
  [{ state: 'resuming', resume }, 'Coming back · 12 s'],
  [{ state: 'waiting' }, 'Ready to come back'],
  [{ state: 'stopped', resume }, 'Stopped at 5 of 11'],
  [{ state: 'held' }, 'Open elsewhere'],
  [{ state: 'failed' }, 'No sandbox'],
  [{ state: 'ended' }, 'No kernel'],
  [{ state: 'unknown' }, 'Starting']
])('%j is "%s"', (change, label) => {
  expect(face(status(change), null, NOW, trans).label).toBe(label);
  // Where nothing isolates, whatever else is said says that too.
  const open = face(status({ ...change, backend: OPEN }), null, NOW, trans);
  expect(open.label).toMatch(/Not isolated$/);
  expect(open.tone).not.toBe('ready');
});

test('time to go runs down between two messages, and never below nothing', () => {
  const going = status({ state: 'resuming', resume });
  const later = (seconds: number): Date => new Date(NOW.getTime() + seconds * 1_000);
  expect(face(going, null, later(5), trans).label).toBe('Coming back · 7 s');
  expect(face(going, null, later(60), trans).label).toBe('Coming back · 1 s');
});

test('popup sentences', () => {
  const plan = { steps: 212, seconds: 240 };
  expect(stateLines(status({ state: 'waiting', plan }), NOW, trans)).toEqual([
    'Ready to come back: about 4 min (212 steps). Starts with your first cell.'
  ]);
  expect(stateLines(status({ state: 'resuming', resume }), NOW, trans)).toEqual([
    'Playing 11 steps from snapshot 30. About 12 s.'
  ]);
  expect(stateLines(status({ state: 'stopped', resume }), NOW, trans)).toEqual([
    'Stopped at 5 of 11. The log is whole.'
  ]);
  const held = { session: null, since: '2026-11-30 13:40:00', host: 'h', notebook: null };
  expect(stateLines(status({ state: 'held', held }), new Date(), trans)[0]).toMatch(
    /^Open in another kernel since .*13:40.* Close it there or fork\.$/
  );
  const death = { seq: 42, what: 'memory', text: 'out of memory', limit: 4 * 2 ** 30 };
  expect(deathLine(status({ death }), trans)).toBe(
    'Sandbox ran out of memory (4.0 GiB) at step 42.'
  );
  const notice = {
    code: 'resumed',
    text: 'Back at step 41 in 11.2 s.',
    seq: null,
    at: '',
    detail: { seconds: 11.2 }
  };
  expect(backLine(notice, trans)).toBe('Back at step 41 in 12 s');
  expect(backLine({ ...notice, code: 'divergence' }, trans)).toBeNull();
});

test('sizes and times', () => {
  expect([0, 1023, 1024, 5 * 2 ** 20, 4 * 2 ** 30].map(memory)).toEqual([
    '0 B',
    '1023 B',
    '1.0 KiB',
    '5.0 MiB',
    '4.0 GiB'
  ]);
  expect([0, 12, 89.2, 240, 7200].map(each => about(each, trans))).toEqual([
    '1 s',
    '12 s',
    '90 s',
    '4 min',
    '2 h'
  ]);
});

test('screen readers hear of a sandbox that is gone, quarters and ends; of clocks never', () => {
  const ready = status({ state: 'ready' });
  const death = { seq: 3, what: 'signal', text: 'it was killed (signal 9)', limit: null };
  expect(announcement(ready, status({ state: 'resuming', death }), trans)).toEqual({
    text: 'The sandbox went at step 3: it was killed (signal 9).',
    assertive: true
  });
  expect(announcement(ready, ready, trans)).toBeNull();
  const coming = status({ state: 'resuming' });
  expect(announcement(coming, status({ state: 'stopped', resume }), trans)?.assertive).toBe(false);
  // It is told until a later step has ended well, and is no news when the next one begins.
  const back = status({ state: 'ready', death });
  for (const state of ['running', 'starting', 'ended'] as const) {
    expect(announcement(back, status({ state, death: { ...death } }), trans)).toBeNull();
  }
  expect(announcement(back, status({ state: 'resuming', death }), trans)?.assertive).toBe(true);
  const other = { ...death, seq: 4 };
  expect(announcement(back, status({ state: 'starting', death: other }), trans)).not.toBeNull();
  const at = (done: number): ISessionStatus =>
    status({ state: 'resuming', resume: { ...resume, done, total: 100 } });
  const said = Array.from({ length: 100 }, (_, done) => quarter(at(done), at(done + 1)));
  expect(said.filter(each => each !== null)).toEqual([25, 50, 75]);
  expect(quarter(at(0), at(90))).toBe(75);
});

test('a status as the kernel says it makes a face', () => {
  const said = { state: 'ready', backend: { name: 'process', isolated: false, isolation: 'x' } };
  expect(face(readStatus(said, NOW), null, NOW, trans).label).toBe('Ready · Not isolated');
});
