/** The window over the list: all of it can be reached, however long, and few lines are in the page. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { scrolledTo, tall, TALLEST, viewport } from '../../src/timeline/viewport';

const HEIGHT = 28;
const boxes = fc.record({
  lines: fc.integer({ min: 1, max: 5_000_000 }),
  seen: fc.integer({ min: 28, max: 2_000 }),
  part: fc.double({ min: 0, max: 1, noNaN: true })
});

describe('the window over the list', () => {
  it('shows what is seen, and few lines more, wherever it is scrolled to', () => {
    fc.assert(
      fc.property(boxes, ({ lines, seen, part }) => {
        const top = part * Math.max(0, tall(lines, HEIGHT) - seen);
        const { first, stop, shift } = viewport(lines, HEIGHT, top, seen);
        expect(first).toBeGreaterThanOrEqual(0);
        expect(stop).toBeLessThanOrEqual(lines);
        // From the top edge to the bottom edge of what is seen there is a line everywhere.
        expect(first * HEIGHT + shift).toBeLessThanOrEqual(top + 0.01);
        if (stop < lines) {
          expect(stop * HEIGHT + shift).toBeGreaterThanOrEqual(top + seen - 0.01);
        }
        expect(stop - first).toBeLessThanOrEqual(seen / HEIGHT + 20);
      })
    );
  });

  it('reaches the first and the last line of any list', () => {
    fc.assert(
      fc.property(boxes, ({ lines, seen }) => {
        expect(viewport(lines, HEIGHT, 0, seen).first).toBe(0);
        expect(viewport(lines, HEIGHT, tall(lines, HEIGHT), seen).stop).toBe(lines);
      })
    );
  });

  it('is never taller than a browser lets a box be', () => {
    expect(tall(5_000_000, HEIGHT)).toBe(TALLEST);
    expect(tall(50_000, HEIGHT)).toBe(50_000 * HEIGHT);
  });

  it('scrolls a line into view, and stays where it is in view already', () => {
    fc.assert(
      fc.property(
        boxes,
        fc.double({ min: 0, max: 1, noNaN: true }),
        ({ lines, seen, part }, where) => {
          const index = Math.floor(where * (lines - 1));
          const top = part * Math.max(0, tall(lines, HEIGHT) - seen);
          const to = scrolledTo(lines, HEIGHT, top, seen, index);
          const { first, stop, shift } = viewport(lines, HEIGHT, to, seen);
          expect(index).toBeGreaterThanOrEqual(first);
          expect(index).toBeLessThan(stop);
          expect(index * HEIGHT + shift).toBeGreaterThanOrEqual(to - 0.5);
          expect(index * HEIGHT + HEIGHT + shift).toBeLessThanOrEqual(to + seen + 0.5);
          expect(scrolledTo(lines, HEIGHT, to, seen, index)).toBeCloseTo(to, 0);
        }
      )
    );
  });
});
