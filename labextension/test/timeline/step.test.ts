/** A step as the server tells it, taken apart for people; what it asked for can be asked again. */

import { describe, expect, it } from 'vitest';

import { fileStem, forkName, leftName, outside, rewindWords } from '../../src/timeline/askings';
import { kin } from '../../src/timeline/head';
import { asStep, quoted } from '../../src/timeline/step';
import type { ITold } from '../../src/timeline/step';
import { took } from '../../src/timeline/words';
import { nullTranslator } from '@jupyterlab/translation';

const trans = nullTranslator.load('reprise');

function told(kind: string, payload: unknown): ITold {
  return {
    seq: 3,
    kind,
    actor: { kind: 'agent', conversation: 'c', turn: 7 },
    at: '2026-11-30T01:00:00+00:00',
    payload,
    environment: 'e',
    digest: 'd',
    chain: null,
    outcome: 'ok',
    cause: null,
    duration_s: 1,
    execution_count: 1,
    outputs: [],
    outputs_left_out: [],
    outputs_next: null,
    late_outputs: [],
    late_outputs_next: null
  };
}

describe('a step', () => {
  it('of a cell is its code, and runs again as the same cell of the notebook', () => {
    const step = asStep(told('cell', { content: { code: 'x = 1' }, metadata: { cellId: 'abc' } }));
    expect(step.input).toBe('x = 1');
    expect(step.again).toMatchObject({ kind: 'cell', code: 'x = 1', cell_id: 'abc' });
    expect(step.actor).toEqual({ kind: 'agent', conversation: 'c', turn: 7 });
  });

  it('of a command is what a shell would take, and runs again in its folder', () => {
    const argv = asStep(told('command', { argv: ['grep', '-r', "it's", '.'], cwd: '/w', env: {} }));
    expect(argv.input).toBe(`grep -r 'it'"'"'s' .`);
    expect(argv.again).toMatchObject({ argv: ['grep', '-r', "it's", '.'], cwd: '/w' });
    const shell = asStep(told('command', { shell: 'ls | wc', argv: null, stdin: null }));
    expect(shell.again).toMatchObject({ shell: 'ls | wc' });
  });

  it('that cannot be asked for again is not', () => {
    for (const payload of [
      { stop: 2 },
      { shell: 'x', background: true },
      { shell: 'x', stdin: 'a'.repeat(64) }
    ]) {
      expect(asStep(told('command', payload)).again).toBeNull();
    }
    for (const kind of ['upload', 'mount', 'comm', 'restart']) {
      expect(asStep(told(kind, {})).again).toBeNull();
    }
  });

  it('of an upload names what came and what went', () => {
    const entries = [['a.csv', 'file', 420, 12, 'h'], ['d', 'dir', 493, 0, null], 'nonsense'];
    expect(asStep(told('upload', { entries, removed: ['b'] })).brought).toEqual([
      { path: 'a.csv', size: 12, removed: false },
      { path: 'd', size: null, removed: false },
      { path: 'b', size: null, removed: true }
    ]);
  });

  it('of any other shape is no fault', () => {
    for (const payload of [null, 5, [], { content: 7, entries: 'x', argv: 3, skill: [] }]) {
      for (const kind of ['cell', 'command', 'upload', 'mount', 'comm', 'restart']) {
        expect(asStep(told(kind, payload)).seq).toBe(3);
      }
    }
  });

  it('took this long', () => {
    expect([null, 0, 0.0123, 0.2, 14, 75, 3_725].map(took)).toEqual([
      '',
      '0 ms',
      '12 ms',
      '0.2 s',
      '14.0 s',
      '1:15 min',
      '1:02 h'
    ]);
  });
});

describe('before a fork and a rewind', () => {
  it('a fork is offered the next free name', () => {
    expect(forkName('churn', [])).toBe('churn-b');
    expect(forkName('churn-b', ['churn-b', 'churn-c'])).toBe('churn-d');
    expect(forkName('churn (before rewind) 2', [])).toBe('churn-b');
    expect(fileStem('../a/b: "c"?')).toBe('-a-b- -c--');
    expect(fileStem('...')).toBe('fork');
  });

  it('what was sent outside is counted by host, replays and refusals apart', () => {
    const row = (host: string, verdict: string, replay = false): Record<string, unknown> => ({
      host,
      verdict,
      replay
    });
    const sent = outside(
      [
        row('a.example', 'allowed'),
        row('a.example', 'allowed'),
        row('b.example', 'refused'),
        row('b.example', 'allowed'),
        row('c.example', 'allowed', true)
      ],
      false
    );
    expect(sent.hosts).toEqual([
      ['a.example', 2],
      ['b.example', 1]
    ]);
    const left = leftName({ notebook: '/home/ada/churn.ipynb' }, []);
    const words = rewindWords(trans, { seq: 41, last: 57, left, sent, running: null });
    expect(words).toBe(
      "Steps 42–57 leave this notebook and stay in 'churn (before rewind)'." +
        ' 2 requests to a.example are not undone. 1 request to b.example is not undone.'
    );
    const nothing = { seq: 57, last: 57, left, sent: { hosts: [], more: false }, running: null };
    expect(rewindWords(trans, nothing)).toBe(
      "No step leaves this notebook: it goes on beside 'churn (before rewind)'."
    );
  });

  it('what is left by a rewind keeps its name, and gets one that is free where it has none', () => {
    const notebook = 'work/churn.ipynb';
    expect(leftName({ name: 'mine', notebook }, ['mine'])).toBe('mine');
    expect(leftName({ name: null, notebook: null }, [])).toBe('session (before rewind)');
    const taken = ['churn (before rewind)', 'churn (before rewind) 2'];
    expect(leftName({ notebook }, taken)).toBe('churn (before rewind) 3');
  });

  it('sessions that share steps stand together', () => {
    const session = (id: string, parent: string | null): never =>
      ({ id, parent, notebook: null, steps: 1, last_at: '', fork_seq: 0 }) as never;
    const all = [
      session('a', null),
      session('b', 'a'),
      session('c', 'b'),
      session('x', null),
      session('y', 'gone')
    ];
    expect(kin(all, 'c')).toEqual(['a', 'b', 'c']);
    expect(kin(all, 'x')).toEqual(['x']);
    expect(kin(all, null)).toEqual([]);
  });

  it('words are quoted for a shell only where they have to be', () => {
    expect(['a-b', "it's", '', 'a b'].map(quoted)).toEqual(['a-b', `'it'"'"'s'`, "''", "'a b'"]);
  });
});
