// Names, arguments, findings, contents and archives, each as what reads them on the other side does.
// @vitest-environment node

import fc from 'fast-check';
import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';

import { argumentsOf } from '../../src/skills/arguments';
import { contentOf, textOf } from '../../src/skills/content';
import { IFound, MOST_FILE_BYTES, uploadsOf } from '../../src/skills/dropped';
import { candidates, chosenNames } from '../../src/skills/importing';
import { placed } from '../../src/skills/lint';
import { every, named, reference } from '../../src/skills/names';
import { tarOf } from '../../src/skills/tar';
import { fewTokens, tokens } from '../../src/skills/words';
import { nullTranslator } from '@jupyterlab/translation';

const trans = nullTranslator.load('reprise');

async function bytesOf(blob: Blob): Promise<Buffer> {
  return Buffer.from(await blob.arrayBuffer());
}

test('a reference and a name are the same thing', () => {
  for (const text of [
    'count-rows',
    'count-rows@3',
    'team/ml:count-rows@3',
    'organisation:a',
    `sha256:${'ab'.repeat(32)}`
  ]) {
    const found = named(text);
    expect(found).not.toBeNull();
    expect(reference(found!)).toBe(text);
  }
  for (const text of ['', 'Count', 'a@0', 'team/:a', '../x', 'a b', 'sha256:xyz', 'team/ml:']) {
    expect(named(text)).toBeNull();
  }
  expect(every({ skill: 'a@3', scope: 'team/ml' })).toEqual({ skill: 'a', scope: 'team/ml' });
});

test('a line of arguments is divided as a shell divides it', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom(...Array.from('ab \\"\'$;&|*~é')), maxLength: 20 }),
      line => {
        const found = argumentsOf(line);
        if (typeof found === 'string') {
          expect(["'", '"']).toContain(found);
          return;
        }
        // What is no quote, blank or backslash is a letter here; a shell is told so.
        const quoted = line.replace(/[$;&|*~]/g, 'x');
        const again = argumentsOf(quoted);
        expect(typeof again).not.toBe('string');
        if (!/\\$/.test(quoted)) {
          const shell = execFileSync(
            'sh',
            ['-c', `for each in ${quoted}; do printf '%s\\0' "$each"; done`],
            { encoding: 'utf8' }
          );
          expect(again).toEqual(shell.split('\0').slice(0, -1));
        }
      }
    ),
    { numRuns: 100 }
  );
});

test('nothing in an argument is replaced', () => {
  expect(argumentsOf('$HOME "$(rm x)" `y` *.csv a\\ b')).toEqual([
    '$HOME',
    '$(rm x)',
    '`y`',
    '*.csv',
    'a b'
  ]);
});

test('an archive is what tar reads: names of any length, bytes, who may execute', async () => {
  const long = `count-rows/${'very-long-folder/'.repeat(10)}ü.md`;
  const archive = await bytesOf(
    tarOf([
      { path: 'count-rows/SKILL.md', executable: false, content: 'héllo\n' },
      { path: 'count-rows/run.sh', executable: true, content: Uint8Array.of(0, 255, 10) },
      { path: long, executable: false, content: new Blob(['x'.repeat(513)]) },
      { path: 'count-rows/empty', executable: false, content: '' }
    ])
  );
  const run = (...args: string[]): Buffer => execFileSync('tar', args, { input: archive });
  const env = { ...process.env, LC_ALL: 'C.UTF-8' };
  const listed = execFileSync('tar', ['-tvf', '-', '--quoting-style=literal'], {
    input: archive,
    env
  }).toString();
  expect(
    listed
      .trim()
      .split('\n')
      .map(each => each.slice(0, 10))
  ).toEqual(['-rw-r--r--', '-rwxr-xr-x', '-rw-r--r--', '-rw-r--r--']);
  expect(listed).toContain(long);
  expect(run('-xOf', '-', 'count-rows/run.sh')).toEqual(Buffer.from([0, 255, 10]));
  expect(run('-xOf', '-', 'count-rows/SKILL.md').toString()).toBe('héllo\n');
  expect(run('-xOf', '-', long)).toHaveLength(513);
});

function found(path: string, content: string, size?: number): IFound {
  const file = new File([content], path.split('/').pop() ?? path);
  if (size !== undefined) {
    Object.defineProperty(file, 'size', { value: size });
  }
  return { path, file };
}

test('a folder is packed with its scripts executable, and each file that is not taken has its reason', async () => {
  const [upload, ...more] = await uploadsOf(
    [
      found('my-skill/SKILL.md', '---'),
      found('my-skill/scripts/go.py', '#!/usr/bin/env python3\n'),
      found('my-skill/.git/config', 'x'),
      found('my-skill/__MACOSX/._x', 'x'),
      found('my-skill/huge.bin', 'x', MOST_FILE_BYTES + 1)
    ],
    trans
  );
  expect(more).toEqual([]);
  expect(upload?.filename).toBe('my-skill');
  expect(upload?.notTaken.map(each => each.path)).toEqual([
    'my-skill/.git/config',
    'my-skill/__MACOSX/._x',
    'my-skill/huge.bin'
  ]);
  expect(upload?.notTaken[2]?.why).toBe('It has 17 MB; at most 17 MB are taken.');
  const listed = execFileSync('tar', ['-tvf', '-'], {
    input: await bytesOf(upload!.archive)
  }).toString();
  expect(listed).toMatch(/-rwxr-xr-x .* my-skill\/scripts\/go.py/);
  expect(listed).toMatch(/-rw-r--r-- .* my-skill\/SKILL.md/);
});

test('archives go as they are, beside what lies loose', async () => {
  const uploads = await uploadsOf(
    [found('a.zip', 'PK'), found('b.skill', 'PK'), found('SKILL.md', 'x'), found('f/c.zip', 'PK')],
    trans
  );
  expect(uploads.map(each => each.filename)).toEqual(['a.zip', 'b.skill', 'dropped files']);
});

test('a finding stands at its line, without the blanks before it, whatever the line', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: fc.constantFrom('a', ' ', '\n', 'é') })),
      fc.option(fc.integer({ min: -5, max: 50 })),
      (parts, line) => {
        const text = parts.join('');
        const [one] = placed(
          [{ rule: 'r', severity: 'error', path: 'SKILL.md', line, text: 't', mend: 'm' }],
          'SKILL.md',
          text
        );
        expect(one).toBeDefined();
        expect(one!.from).toBeGreaterThanOrEqual(0);
        expect(one!.to).toBeGreaterThanOrEqual(one!.from);
        expect(one!.to).toBeLessThanOrEqual(text.length);
        expect(text.slice(one!.from, one!.to)).not.toContain('\n');
      }
    )
  );
  const text = 'a\n  b: 1\nc';
  const where = (line: number | null): string =>
    placed([{ rule: 'r', severity: 'warning', path: 'x', line, text: '', mend: '' }], 'x', text)
      .map(each => text.slice(each.from, each.to))
      .join();
  expect([where(null), where(2), where(3), where(99)]).toEqual(['a', 'b: 1', 'c', 'c']);
});

test('what a file is tell its bytes; an SVG is a picture that has no origin', () => {
  const svg = '<?xml version="1.0"?>\n<!-- x -->\n<svg xmlns="http://www.w3.org/2000/svg"></svg>';
  const picture = contentOf(new TextEncoder().encode(svg));
  expect(picture).toMatchObject({ kind: 'picture', text: svg });
  expect(picture.kind === 'picture' && picture.address).toMatch(/^data:image\/svg\+xml;base64,/);
  const html = '<script>alert(1)</script><svg>';
  expect(contentOf(new TextEncoder().encode(html))).toEqual({ kind: 'text', text: html });
  expect(contentOf(Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0, 1))).toMatchObject({
    kind: 'picture'
  });
  expect(contentOf(Uint8Array.of(0, 1, 2))).toEqual({ kind: 'bytes' });
  expect(textOf(Uint8Array.of(0xff, 0x41))).toBeNull();
  expect(textOf(new TextEncoder().encode('\ufeffx'))).toBe('\ufeffx');
});

test('of what was found only what was chosen is asked for', () => {
  const all = candidates(
    ['a', 'b', 'c'].map(name => ({
      folder: name,
      name,
      digest: 'x',
      why_not: name === 'c' ? 'no SKILL.md' : null,
      findings: [],
      cost: null
    }))
  );
  expect(chosenNames(all, 0, new Set(['0 a', '0 b']))).toEqual(['a', 'b']);
  expect(chosenNames(all.slice(0, 2), 0, new Set(['0 a', '0 b']))).toEqual([]);
  expect(chosenNames(all, 1, new Set(['0 a']))).toBeNull();
  expect(chosenNames(all, 0, new Set(['0 c']))).toBeNull();
});

test('tokens are words: marked where they are estimated', () => {
  expect(tokens(1_240, false, trans)).toBe('~1,240 tokens');
  expect(tokens(1, true, trans)).toBe('1 token');
  expect([fewTokens(7), fewTokens(1_240), fewTokens(18_400)]).toEqual(['~7', '~1.2k', '~18k']);
});
