// What is written is kept until it is saved or thrown away, and a file that is as it was is no change.
// @vitest-environment node

import fc from 'fast-check';
import { expect, test } from 'vitest';

import { IStore } from '../../src/parts/storage';
import { Draft, IBase } from '../../src/skills/draft';
import { bodyOf, nameIn, startText } from '../../src/skills/frontmatter';
import { saved } from '../../src/skills/saving';
import { ISkills } from '../../src/skills/tokens';
import { DIGEST, OTHER, version } from './catalog';

const TEXTS: Record<string, string> = {
  'SKILL.md': '---\nname: count-rows\ndescription: Counts.\n---\nDo it.\n',
  'scripts/count.py': '#!/usr/bin/env python3\nprint(1)\n'
};
const BINARY = Uint8Array.of(0, 1, 2, 255);

function base(digest = DIGEST): IBase {
  return {
    named: { skill: 'count-rows@3', scope: 'personal' },
    digest,
    files: [
      { path: 'SKILL.md', size: 60, executable: false, sha256: DIGEST },
      { path: 'data.bin', size: 4, executable: false, sha256: DIGEST },
      { path: 'scripts/count.py', size: 30, executable: true, sha256: DIGEST }
    ]
  };
}

class Store implements IStore {
  readonly kept = new Map<string, string>();
  full = false;
  getItem(key: string): string | null {
    return this.kept.get(key) ?? null;
  }
  setItem(key: string, value: string): void {
    if (this.full) {
      throw new Error('QuotaExceededError');
    }
    this.kept.set(key, value);
  }
  removeItem(key: string): void {
    this.kept.delete(key);
  }
}

let reads: string[] = [];

function draft(store = new Store(), from: IBase | null = base()): Draft {
  reads = [];
  const read = (_: ISkills.IName, path: string): Promise<Uint8Array> => {
    reads.push(path);
    const text = TEXTS[path];
    return Promise.resolve(text === undefined ? BINARY : new TextEncoder().encode(text));
  };
  return new Draft('count-rows', from, read, store, 'key');
}

test('a file that is typed back to what it was is no change', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.string()), async texts => {
      const store = new Store();
      const made = draft(store);
      const was = await made.text('SKILL.md');
      for (const text of texts) {
        made.setText('SKILL.md', text);
        expect(made.dirty).toBe(text !== was);
      }
      made.setText('SKILL.md', was ?? '');
      expect(made.dirty).toBe(false);
      expect(store.kept.size).toBe(0);
    })
  );
});

test('what was not saved is there again after the page was closed, bytes and all', async () => {
  const store = new Store();
  const first = draft(store);
  await first.text('SKILL.md');
  first.setText('SKILL.md', 'changed');
  first.put('new.bin', BINARY, false);
  first.remove('data.bin');
  await first.setExecutable('scripts/count.py', false);
  first.dispose();

  const second = draft(store);
  expect(second.takeUp()).toBe(true);
  expect(second.keptSince).toBeInstanceOf(Date);
  expect(second.files.map(each => [each.path, each.change, each.executable])).toEqual([
    ['SKILL.md', 'changed', false],
    ['data.bin', 'removed', false],
    ['new.bin', 'new', false],
    ['scripts/count.py', 'changed', false]
  ]);
  const all = await second.all();
  expect(all.map(each => each.path)).toEqual(['SKILL.md', 'new.bin', 'scripts/count.py']);
  expect(all[1]?.content).toEqual(BINARY);
  second.throwAway();
  expect(store.kept.size).toBe(0);
  expect(second.files.every(each => each.change === 'same')).toBe(true);
});

test('what was kept of another content is not taken for this one', async () => {
  const store = new Store();
  const first = draft(store);
  await first.text('SKILL.md');
  first.setText('SKILL.md', 'changed');
  expect(draft(store, base(OTHER)).takeUp()).toBe(false);
  for (const key of store.kept.keys()) {
    store.kept.set(key, 'no JSON');
  }
  expect(draft(store).takeUp()).toBe(false);
  expect(store.kept.size).toBe(0);
});

test('a browser that keeps nothing more is told, and nothing is lost in the page', async () => {
  const store = new Store();
  const made = draft(store);
  await made.text('SKILL.md');
  made.setText('SKILL.md', 'x'.repeat(2_000_001));
  expect(made.notKept).toBe('large');
  store.full = true;
  made.setText('SKILL.md', 'small');
  expect(made.notKept).toBe('full');
  expect(await made.text('SKILL.md')).toBe('small');
});

test('executable once and back is no change; SKILL.md is not taken out', async () => {
  const made = draft();
  await made.setExecutable('scripts/count.py', false);
  expect(made.dirty).toBe(true);
  await made.setExecutable('scripts/count.py', true);
  expect(made.dirty).toBe(false);
  made.remove('SKILL.md');
  expect(made.dirty).toBe(false);
});

test('a new skill begins with a text that names it, and is not dirty until somebody writes', async () => {
  const made = draft(new Store(), null);
  expect(await made.text('SKILL.md')).toBe(startText('count-rows'));
  expect(made.dirty).toBe(false);
  made.setText('SKILL.md', startText('count-rows').replace('count-rows', 'count-lines'));
  expect(made.dirty).toBe(true);
  expect(made.folder).toBe('count-lines');
});

test('a check is sent small files whole and of large ones the beginning', async () => {
  const large: IBase = {
    ...base(),
    files: base().files.map(each => (each.path === 'data.bin' ? { ...each, size: 1e6 } : each))
  };
  const made = draft(new Store(), large);
  const { files, whole } = await made.toCheck();
  expect([...whole]).toEqual(['SKILL.md', 'scripts/count.py']);
  expect(files.map(each => each.path)).toEqual(['SKILL.md', 'data.bin', 'scripts/count.py']);
  expect(reads).not.toContain('data.bin');
  expect((await made.all()).map(each => each.content.length)).toEqual([
    TEXTS['SKILL.md']?.length,
    4,
    TEXTS['scripts/count.py']?.length
  ]);
});

const arrival = {
  name: 'count-rows',
  folder: 'count-rows',
  origin: {},
  what: 'changed' as const,
  digest: OTHER,
  version: version({ number: 4, digest: OTHER }),
  problem: null,
  findings: [],
  notes: []
};

test('a version goes on from what was saved; a refusal loses nothing', async () => {
  const store = new Store();
  const made = draft(store);
  await made.text('SKILL.md');
  made.setText('SKILL.md', 'changed');
  const sent: ISkills.ISentFile[][] = [];
  let answer: ISkills.Arrivals = {
    skills: [{ ...arrival, what: 'refused', version: null, problem: 'It has no description.' }],
    notes: []
  };
  const skills = {
    save: (_: string, files: readonly ISkills.ISentFile[]) => {
      sent.push([...files]);
      return Promise.resolve(answer);
    },
    files: () => Promise.resolve(base().files)
  } as unknown as ISkills;
  await expect(saved(skills, made, '')).rejects.toThrow('It has no description.');
  expect(made.dirty).toBe(true);
  expect(store.kept.size).toBe(1);
  answer = { skills: [arrival], notes: [] };
  expect((await saved(skills, made, '')).number).toBe(4);
  expect(made.dirty).toBe(false);
  expect(made.base?.named).toEqual({ skill: 'count-rows@4', scope: 'personal' });
  expect(store.kept.size).toBe(0);
  expect(await made.text('SKILL.md')).toBe('changed');
});

test('what is changed while a version is saved is still a change of it, and kept as one', async () => {
  const store = new Store();
  const made = draft(store);
  const was = (await made.text('scripts/count.py')) ?? '';
  await made.text('SKILL.md');
  made.setText('SKILL.md', 'saved');
  made.setText('scripts/count.py', '# saved\n');
  made.put('gone.txt', 'saved', false);
  made.put('stays.txt', 'saved', false);
  const files = [...base().files, { ...base().files[0]!, path: 'stays.txt' }];
  const skills = {
    save: () => {
      made.setText('SKILL.md', 'saved, and more');
      made.setText('scripts/count.py', was);
      made.remove('gone.txt');
      made.remove('data.bin');
      return Promise.resolve({ skills: [arrival], notes: [] });
    },
    files: () => Promise.resolve([...files, { ...base().files[0]!, path: 'gone.txt' }])
  } as unknown as ISkills;
  await saved(skills, made, '');
  const wanted = [
    ['SKILL.md', 'changed'],
    ['data.bin', 'removed'],
    ['gone.txt', 'removed'],
    ['scripts/count.py', 'changed'],
    ['stays.txt', 'same']
  ];
  expect(made.files.map(each => [each.path, each.change])).toEqual(wanted);
  expect(await made.text('SKILL.md')).toBe('saved, and more');
  expect(await made.text('scripts/count.py')).toBe(was);
  // Opened anew, it is the version that was saved, with what was changed since.
  const next = draft(store, made.base);
  expect(next.takeUp()).toBe(true);
  expect(next.files.map(each => [each.path, each.change])).toEqual(wanted);
  expect(await next.text('SKILL.md')).toBe('saved, and more');
});

test('changes after a save are kept under the version that was saved', async () => {
  const store = new Store();
  const first = draft(store, null);
  first.setText('SKILL.md', 'saved');
  const skills = {
    save: () => Promise.resolve({ skills: [arrival], notes: [] }),
    files: () => Promise.resolve(base().files)
  } as unknown as ISkills;
  await saved(skills, first, '');
  first.setText('SKILL.md', 'later');
  const second = draft(store, {
    ...base(OTHER),
    named: { skill: 'count-rows@4', scope: 'personal' }
  });
  expect(second.takeUp()).toBe(true);
  expect(await second.text('SKILL.md')).toBe('later');
  expect(draft(store, null).takeUp()).toBe(false);
});

test.each([
  ['---\nname: count-rows\n---\nx', 'count-rows'],
  ['---\r\nname: "count-rows"\r\n---\r\nx', 'count-rows'],
  ["---\nname: 'a'  # why\n---\n", 'a'],
  ['\ufeff---\nname: a-b\n---\n', 'a-b'],
  ['---\nname: Count Rows\n---\n', null],
  ['---\nname: a--b\n---\n', null],
  ['name: a\n', null],
  ['---\ndescription: x\n---\nname: a\n', null]
])('the name that %j says', (text, name) => {
  expect(nameIn(text)).toBe(name);
});

test('the text below the frontmatter is all of it where there is none', () => {
  expect(bodyOf('---\nname: a\n---\n\n# A\n')).toBe('# A\n');
  expect(bodyOf('# A\n---\nb\n---\n')).toBe('# A\n---\nb\n---\n');
  expect(bodyOf('---\r\nname: a\r\n---\r\n# A')).toBe('# A');
});
