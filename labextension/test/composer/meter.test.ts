// Tokens and money are summed exactly, once, whatever order entries come in.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { Meter, money, percent } from '../../src/composer/meter';
import type { IEntry } from '../../src/composer/tokens';

function entries(...bodies: [string, Record<string, unknown>][]): IEntry[] {
  return bodies.map(([kind, body], seq) => ({ seq, turn: 1, kind, body, at_us: 0 }));
}

const usage = (input: number, output: number, read = 0): Record<string, unknown> => ({
  input_tokens: input,
  output_tokens: output,
  cache_read_input_tokens: read,
  cache_creation_input_tokens: 0
});
const cost = (amount: string): unknown => ({ amount, currency: 'USD' });

const ALL = entries(
  ['said', { text: 'a' }],
  ['asked', { input_estimate: 900 }],
  ['answered', { usage: usage(1000, 50), cost: cost('0.1') }],
  ['said', { text: 'b' }],
  ['answered', { usage: { ...usage(20, 5, 1000), lost: [usage(7, 0)] }, cost: cost('0.2') }],
  ['answered', { usage: { ...usage(1, 1), estimated: true }, cost: null }]
);

describe('the meter', () => {
  it('sums what answers took, of all and of the newest turn', () => {
    const found = new Meter().add(ALL);
    expect(found.all).toMatchObject({ input: 1028, output: 56, cacheRead: 1000, unpriced: 1 });
    expect(found.all.costs.get('USD')).toBe('0.3');
    expect(found.all.estimated).toBe(true);
    expect(found.turn).toMatchObject({ input: 28, output: 6, cacheRead: 1000 });
    expect(found.turn.costs.get('USD')).toBe('0.2');
  });

  it('knows the context of the newest request, and that a summary makes it small', () => {
    expect(new Meter().add(ALL.slice(0, 2)).context).toBe(900);
    expect(new Meter().add(ALL.slice(0, 3)).context).toBe(1050);
    const compacted: IEntry[] = [
      ...ALL,
      {
        seq: 6,
        turn: 1,
        kind: 'compacted',
        body: { usage: usage(5000, 300), cost: null },
        at_us: 0
      }
    ];
    expect(new Meter().add(compacted).context).toBe(300);
    expect(new Meter().add([]).context).toBeNull();
  });

  it('counts what summing up within a request took', () => {
    const iterations = [{ type: 'compaction', ...usage(5000, 300) }, { type: 'message' }];
    const found = new Meter().add(
      entries(['answered', { usage: { ...usage(10, 1), iterations }, cost: cost('1') }])
    );
    expect(found.all).toMatchObject({ input: 5010, output: 301 });
    expect(found.context).toBe(11);
  });

  it('is the same however entries come: in pieces, or the newest first', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(ALL.length), { maxLength: 4 }),
        fc.nat(ALL.length),
        (cuts, from) => {
          const meter = new Meter();
          for (const end of [...cuts].sort((one, other) => one - other)) {
            meter.add(ALL.slice(0, end));
          }
          expect(meter.add(ALL)).toEqual(new Meter().add(ALL));
          const late = new Meter();
          late.add(ALL.slice(from));
          expect(late.add(ALL).all).toEqual(new Meter().add(ALL).all);
        }
      )
    );
  });

  it('takes nothing that is no number', () => {
    const found = new Meter().add(
      entries(['answered', { usage: { input_tokens: 'x', output_tokens: -1 }, cost: 'free' }])
    );
    expect(found.all).toMatchObject({ input: 0, output: 0, unpriced: 1 });
  });
});

describe('money', () => {
  it('is short for people', () => {
    expect(['0', '0.0004', '0.12', '3.456', '1200'].map(money)).toEqual([
      '0',
      '0.0004',
      '0.12',
      '3.46',
      '1200.00'
    ]);
    expect([percent(0, 100), percent(1, 1_000_000), percent(310, 1000)]).toEqual([0, 1, 31]);
  });
});
