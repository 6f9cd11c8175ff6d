/** Entries as the server stores them, made short for tests. */

import type { Entry } from '../../src/agent/model';

export const SESSION = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0001';
export const OTHER = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0002';

/** Makes entries in their order; each call of one is the next. */
export class Story {
  readonly entries: Entry[] = [];
  private _turn = 0;

  add(kind: string, body: Record<string, unknown> = {}): this {
    if (kind === 'said') {
      this._turn += 1;
    }
    const seq = this.entries.length;
    this.entries.push({ seq, turn: this._turn, kind, body, at_us: 1_000_000 * (seq + 1) });
    return this;
  }

  begun(more: Record<string, unknown> = {}): this {
    return this.add('begun', {
      model: 'claude',
      provider: 'anthropic',
      policy: [],
      notebook: 'churn.ipynb',
      by: 'alice',
      ...more
    }).add('session', { session: SESSION, why: 'begun' });
  }

  said(text: string): this {
    return this.add('said', { text, by: 'alice' });
  }

  answered(
    text: string,
    calls: readonly { id: string; name: string; input?: object }[] = [],
    more: Record<string, unknown> = {}
  ): this {
    return this.add('asked', { model: 'claude', attempt: 1, input_estimate: 1, digest: '' }).add(
      'answered',
      {
        content: [
          ...(text === '' ? [] : [{ type: 'text', text }]),
          ...calls.map(({ id, name, input }) => ({
            type: 'tool_use',
            id,
            name,
            input: input ?? {}
          }))
        ],
        stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn',
        usage: { input_tokens: 100, output_tokens: 10 },
        cost: { amount: '0.0012', currency: 'USD' },
        ...more
      }
    );
  }

  /** A call that was judged, ran and ended; `decision` of its verdict. */
  called(id: string, tool: string, effect: string, decision = 'allow'): this {
    return this.add('called', {
      id,
      tool,
      input: { command: 'ls' },
      act: { tool, effect, title: `use ${tool}`, input: { command: 'ls' }, code: 'ls', paths: [] },
      verdict: {
        decision,
        rule: `default/${effect}`,
        why: 'No policy says otherwise.',
        grant: null
      }
    });
  }

  question(
    id: string,
    call: string,
    act: object | null = { tool: 'run_command', title: 'run' }
  ): this {
    return this.add('question', {
      id,
      call,
      text: 'May it?',
      until_us: 9e15,
      options: ['once', 'deny'],
      ...(act === null ? {} : { act })
    });
  }

  result(id: string, more: Record<string, unknown> = {}): this {
    return this.add('result', {
      id,
      status: 'ok',
      content: [{ type: 'text', text: 'step 3 · ok · 0.1 s\nexit code 0\nhello\n' }],
      steps: [3],
      taints: [],
      edits: [],
      outside: [],
      ...more
    });
  }

  ended(status = 'done', why?: string): this {
    return this.add('ended', why === undefined ? { status } : { status, why });
  }
}
