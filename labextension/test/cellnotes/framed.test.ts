// Whatever HTML an output holds, what a frame is given of it runs, loads and leads nowhere.

import * as fc from 'fast-check';
import { expect, test } from 'vitest';

import { ADDRESS, framed, POLICY, SANDBOX, shell } from '../../src/cellnotes/framed';
import { readOriginal } from '../../src/cellnotes/original';

/** Attributes by which a browser loads, sends or runs something. */
const ACTS = /^(on.*|srcset|srcdoc|poster|background|data|action|formaction|ping|autofocus)$/i;
const NEVER =
  'script, iframe, frame, object, embed, link, meta, base, form, template, video, audio, noscript';

function check(html: string): DocumentFragment | null {
  const { content } = framed(html);
  if (content === null) {
    return null;
  }
  expect(content.querySelector(NEVER)).toBeNull();
  for (const element of content.querySelectorAll('*')) {
    for (const { name, value } of element.attributes) {
      expect(ACTS.test(name)).toBe(false);
      if (name === 'src') {
        expect(value).toMatch(/^data:image\//i);
      }
      if (/(^|:)href$/i.test(name)) {
        expect(value).toMatch(/^#/);
      }
      if (name === ADDRESS) {
        expect(value).toMatch(/^(https?:|mailto:)/i);
      }
    }
  }
  return content;
}

const pieces = fc.constantFrom(
  '<script>x()</script>',
  '<img src=x onerror=x()>',
  '<img src="data:image/png;base64,AA==">',
  '<IMG SRC=data:text/html,x>',
  '<svg><script>x()</script><a xlink:href="javascript:x()">a</a><use href="#a"/></svg>',
  '<math><mtext><table><mglyph><style><img src=x onerror=x()>',
  '<a href=" javascript:x()">j</a>',
  '<a href="https://e.example/" ping=/p target=_top>l</a>',
  `<a ${ADDRESS}="javascript:x()">f</a>`,
  `<svg><a href="#a" ${ADDRESS}="/hub/logout">g</a></svg>`,
  '<a href="data:text/html,<script>x()</script>">d</a>',
  '<iframe srcdoc="<script>x()</script>"></iframe>',
  '<meta http-equiv=refresh content="0;url=//e.example">',
  '<link rel=preconnect href=//e.example>',
  '<base href=//e.example>',
  '<form action=/api/terminals method=post><button formaction=/x autofocus>b</button></form>',
  '<template><img src=x onerror=x()></template>',
  '<noscript><p title="</noscript><img src=x onerror=x()>">',
  '<style>@import url(//e.example)</style>',
  '<object data=//e.example></object><embed src=//e.example>',
  '<video poster=//e.example autoplay src=//e.example></video>',
  '<table background=//e.example><tr><td>1</table>',
  '<!--><script>x()</script>-->',
  '<p>text',
  '</div></body></html>',
  '<'
);

test('nothing that acts is left, however it is put together', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(pieces, fc.string()), { maxLength: 12 }), parts => {
      check(parts.join(''));
    }),
    { numRuns: 150 }
  );
});

test('what is left of it is said to be off, and of a plain table nothing is', () => {
  expect(framed('<p>a</p><script>x()</script>').active).toBe(true);
  expect(framed('<p onclick="x()">a</p>').active).toBe(true);
  expect(framed('<img src="http://e.example/a.png"><p>a</p>').active).toBe(true);
  const table = framed(
    '<style scoped>td { color: red }</style><table class="df"><tr><td>1</table>'
  );
  expect(table.active).toBe(false);
  expect(table.content?.querySelector('style')?.textContent).toContain('color: red');
  expect(table.content?.querySelector('table')?.className).toBe('df');
});

test('where nothing can be seen, the frame is not used', () => {
  expect(framed('<div id="plot"></div><script>draw()</script>').content).toBeNull();
  expect(framed('<style>p { color: red }</style>').content).toBeNull();
});

test('links are kept as words with an address, and lead out only', () => {
  const content = check('<a href="https://e.example/x">x</a><a href="/lab">y</a>');
  expect(
    [...(content?.querySelectorAll(`[${ADDRESS}]`) ?? [])].map(each => each.textContent)
  ).toEqual(['x']);
});

test('an address that a stranger wrote is none', () => {
  const html = `<a ${ADDRESS}="javascript:x()" href="https://e.example/">a</a>
    <a ${ADDRESS}="/hub/logout">b</a><svg><a href="#c" ${ADDRESS}="/lab">c</a></svg>`;
  const found = check(html)?.querySelectorAll(`[${ADDRESS}]`) ?? [];
  expect([...found].map(each => each.getAttribute(ADDRESS))).toEqual(['https://e.example/']);
});

test('the walls are those of the document', () => {
  expect(SANDBOX).toBe('allow-same-origin');
  expect(POLICY).toBe("default-src 'none'; style-src 'unsafe-inline'; img-src data:");
  expect(shell('').indexOf(POLICY)).toBeLessThan(shell('').indexOf('<body>'));
});

test('an original is read whatever it is', () => {
  expect(readOriginal({ version: 1, data: { 'text/html': ['<p>', 'a'] } })).toEqual({
    html: '<p>a',
    off: false
  });
  const drawn = readOriginal({ version: 1, data: { 'image/svg+xml': '<svg>ö</svg>' } }).html;
  expect(drawn).toMatch(/^<img alt="" src="data:image\/svg\+xml;base64,/);
  expect(readOriginal({ version: 1, data: { 'application/vnd.plotly.v1+json': {} } })).toEqual({
    html: null,
    off: true
  });
  expect(readOriginal({ version: 1, omitted: { 'text/javascript': 9 } })).toEqual({
    html: null,
    off: true
  });
  fc.assert(
    fc.property(fc.anything(), value => {
      const { html } = readOriginal(value);
      expect(html === null || typeof html === 'string').toBe(true);
    })
  );
});
