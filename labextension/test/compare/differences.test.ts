/** What differs between two steps: every difference is found, and none that is not there. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { asChanges, paired, unifiedLines } from '../../src/compare/differences';

const stream = (text: string): never => ({ output_type: 'stream', name: 'stdout', text }) as never;
const shown = (data: object, count: number | null = null): never =>
  ({ output_type: 'execute_result', data, metadata: {}, execution_count: count }) as never;

describe('outputs of two steps', () => {
  it('are the same whatever their prompt number', () => {
    expect(paired([shown({ 'text/plain': '1' }, 3)], [shown({ 'text/plain': '1' }, 9)])).toEqual([
      { is: 'same' }
    ]);
  });

  it('that came in between makes nothing behind it different', () => {
    const pairs = paired([stream('a'), stream('c')], [stream('a'), stream('b'), stream('c')]);
    expect(pairs.map(each => each.is)).toEqual(['same', 'alone', 'same']);
  });

  it('are compared as pictures, as texts, or by the type that differs', () => {
    const [a, b] = ['iVBORw0KGgo=', 'iVBORw0KGgp='];
    expect(paired([shown({ 'image/png': a })], [shown({ 'image/png': b })])[0]).toEqual({
      is: 'pictures',
      before: `data:image/png;base64,${a}`,
      after: `data:image/png;base64,${b}`
    });
    expect(paired([stream('1\n')], [stream('2\n')])[0]).toMatchObject({
      is: 'texts',
      before: '1\n',
      after: '2\n'
    });
    const html = (cell: string): object => ({ 'text/plain': '<df>', 'text/html': cell });
    expect(paired([shown(html('<td>1'))], [shown(html('<td>2'))])[0]).toMatchObject({
      is: 'texts',
      type: 'text/html'
    });
  });

  it('differ in as many places as they do, and never where they are equal', () => {
    const outputs = fc.array(fc.constantFrom('a', 'b', 'c').map(stream), { maxLength: 8 });
    fc.assert(
      fc.property(outputs, outputs, (before, after) => {
        const pairs = paired(before, after);
        expect(pairs).toHaveLength(Math.max(before.length, after.length));
        const equal = JSON.stringify(before) === JSON.stringify(after);
        expect(pairs.every(each => each.is === 'same')).toBe(equal);
      })
    );
  });
});

describe('what the server found', () => {
  it('is read line by line, names of files apart from lines that begin like them', () => {
    expect(
      unifiedLines('--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n--- was\n+++ is\n\\ No newline\n')
    ).toEqual([
      { is: 'place', text: '@@ -1,2 +1,2 @@' },
      { is: 'same', text: 'same' },
      { is: 'removed', text: '-- was' },
      { is: 'added', text: '++ is' },
      { is: 'place', text: 'No newline' }
    ]);
  });

  it('says so where variables cannot be asked, or files were not counted', () => {
    expect(asChanges({ changes: [], files: 40, variables: null })).toEqual({
      files: [],
      compared: 40,
      variables: null
    });
    expect(asChanges(null)).toEqual({ files: [], compared: null, variables: null });
  });
});
