// Notes at cells are what the log says, whatever order things are heard in.

import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { ICutStep, INote, isCutShort, noteOf } from '../../src/cellnotes/notes';
import { CellNotes, ICellStep } from '../../src/cellnotes/service';
import { UNKNOWN } from '../../src/sessions/reading';
import { ISessionStatus } from '../../src/sessions/tokens';

const trans = nullTranslator.load('reprise');

class FakeSession {
  id: string | null = 'session';
  status: ISessionStatus = { ...UNKNOWN, state: 'ready' };
  readonly attached = new Signal<this, unknown>(this);
  readonly stepped = new Signal<this, unknown>(this);
  readonly statusChanged = new Signal<this, void>(this);
}

let session: FakeSession;
let log: ICellStep[];
let cells: string[];
let running: string[];
let shown: Map<string, string>;
let notes: CellNotes;
let changed: () => void;
let held: (() => void)[] | null;
let placed: INote[];

beforeEach(() => {
  vi.useFakeTimers();
  session = new FakeSession();
  log = [];
  cells = ['a', 'b', 'c'];
  running = [];
  shown = new Map();
  held = null;
  placed = [];
  notes = new CellNotes(
    session as never,
    {
      newest: (_, after) => {
        const newest = new Map<string | null, ICellStep>();
        for (const step of log.filter(each => each.seq > after)) {
          newest.set(step.cell, step);
        }
        return Promise.resolve({ steps: log.length, cells: [...newest.values()] });
      },
      cause: async () => {
        await new Promise<void>(go => (held === null ? go() : held.push(go)));
        return { what: 'signal', signal: 9 };
      }
    },
    {
      find: id => (cells.includes(id) ? (id as never) : null),
      runs: cell => running.includes(cell as never),
      onChanged: act => {
        changed = act;
        return { isDisposed: false, dispose: () => undefined };
      }
    },
    (step: ICutStep) => noteOf(step, session.status, trans),
    (cell, note) => {
      shown.set(cell as never, note.text);
      placed.push(note);
      return { isDisposed: false, dispose: () => shown.delete(cell as never) };
    }
  );
});

afterEach(() => {
  notes.dispose();
  vi.useRealTimers();
});

async function ran(cell: string, outcome: string | null): Promise<void> {
  log.push({ cell, seq: log.length, outcome });
  session.stepped.emit({ session: 'session', steps: log.length, ended: true });
  await vi.advanceTimersByTimeAsync(500);
}

test('a cell that died has a note; its next run that ends well has none', async () => {
  await ran('a', 'ok');
  await ran('b', 'died');
  expect([...shown]).toEqual([
    ['b', 'Rolled back: killed (signal 9). State is as after step 0; the next cell works.']
  ]);
  await ran('c', 'ok');
  expect(shown.size).toBe(1);
  notes.ran('b');
  expect(shown.size).toBe(0);
  await ran('b', 'ok');
  expect(shown.size).toBe(0);
});

test('a run that was refused made no step, so the note is there again', async () => {
  await ran('b', 'died');
  notes.ran('b');
  running = ['b'];
  await ran('a', 'ok');
  expect(shown.size).toBe(0);
  running = [];
  session.stepped.emit({ session: 'session', steps: log.length, ended: true });
  await vi.advanceTimersByTimeAsync(500);
  expect(shown.size).toBe(1);
});

test('a step that runs is looked at again when it has ended', async () => {
  log.push({ cell: 'a', seq: 0, outcome: null });
  session.stepped.emit({ session: 'session', steps: 1, ended: true });
  await vi.advanceTimersByTimeAsync(500);
  log[0] = { cell: 'a', seq: 0, outcome: 'died' };
  session.stepped.emit({ session: 'session', steps: 1, ended: true });
  await vi.advanceTimersByTimeAsync(500);
  expect([...shown.keys()]).toEqual(['a']);
});

test('an answer that comes late puts back no note of a run that is over', async () => {
  held = [];
  await ran('b', 'died');
  await ran('b', 'ok');
  expect(shown.size).toBe(0);
  held.forEach(go => go());
  await vi.advanceTimersByTimeAsync(1_000);
  expect(shown.size).toBe(0);
});

test('the same words of a later step are a note of that step', async () => {
  await ran('b', 'lost');
  await ran('b', 'lost');
  expect(shown.size).toBe(1);
  expect(placed.map(each => each.seq)).toEqual([0, 1]);
});

test('cells that go and come back, and other sessions', async () => {
  await ran('b', 'lost');
  cells = ['a'];
  changed();
  expect(shown.size).toBe(0);
  cells = ['a', 'b'];
  changed();
  expect(shown.get('b')).toMatch(/^We stopped before its end was recorded/);
  session.id = 'other';
  log = [];
  session.attached.emit({ before: 'session', session: 'other' });
  await vi.advanceTimersByTimeAsync(500);
  expect(shown.size).toBe(0);
});

test('what an interrupted step did is said to be here, gone, or nothing where it can be had again', () => {
  const step: ICutStep = { cell: 'a', seq: 5, outcome: 'interrupted', cause: {} };
  const ready = session.status;
  expect(noteOf(step, ready, trans)?.text).toBe(
    'Interrupted. Its effects are here, but cannot be played again if the sandbox ends.'
  );
  const back = { at: null, seconds: 1, steps: 4, leftOut: [5] };
  expect(noteOf(step, { ...ready, back }, trans)?.kind).toBe('gone');
  const snapshot = { seq: 5, at: null, kind: 'snapshot' };
  expect(noteOf(step, { ...ready, snapshot }, trans)).toBeNull();
  // A kept tree has files only.
  expect(noteOf(step, { ...ready, snapshot: { ...snapshot, kind: 'tree' } }, trans)).not.toBeNull();
  expect(isCutShort('error')).toBe(false);
});
