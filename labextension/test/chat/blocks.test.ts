/** Cutting Markdown that comes in pieces changes nothing of how it is shown, and redoes little. */

import fc from 'fast-check';
import { marked } from 'marked';
import { describe, expect, it } from 'vitest';

import { Cut, withDefinitions } from '../../src/chat/blocks';

const PIECES = [
  'A line of *words*.',
  'Two lines\nof one paragraph.',
  '# A heading',
  'Setext\n---',
  '- one\n- two\n  more of two',
  '- one\n\n- loose two',
  '1. first\n2. second\n\n   with a paragraph',
  '- item\n\n  ```py\n  x = 1\n\n  y = 2\n  ```\n- next',
  '```py\nx = 1\n\n\ny = 2\n```',
  '~~~\n```\nnot closed by that\n~~~',
  '````md\n```py\nnested\n```\n````',
  '> quoted\n> more',
  '| a | b |\n|---|---|\n| 1 | 2 |',
  '    indented code\n\n    goes on',
  '***',
  '$$\nx = \\frac{1}{2}\n$$',
  'Ends with `code`',
  '<div>\n\ninner *words*\n\n</div>',
  '[a link][ref]',
  'words with ``` in them'
];

const documents = fc
  .array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 12 })
  .map(pieces => pieces.join('\n\n') + '\n');

function html(text: string): string {
  return marked.parse(text, { async: false }).replace(/\s+/g, ' ').trim();
}

function cut(text: string): string[] {
  return new Cut().take(text, false).blocks.map(each => each.text);
}

describe('cutting', () => {
  it('loses nothing', () => {
    fc.assert(
      fc.property(fc.oneof(documents, fc.string({ maxLength: 300 })), text => {
        expect(cut(text).join('')).toBe(text);
      })
    );
  });

  it('shows the blocks as it shows the whole', () => {
    fc.assert(
      fc.property(documents, text => {
        const parts = cut(text).map(each => html(each));
        expect(parts.filter(each => each !== '').join(' ')).toBe(html(text));
      }),
      { numRuns: 500 }
    );
  });

  it('cuts pieces as it cuts the whole, and leaves closed blocks as they are', () => {
    fc.assert(
      fc.property(documents, fc.array(fc.nat(40), { maxLength: 60 }), (text, sizes) => {
        const piecewise = new Cut();
        let at = 0;
        for (const size of sizes) {
          const before = piecewise.blocks.slice(0, -1);
          at = Math.min(text.length, at + size);
          piecewise.take(text.slice(0, at), true);
          const after = piecewise.blocks;
          before.forEach((each, place) => expect(after[place]).toBe(each));
        }
        piecewise.take(text, false);
        expect(piecewise.blocks.map(each => each.text)).toEqual(cut(text));
      })
    );
  });

  it('looks at the open block only, however long the text is', () => {
    const long = Array.from({ length: 5_000 }, (_, n) => `Paragraph ${n} of many.\n\n`).join('');
    const cutting = new Cut().take(long, true);
    const groups = cutting.groups;
    cutting.take(`${long}and more`, true);
    expect(cutting.groups.slice(0, -1)).toEqual(groups.slice(0, -1));
    groups.slice(0, -1).forEach((each, place) => expect(cutting.groups[place]).toBe(each));
    expect(cutting.blocks).toHaveLength(5_001);
  });

  it('begins anew when the text is another one', () => {
    const cutting = new Cut().take('one\n\ntwo\n\nthree', true);
    expect(cutting.take('another\n\ntext', true).blocks.map(each => each.text)).toEqual([
      'another\n\n',
      'text'
    ]);
  });

  it('tells code from Markdown, and what is in it', () => {
    const [words, code, rest] = new Cut().take(
      'Look:\n```python\na = 1\n\nb\n```\nDone',
      false
    ).blocks;
    expect(words).toMatchObject({ kind: 'markdown', text: 'Look:\n' });
    expect(code).toMatchObject({ kind: 'code', language: 'python', code: 'a = 1\n\nb' });
    expect(rest).toMatchObject({ kind: 'markdown', text: 'Done' });
    expect(new Cut().take('```\nopen\n', true).last).toMatchObject({
      kind: 'code',
      code: 'open\n'
    });
  });

  it('cuts a long list between items, so that little is shown anew', () => {
    const list = Array.from({ length: 400 }, (_, n) => `- item number ${n}`).join('\n');
    const blocks = new Cut().take(list, true).blocks;
    expect(blocks.length).toBeGreaterThan(1);
    expect(Math.max(...blocks.map(each => each.text.length))).toBeLessThan(5_000);
  });

  it('gives a block the definitions that stand elsewhere', () => {
    const cutting = new Cut().take('See [docs][d].\n\n[d]: https://a.example\n\nEnd', false);
    const [first] = cutting.blocks;
    expect(html(withDefinitions(first?.text ?? '', cutting.definitions))).toContain(
      'href="https://a.example"'
    );
    expect(withDefinitions('no reference', cutting.definitions)).toBe('no reference');
  });
});
