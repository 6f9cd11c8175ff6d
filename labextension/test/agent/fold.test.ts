/** A conversation is what its entries say: folded one by one, or all at once, from any point on. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { sum } from '../../src/agent/bodies';
import { EMPTY, fold, foldAll } from '../../src/agent/fold';
import type { CallPart, Entry } from '../../src/agent/model';
import { linesShown, NO_OUTPUT, withDelta, withOutput } from '../../src/agent/streams';
import { OTHER, SESSION, Story } from './entries';

function call(story: Story, id = 'c1'): CallPart {
  const found = foldAll(EMPTY, story.entries)
    .turns.flatMap(turn => turn.parts)
    .find(part => part.part === 'call' && part.id === id);
  return found as CallPart;
}

describe('folding', () => {
  it('tells a whole turn', () => {
    const story = new Story()
      .begun()
      .said('Why?')
      .answered('I look.', [{ id: 'c1', name: 'run_command', input: { command: 'ls' } }])
      .called('c1', 'run_command', 'run')
      .add('running', { id: 'c1' })
      .result('c1', { outside: ['a.example:443'] })
      .answered('Because.')
      .ended();
    const found = foldAll(EMPTY, story.entries);
    expect(found).toMatchObject({
      model: 'claude',
      notebook: 'churn.ipynb',
      session: SESSION,
      open: false,
      questions: [],
      usage: { input: 200, output: 20, costs: { USD: '0.0024' } },
      context: 110
    });
    const [turn] = found.turns;
    expect(turn).toMatchObject({ said: 'Why?', ended: 'done', firstStep: 3, lastStep: 3 });
    expect(turn?.parts.map(part => part.part)).toEqual(['text', 'call', 'text']);
    expect(turn?.outside).toEqual(['a.example:443']);
    expect(call(story)).toMatchObject({
      standing: 'ok',
      steps: [3],
      verdict: { decision: 'allow', rule: 'default/run' },
      session: SESSION
    });
    const part = call(story);
    expect((part.endedUs ?? 0) - (part.beganUs ?? 0)).toBe(1_000_000);
  });

  it('follows an approval from question to run, and to denial', () => {
    const asked = new Story()
      .begun()
      .said('Do')
      .answered('', [{ id: 'c1', name: 'run_command' }])
      .called('c1', 'run_command', 'run', 'ask')
      .question('q1', 'c1');
    expect(foldAll(EMPTY, asked.entries).questions).toMatchObject([
      { id: 'q1', call: 'c1', verdict: { rule: 'default/run' } }
    ]);
    expect(call(asked).standing).toBe('asked');
    asked.add('decided', { question: 'q1', decision: 'once', how: 'frame', by: 'alice' });
    expect(call(asked)).toMatchObject({ standing: 'allowed', decided: { decision: 'once' } });
    expect(foldAll(EMPTY, asked.entries).questions).toEqual([]);

    const denied = new Story()
      .begun()
      .said('Do')
      .answered('', [{ id: 'c1', name: 'run_command' }])
      .called('c1', 'run_command', 'run', 'ask')
      .question('q1', 'c1')
      .add('decided', { question: 'q1', decision: 'deny', how: 'timeout', by: null });
    expect(call(denied)).toMatchObject({ standing: 'denied', decided: { how: 'timeout' } });
  });

  it('waits again for what an interrupted turn was cut at, and for nothing of a stopped one', () => {
    const cut = new Story()
      .begun()
      .said('Do')
      .answered('', [{ id: 'c1', name: 'run_command' }])
      .called('c1', 'run_command', 'run', 'ask')
      .question('q1', 'c1')
      .ended('interrupted', 'The server that ran it was shut down.');
    expect(foldAll(EMPTY, cut.entries)).toMatchObject({ questions: [], cut: [{ id: 'q1' }] });
    cut.add('continued', { by: 'alice' });
    const goes = foldAll(EMPTY, cut.entries);
    expect(goes).toMatchObject({ open: true, questions: [{ id: 'q1' }] });
    expect(goes.turns[0]).toMatchObject({ ended: null });
    expect(goes.turns[0]?.parts.at(-1)).toMatchObject({
      mark: 'continued',
      text: 'interrupted',
      why: 'The server that ran it was shut down.'
    });
  });

  it('keeps a question of the model’s own where it was asked', () => {
    const story = new Story()
      .begun()
      .said('Do')
      .answered('', [{ id: 'c1', name: 'ask_user' }])
      .called('c1', 'ask_user', 'ask')
      .add('running', { id: 'c1' })
      .question('q1', 'c1', null);
    expect(foldAll(EMPTY, story.entries).questions).toHaveLength(1);
    story.add('decided', { question: 'q1', decision: 'churn', how: 'frame', by: 'alice' });
    const found = foldAll(EMPTY, story.entries);
    expect(found.questions).toEqual([]);
    expect(found.turns[0]?.parts.at(-1)).toMatchObject({
      part: 'asked',
      decided: { decision: 'churn' }
    });
  });

  it('follows an undo to its session, and marks the turn', () => {
    const story = new Story()
      .begun()
      .said('Do')
      .answered('Done.')
      .ended()
      .add('session', { session: OTHER, why: 'undo' })
      .add('undone', { turn: 1, session: OTHER, at: 2, cells: ['a'], kept: ['b'], outside: [] });
    const found = foldAll(EMPTY, story.entries);
    expect(found.session).toBe(OTHER);
    expect(found.turns[0]?.undone).toMatchObject({ at: 2, cells: ['a'], kept: ['b'] });
  });

  it('shows calls of other agents, which come without an answer of a model’s', () => {
    const story = new Story()
      .begun({ provider: 'mcp', model: 'Claude Code' })
      .said('works here')
      .called('m1', 'run_command', 'run')
      .add('running', { id: 'm1' })
      .result('m1');
    expect(foldAll(EMPTY, story.entries).client).toBe('Claude Code');
    expect(call(story, 'm1').standing).toBe('ok');
  });

  it('says how long a wait really took', () => {
    const story = new Story()
      .begun()
      .said('Do')
      .add('waiting', { why: 'Overloaded', seconds: 300, attempt: 1, status: 529 });
    const waits = (): unknown => foldAll(EMPTY, story.entries).turns[0]?.parts[0];
    expect(waits()).toMatchObject({ overUs: null, seconds: 300 });
    story.ended('cancelled');
    expect(waits()).toMatchObject({ atUs: 4_000_000, overUs: 5_000_000 });
  });

  it('runs no tool of an answer whose end never came', () => {
    const story = new Story()
      .begun()
      .said('Do')
      .answered('Half', [{ id: 'c1', name: 'x' }], {
        partial: true,
        stop_reason: 'failed'
      });
    expect(foldAll(EMPTY, story.entries).turns[0]?.parts).toMatchObject([
      { part: 'text', partial: true }
    ]);
  });

  it('takes whatever a newer or a hostile server tells', () => {
    const kinds = fc.constantFrom(
      'begun',
      'session',
      'said',
      'state',
      'asked',
      'waiting',
      'answered',
      'called',
      'question',
      'decided',
      'running',
      'result',
      'compacted',
      'ended',
      'continued',
      'undone',
      'invented'
    );
    const body = fc.dictionary(
      fc.constantFrom(
        'id',
        'call',
        'content',
        'usage',
        'cost',
        'act',
        'verdict',
        'steps',
        'taints',
        'question',
        'status',
        'text',
        'session',
        'why',
        'turn',
        'edits',
        'input',
        'options',
        '__proto__'
      ),
      fc.anything()
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(kinds, body), { maxLength: 30 }), given => {
        const entries = given.map(([kind, each], seq): Entry => ({
          seq,
          turn: 1,
          kind,
          body: each,
          at_us: seq
        }));
        expect(foldAll(EMPTY, entries).seq).toBe(entries.length - 1);
      })
    );
  });

  it('leaves what an entry does not touch as the very same objects, and knows no entry twice', () => {
    const story = new Story().begun().said('One').answered('1').ended().said('Two').answered('2');
    const before = foldAll(EMPTY, story.entries);
    story.ended();
    const entry = story.entries.at(-1) as Entry;
    const after = fold(before, entry);
    expect(after.turns[0]).toBe(before.turns[0]);
    expect(after.turns[1]?.parts).toBe(before.turns[1]?.parts);
    expect(fold(after, entry)).toBe(after);
  });

  it('folds ten thousand entries', () => {
    const story = new Story().begun();
    for (let turn = 0; turn < 200; turn += 1) {
      story.said(`turn ${turn}`);
      for (let n = 0; n < 25; n += 1) {
        story.called(`c${turn}-${n}`, 'read_file', 'read').result(`c${turn}-${n}`);
      }
      story.ended();
    }
    expect(foldAll(EMPTY, story.entries).turns).toHaveLength(200);
  });
});

describe('what streams', () => {
  it('joins pieces by their block', () => {
    const pieces = [
      { type: 'thinking', index: 0, text: 'hm' },
      { type: 'text', index: 1, text: 'Hel' },
      { type: 'text', index: 1, text: 'lo' },
      { type: 'tool', index: 2, name: 'run_command', text: '' },
      { type: 'tool', index: 2, text: '{"command"' },
      { type: 'other', index: 3, text: 'x' }
    ];
    const draft = pieces.reduce<ReturnType<typeof withDelta>>(withDelta, []);
    expect(draft.map(({ kind, name, text }) => [kind, name, text])).toEqual([
      ['thinking', '', 'hm'],
      ['text', '', 'Hello'],
      ['tool', 'run_command', '{"command"']
    ]);
  });

  it('keeps the newest lines as a terminal leaves them, however they are cut', () => {
    const text =
      Array.from({ length: 50 }, (_, n) => `line ${n}\n`).join('') + ' 10%\r 20%\r100%\n';
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 30 })), sizes => {
        let output = NO_OUTPUT;
        let at = 0;
        for (const size of [...sizes, text.length]) {
          output = withOutput(output, text.slice(at, at + size));
          at += size;
        }
        const { lines, total } = linesShown(output);
        expect(total).toBe(51);
        expect(lines).toHaveLength(20);
        expect(lines.at(-1)).toBe('100%');
        expect(lines[0]).toBe('line 31');
      })
    );
  });

  it('keeps a line without an end bounded', () => {
    let output = NO_OUTPUT;
    for (let n = 0; n < 1_000; n += 1) {
      output = withOutput(output, 'x'.repeat(100));
    }
    expect(linesShown(output).lines[0]?.length).toBeLessThanOrEqual(2_000);
  });
});

describe('money', () => {
  it('adds exactly', () => {
    expect(sum('0.1', '0.2')).toBe('0.3');
    expect(sum('0', '12')).toBe('12');
    expect(sum('1.5', '-0.25')).toBe('1.25');
    expect(sum('1.50', '0.50')).toBe('2');
    expect(sum('1.5', 'much')).toBe('1.5');
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1e9 }), fc.integer({ min: 0, max: 1e9 }), (a, b) => {
        const text = (micros: number): string => `0.${String(micros).padStart(10, '0')}`;
        expect(Number(sum(text(a), text(b)))).toBeCloseTo((a + b) / 1e10, 12);
      })
    );
  });
});
