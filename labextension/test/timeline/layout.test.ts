/** The list's lines: each step and each branch stands once, branches right above where they leave. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { Layout } from '../../src/timeline/layout';
import type { IFork } from '../../src/timeline/tokens';

function fork(session: string, seq: number): IFork {
  return { session, parent: 'p', seq, name: session };
}

const lists = fc
  .record({
    found: fc.nat(400),
    seqs: fc.array(fc.integer({ min: -1, max: 420 }), { maxLength: 30 }),
    origin: fc.option(fc.integer({ min: -1, max: 420 }))
  })
  .map(({ found, seqs, origin }) => ({
    found,
    forks: seqs.map((seq, n) => fork(`f${n}`, seq)),
    origin: origin === null ? null : { parent: 'parent', seq: origin }
  }));

describe('the lines of a list', () => {
  it('are as in the design: a fork above the step that it shares last', () => {
    const layout = new Layout(58, [fork('churn-b', 54)]);
    const words = [0, 1, 2, 3, 4].map(index => {
      const line = layout.line(index);
      return line?.is === 'step' ? line.row : line?.is;
    });
    expect(words).toEqual([57, 56, 55, 'fork', 54]);
  });

  it('hold each step once, the newest first, and each branch that leaves within them once', () => {
    fc.assert(
      fc.property(lists, ({ found, forks, origin }) => {
        const layout = new Layout(found, forks, origin);
        const lines = Array.from({ length: layout.length }, (_, index) => layout.line(index));
        const rows = lines.flatMap(line => (line?.is === 'step' ? [line.row] : []));
        expect(rows).toEqual(Array.from({ length: found }, (_, n) => found - 1 - n));
        const shown = lines.flatMap(line => (line?.is === 'fork' ? [line.fork.session] : []));
        const fit = forks.filter(each => each.seq < found).map(each => each.session);
        expect(shown.sort()).toEqual(fit.sort());
        const origins = lines.filter(line => line?.is === 'origin').length;
        expect(origins).toBe(origin !== null && origin.seq < found ? 1 : 0);
      })
    );
  });

  it('place a branch between its last shared step and the next one', () => {
    fc.assert(
      fc.property(lists, ({ found, forks, origin }) => {
        const layout = new Layout(found, forks, origin);
        for (let index = 0; index < layout.length; index++) {
          const line = layout.line(index);
          if (line?.is === 'fork') {
            const below = layout.indexOf(line.fork.seq);
            const above = layout.indexOf(line.fork.seq + 1);
            if (line.fork.seq >= 0) {
              expect(index).toBeLessThan(below);
            }
            if (line.fork.seq + 1 < found) {
              expect(index).toBeGreaterThan(above);
            }
          }
        }
      })
    );
  });

  it('say where each step stands', () => {
    fc.assert(
      fc.property(lists, ({ found, forks, origin }) => {
        const layout = new Layout(found, forks, origin);
        for (let row = 0; row < found; row++) {
          expect(layout.line(layout.indexOf(row))).toEqual({ is: 'step', row });
        }
        expect(layout.line(layout.length)).toBeUndefined();
        expect(layout.line(-1)).toBeUndefined();
      })
    );
  });

  it('say which rows any part of the list needs', () => {
    fc.assert(
      fc.property(lists, fc.nat(450), fc.nat(60), ({ found, forks, origin }, from, count) => {
        const layout = new Layout(found, forks, origin);
        const rows: number[] = [];
        for (let index = from; index < from + count; index++) {
          const line = layout.line(index);
          if (line?.is === 'step') {
            rows.push(line.row);
          }
        }
        const wanted = layout.rows(from, from + count);
        expect(wanted).toEqual(
          rows.length === 0 ? null : [Math.min(...rows), Math.max(...rows) + 1]
        );
      })
    );
  });
});
