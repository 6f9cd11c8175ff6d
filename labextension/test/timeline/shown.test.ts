/** Recorded messages as outputs: what a strange sandbox sent takes no other shape than an output's. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  asEntry,
  asOutputs,
  firstLines,
  outputPicture,
  outputText,
  plain
} from '../../src/timeline/shown';
import type { Entry } from '../../src/timeline/shown';

const stream = (text: string, name = 'stdout'): Entry => ['stream', { name, text }, {}, []];

describe('what a step showed', () => {
  it('joins streams, and keeps stderr apart', () => {
    const outputs = asOutputs([stream('a'), stream('b\n'), stream('!', 'stderr'), stream('c')]);
    expect(outputs.map(each => [each['name'], each['text']])).toEqual([
      ['stdout', 'ab\n'],
      ['stderr', '!'],
      ['stdout', 'c']
    ]);
  });

  it('is without what was cleared, at once or with the next one', () => {
    const clear = (wait: boolean): Entry => ['clear_output', { wait }, {}, []];
    expect(asOutputs([stream('a'), clear(false), stream('b')])).toHaveLength(1);
    expect(asOutputs([stream('a'), clear(true)])).toHaveLength(1);
    const waited = asOutputs([stream('a'), clear(true), stream('b')]);
    expect(waited.map(each => each['text'])).toEqual(['b']);
  });

  it('shows a display as it was updated last', () => {
    const shown = (type: string, text: string): Entry => [
      type,
      { data: { 'text/plain': text }, metadata: {}, transient: { display_id: 'd' } },
      {},
      []
    ];
    const outputs = asOutputs([
      shown('display_data', '0 %'),
      stream('x'),
      shown('update_display_data', '100 %')
    ]);
    expect(outputs.map(outputText)).toEqual(['100 %', 'x']);
  });

  it('takes whatever comes, and tells of it in texts', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(
            fc.jsonValue(),
            fc.tuple(
              fc.constantFrom('stream', 'error', 'display_data', 'execute_result', 'comm_msg'),
              fc.dictionary(
                fc.constantFrom('data', 'text', 'name', 'traceback', 'transient', 'metadata'),
                fc.jsonValue()
              ),
              fc.jsonValue(),
              fc.jsonValue()
            )
          )
        ),
        told => {
          for (const output of asOutputs(told.map(asEntry))) {
            expect(['stream', 'error', 'display_data', 'execute_result']).toContain(
              output.output_type
            );
            const text = outputText(output);
            expect(text === null || typeof text === 'string').toBe(true);
            if (output.output_type === 'stream') {
              expect(typeof output['text']).toBe('string');
            }
          }
        }
      )
    );
  });

  it('takes no picture for one that is an address, or code', () => {
    const output = (data: object): never => ({ output_type: 'display_data', data }) as never;
    expect(outputPicture(output({ 'image/png': 'iVBORw0KGgo=\n' }))).toBe(
      'data:image/png;base64,iVBORw0KGgo='
    );
    for (const bytes of ['https://a.example/x.png', '"><script>', '../x', 'a b,c', '']) {
      expect(outputPicture(output({ 'image/png': bytes }))).toBeNull();
    }
    expect(outputPicture(output({ 'image/svg+xml': '<svg/>' }))).toBeNull();
  });

  it('is plain without colours of a terminal', () => {
    expect(plain('\u001b[0;31mKeyError\u001b[0m: 1')).toBe('KeyError: 1');
  });

  it('is cut behind a line, and says how many there are', () => {
    fc.assert(
      fc.property(
        fc.array(fc.stringMatching(/^[a-z]{0,5}$/), { minLength: 1, maxLength: 40 }),
        fc.integer({ min: 1, max: 50 }),
        (lines, most) => {
          const cut = firstLines(lines.join('\n'), most);
          const real = lines.length > 1 && lines.at(-1) === '' ? lines.slice(0, -1) : lines;
          expect(cut.total).toBe(real.length);
          expect(cut.text.split('\n').slice(0, Math.min(most, real.length))).toEqual(
            real.slice(0, most)
          );
        }
      )
    );
  });
});
