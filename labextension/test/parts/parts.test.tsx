// What panels share keeps its promises: hostile text is harmless, lists hold few rows, words are right.

import { nullTranslator } from '@jupyterlab/translation';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { Announcer } from '../../src/parts/announcer';
import { ClosedSanitizer } from '../../src/parts/rendering';
import { moved } from '../../src/parts/roving';
import { counted } from '../../src/parts/texts';
import { rowsIn } from '../../src/parts/windowed';
import { duration, exact, firstLine, size } from '../../src/parts/words';

const trans = nullTranslator.load('reprise');

describe('markup of strangers', () => {
  const sanitizer = new ClosedSanitizer();

  test.each([
    ['<img src="https://evil.example.org/x.png">', /evil/],
    ['<img src="x" srcset="https://evil.example.org/x 2x">', /evil/],
    ['<a href="javascript:alert(1)">x</a>', /javascript/],
    ['<a href="/lab/tree/x">x</a>', /\/lab/],
    ['<a data-commandlinker-command="terminal:create-new" href="#">x</a>', /command/],
    ['<p style="position:fixed;inset:0">x</p>', /style/],
    ['<p class="jp-Dialog jp-Reprise-decision">x</p>', /jp-/],
    ['<p id="x" name="y">x</p>', /id=|name=/],
    ['<iframe src="/lab"></iframe>', /iframe/],
    ['<form action="/x"><button formaction="/y">x</button></form>', /form|button/],
    ['<svg><use xlink:href="/x#y"/></svg>', /use|xlink/],
    ['<video poster="https://evil.example.org/x"></video>', /evil/],
    ['<div onclick="x()">x</div>', /onclick/],
    ['<style>body{display:none}</style>', /style/]
  ])('%s does nothing', (dirty, never) => {
    expect(sanitizer.sanitize(dirty)).not.toMatch(never);
  });

  test('tables, code with its language and pictures that are in the text stay', () => {
    const kept = sanitizer.sanitize(
      '<table><tr><td>1</td></tr></table><pre><code class="language-python">x</code></pre>' +
        '<img src="data:image/png;base64,AA==" alt="p"><a href="https://example.org/">out</a>'
    );
    expect(kept).toContain('<td>1</td>');
    expect(kept).toContain('language-python');
    expect(kept).toContain('data:image/png');
    expect(kept).toContain('rel="noopener noreferrer"');
    expect(kept).toContain('target="_blank"');
  });
});

describe('exact text', () => {
  test('what cannot be seen is written out', () => {
    expect(exact('a\u001b[31mb\u202ec\u200bd\r\ne\tf')).toBe(
      'a\\x1b[31mb\\u202ec\\u200bd\\x0d\ne\tf'
    );
  });

  test('nothing is lost or hidden in any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), text => {
        expect(exact(text)).not.toMatch(/[\p{Cf}\p{Zl}\p{Zp}]|(?![\n\t])\p{Cc}/u);
        const visible = Array.from(text).filter(each => !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(each));
        let at = 0;
        for (const each of visible) {
          at = exact(text).indexOf(each, at) + each.length;
          expect(at).toBeGreaterThanOrEqual(each.length);
        }
      })
    );
  });
});

describe('rows in view', () => {
  test('a list of 50,000 holds no more than its view and a margin, and all of its view', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 50_000 * 28 }),
        fc.integer({ min: 0, max: 2_000 }),
        (top, height) => {
          const { first, end } = rowsIn(top, height, 28, 50_000);
          expect(end - first).toBeLessThanOrEqual(height / 28 + 26);
          expect(first).toBeLessThanOrEqual(Math.floor(top / 28));
          expect(end).toBeGreaterThanOrEqual(Math.min(50_000, Math.ceil((top + height) / 28)));
        }
      )
    );
  });

  test('keys stay in the list', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('ArrowDown', 'ArrowUp', 'Home', 'End', 'PageDown', 'PageUp'),
        fc.integer({ min: 1, max: 1_000 }),
        fc.integer({ min: 1, max: 50 }),
        (key, total, page) => {
          for (const at of [0, Math.floor(total / 2), total - 1]) {
            const to = moved(key, at, total, page);
            expect(to).not.toBeNull();
            expect(to!).toBeGreaterThanOrEqual(0);
            expect(to!).toBeLessThan(total);
          }
        }
      )
    );
    expect(moved('a', 0, 3, 1)).toBeNull();
    expect(moved('ArrowDown', 0, 0, 1)).toBeNull();
  });
});

describe('words', () => {
  test('times, sizes, first lines', () => {
    expect([0.04, 0.2, 14, 125, 3_780].map(each => duration(each, trans))).toEqual([
      '40 ms',
      '0.2 s',
      '14 s',
      '2 min 5 s',
      '1 h 3 min'
    ]);
    expect([512, 1_234, 4e9, 12_345_678].map(size)).toEqual(['512 B', '1.2 kB', '4.0 GB', '12 MB']);
    expect(firstLine('\n  df.head()\n')).toBe('df.head()');
    expect(firstLine('a\nb')).toBe('a …');
  });

  test('lines that came and went', () => {
    expect(counted('a\nb\nc', 'a\nx\ny\nc')).toEqual({ added: 2, removed: 1 });
    expect(counted('same', 'same')).toEqual({ added: 0, removed: 0 });
  });
});

describe('announcements', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('one message in three seconds, what waits for a person first', () => {
    const announcer = new Announcer();
    const said = (): string[] =>
      ['polite', 'assertive'].map(
        manner =>
          document.querySelector(`.jp-Reprise-announcer[aria-live=${manner}]`)?.textContent ?? ''
      );
    announcer.polite('one');
    announcer.polite('two');
    announcer.assertive('a question');
    expect(said()).toEqual(['one', '']);
    vi.advanceTimersByTime(3_000);
    expect(said()).toEqual(['one', 'a question']);
    vi.advanceTimersByTime(3_000);
    expect(said()).toEqual(['two', 'a question']);
    announcer.dispose();
    expect(document.querySelector('.jp-Reprise-announcer')).toBeNull();
  });
});
