// Places in workspaces are named without ambiguity, whatever the files are called.
// @vitest-environment node

import * as fc from 'fast-check';
import { expect, test } from 'vitest';

import { freeName, fullPathOf, localPathOf, placeOf } from '../../src/workspace/paths';

const SESSION = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0001';

const name = fc
  .string({ minLength: 1, maxLength: 20, unit: 'binary' })
  .filter(each => !each.includes('/'));

test('a place is read from its own path', () => {
  fc.assert(
    fc.property(
      fc.array(name, { maxLength: 4 }),
      fc.option(fc.integer({ min: -1, max: 1e9 })),
      (parts, at) => {
        const place = { session: SESSION, at, path: parts.join('/') };
        expect(placeOf(localPathOf(place))).toEqual(place);
      }
    )
  );
});

test('what names no session is none', () => {
  for (const path of ['', '/', 'a.txt', `${SESSION}x/a`, `${SESSION}@x`, `../${SESSION}/a`]) {
    expect(placeOf(path)).toBeNull();
  }
  expect(fullPathOf({ session: SESSION, at: 41, path: 'a' })).toBe(`Reprise:${SESSION}@41/a`);
});

test('a free name is taken by nobody, keeps its ending, and is the same where nothing is in the way', () => {
  fc.assert(
    fc.property(name, fc.array(name), (wanted, others) => {
      const taken = new Set([...others, wanted, freeName(wanted, each => each === wanted)]);
      const free = freeName(wanted, each => taken.has(each));
      expect(taken.has(free)).toBe(false);
      expect(freeName(free, () => false)).toBe(free);
    })
  );
  const once = (each: string) => (other: string) => other === each;
  expect(freeName('data.csv', once('data.csv'))).toBe('data (2).csv');
  expect(freeName('a.tar.gz', once('a.tar.gz'))).toBe('a (2).tar.gz');
  expect(freeName('.env', once('.env'))).toBe('.env (2)');
  expect(freeName('Makefile', once('Makefile'))).toBe('Makefile (2)');
});
