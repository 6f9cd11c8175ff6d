/** What sessions are called: asked for once, whoever wants to know; the newest answer counts. */

import { describe, expect, it } from 'vitest';

import { KnownSessions } from '../../src/timeline/known';

const A = { id: 'a', name: 'churn', notebook: null, steps: 1, last_at: '', parent: null };

/** An API whose answers come when the test says so. */
class Answers {
  readonly asked: string[] = [];
  readonly waiting: { tell(value: unknown): void; fail(error: Error): void }[] = [];

  get = (path: string): Promise<unknown> => {
    this.asked.push(path);
    return new Promise((tell, fail) => this.waiting.push({ tell, fail }));
  };
}

function begin(): { known: KnownSessions; answers: Answers } {
  const answers = new Answers();
  return { known: new KnownSessions(answers as never), answers };
}

describe('a session', () => {
  it('is asked for once, and all who asked are answered', async () => {
    const { known, answers } = begin();
    expect(known.name('a')).toBe('a');
    const found = known.find('a');
    expect(answers.asked).toHaveLength(1);
    answers.waiting[0]?.tell(A);
    expect((await found)?.name).toBe('churn');
    expect(known.name('a')).toBe('churn');
  });

  it('that is not there is not asked for with each drawing', async () => {
    const { known, answers } = begin();
    const found = known.find('a');
    answers.waiting[0]?.fail(new Error('there is none'));
    expect(await found).toBeUndefined();
    known.name('a');
    expect(answers.asked).toHaveLength(1);
  });

  it('has the name that it has now, whatever answer comes last', async () => {
    const { known, answers } = begin();
    const first = known.refresh();
    const second = known.refresh();
    answers.waiting[1]?.tell({ sessions: [{ ...A, name: 'new' }] });
    answers.waiting[0]?.tell({ sessions: [A] });
    await Promise.all([first, second]);
    expect(known.name('a')).toBe('new');
  });
});
