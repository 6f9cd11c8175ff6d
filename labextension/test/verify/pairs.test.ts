// Each piece of both sides stands once and in order; what is the same stands beside its like.
// @vitest-environment node

import * as fc from 'fast-check';
import { expect, test } from 'vitest';

import { imageSource, pairs } from '../../src/verify/pairs';
import { ReportPiece } from '../../src/verify/tokens';
import { took } from '../../src/verify/words';
import { nullTranslator } from '@jupyterlab/translation';

const KINDS = ['stdout', 'stderr', 'error', 'result', 'image', 'end'] as const;

const piece = fc.record({
  kind: fc.constantFrom(...KINDS),
  text: fc.constantFrom('', 'a', 'b'),
  cut: fc.constantFrom(0, 3),
  image: fc.constant(null)
});

function of(kind: ReportPiece['kind'], text: string): ReportPiece {
  return { kind, text, cut: 0, image: null };
}

test('no piece is lost, repeated or moved', () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), fc.array(piece, { maxLength: 12 }), (a, b) => {
      const found = pairs(a, b);
      expect(found.flatMap(each => (each.before === null ? [] : [each.before]))).toEqual(a);
      expect(found.flatMap(each => (each.after === null ? [] : [each.after]))).toEqual(b);
      for (const { before, after, kind, same } of found) {
        expect(before ?? after).not.toBeNull();
        expect((before?.kind ?? kind) === (after?.kind ?? kind)).toBe(true);
        expect(same).toBe(JSON.stringify(before) === JSON.stringify(after));
      }
    })
  );
});

test('equal sides are the same from the first to the last', () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), a => {
      expect(pairs(a, a).every(each => each.same)).toBe(true);
    })
  );
});

test('a side that has something more does not push the rest out of line', () => {
  const found = pairs(
    [of('stdout', 'x'), of('result', '1')],
    [of('stdout', 'x'), of('error', 'no'), of('result', '1')]
  );
  expect(found.map(each => [each.kind, each.same])).toEqual([
    ['stdout', true],
    ['error', false],
    ['result', true]
  ]);
});

test('images that are left out are not said to be the same', () => {
  const image = { mime: 'image/png' as const, data: null, bytes: 9 };
  const one: ReportPiece = { ...of('image', ''), image };
  expect(pairs([one], [one])[0]?.same).toBe(false);
  expect(imageSource(one)).toBeNull();
  expect(imageSource({ ...one, image: { ...image, data: 'AAAA' } })).toBe(
    'data:image/png;base64,AAAA'
  );
});

test('short times are told in milliseconds', () => {
  const trans = nullTranslator.load('reprise');
  expect([0, 0.0001, 0.0042, 0.99, 0.9999, 2.14].map(each => took(each, trans))).toEqual([
    '0 ms',
    '1 ms',
    '4 ms',
    '990 ms',
    '1.0 s',
    '2.1 s'
  ]);
});
