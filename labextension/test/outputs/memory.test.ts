// What a notebook remembers, and which cells have missed something, whatever stands in the file.
// @vitest-environment node

import fc from 'fast-check';
import { expect, test } from 'vitest';

import {
  beginningOf,
  ICellStep,
  missed,
  readMemory,
  sameKinds,
  sameOutputs,
  shownUntil,
  withMemory
} from '../../src/outputs/memory';

const STEP: ICellStep = {
  cell: 'a',
  seq: 7,
  msg_id: 'm',
  client: 'c',
  connected: false,
  actor: 'user',
  outcome: 'ok',
  execution_count: 3,
  late_only: false
};

function stream(text: string | string[], name = 'stdout') {
  return { output_type: 'stream', name, text };
}

test('only what a page wrote is remembered, whatever a file holds', () => {
  expect(readMemory({ session: 's', step: 4, outputs: 9 })).toEqual({
    session: 's',
    step: 4,
    outputs: 9
  });
  expect(readMemory({ session: 's' })).toEqual({ session: 's', step: null, outputs: null });
  expect(readMemory({ session: 's', step: -1, outputs: 0 })?.step).toBe(-1);
  for (const step of [-2, 1.5, '4', null, Number.NaN, 2 ** 60]) {
    expect(readMemory({ session: 's', step })?.step).toBeNull();
  }
  fc.assert(
    fc.property(fc.anything(), said => {
      const found = readMemory(said);
      expect(found === null || typeof found.session === 'string').toBe(true);
    })
  );
});

test('what others keep beside it stays', () => {
  const memory = { session: 's', step: 4, outputs: 9 };
  expect(withMemory({ environment: 'x', session: 'r', step: 1 }, memory)).toEqual({
    environment: 'x',
    ...memory
  });
  expect(withMemory(['no'], memory)).toEqual(memory);
  expect(withMemory(undefined, memory)).toEqual(memory);
});

test('a cell has missed what is newer than the notebook, cleared or not', () => {
  const cleared = { count: null };
  expect(missed(STEP, 6, { count: 3 })).toBe(true);
  expect(missed(STEP, 7, cleared)).toBe(false);
  expect(missed(STEP, 8, cleared)).toBe(false);
});

test('where nobody remembers, a cell tells by what it holds', () => {
  expect(missed(STEP, null, { count: null })).toBe(true);
  expect(missed(STEP, null, { count: 2 })).toBe(true);
  expect(missed(STEP, null, { count: 3 })).toBe(false);
  expect(missed(STEP, null, { count: 4 })).toBe(false);
  expect(missed({ ...STEP, execution_count: null }, null, { count: 2 })).toBe(false);
});

test('the notebook shows the session up to before the first step that is open', () => {
  expect(shownUntil(10, [])).toBe(9);
  expect(shownUntil(0, [])).toBe(-1);
  expect(shownUntil(10, [8, 4, 9])).toBe(3);
});

test('outputs are the same however their texts are divided', () => {
  const bundle = (html: unknown) => ({ output_type: 'display_data', data: { 'text/html': html } });
  expect(sameOutputs([stream(['a\n', 'b'])], [stream('a\nb')])).toBe(true);
  expect(sameOutputs([bundle(['<b>', '</b>']) as never], [bundle('<b></b>') as never])).toBe(true);
  expect(sameOutputs([stream('a')], [stream('a', 'stderr')])).toBe(false);
  expect(sameOutputs([stream('a')], [])).toBe(false);
  expect(sameKinds([stream('a')], [stream('b')])).toBe(true);
  expect(sameKinds([], [stream('b')])).toBe(false);
});

test('outputs begin others when only something came behind them', () => {
  const error = { output_type: 'error', ename: 'E', evalue: 'v', traceback: [] };
  expect(beginningOf([stream('a')], [stream('ab')])).toBe(true);
  expect(beginningOf([stream('a'), error], [stream('a'), error, stream('c')])).toBe(true);
  expect(beginningOf([stream('b')], [stream('ab')])).toBe(false);
  expect(beginningOf([stream('a'), error], [stream('ab'), error])).toBe(false);
  // An empty cell begins everything: somebody may have cleared it.
  expect(beginningOf([], [stream('a')])).toBe(false);
  fc.assert(
    fc.property(fc.array(fc.string()), fc.nat(), (texts, cut) => {
      const whole = texts.map((text, at) => stream(text, at % 2 ? 'stderr' : 'stdout'));
      const part = whole.slice(0, cut % (whole.length + 1));
      expect(beginningOf(part, whole)).toBe(part.length > 0);
    })
  );
});
