// The drive against a server that holds each request and answer against the API's document.
// @vitest-environment node

import { beforeEach, afterEach, expect, test } from 'vitest';

import { Api } from '../../src/api/client';
import { DriveError, WorkspaceDrive } from '../../src/workspace/drive';
import { WorkspaceFiles } from '../../src/workspace/files';
import { FakeServer } from '../server';

const SESSION = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0001';
const OTHER = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0002';

let server: FakeServer;
let api: Api;
let drive: WorkspaceDrive;
/** Paths with their bytes; null is a folder. */
let files: Map<string, string | null>;
let asked: string[];

function entry(path: string): object {
  const content = files.get(path) ?? null;
  return {
    name: path.slice(path.lastIndexOf('/') + 1),
    path,
    type: content === null ? 'dir' : 'file',
    mode: 420,
    size: content === null ? null : content.length,
    modified: '2026-11-30T12:00:00.000000Z',
    target: null,
    leads: null
  };
}

function job(summary: object, state = 'done', error: object | null = null): object {
  return {
    id: OTHER,
    kind: 'upload',
    session: SESSION,
    by: 'alice',
    asked: {},
    state,
    cancelling: false,
    created_at: '2026-11-30T12:00:00.000000Z',
    started_at: '2026-11-30T12:00:00.000000Z',
    ended_at: '2026-11-30T12:00:01.000000Z',
    progress: { text: '', done: null, total: null, counts: {} },
    outputs: 0,
    summary,
    result_bytes: null,
    error,
    version: 3
  };
}

beforeEach(async () => {
  server = await FakeServer.start();
  api = new Api({ settings: server.settings });
  files = new Map<string, string | null>([
    ['a.txt', 'text'],
    ['sub', null],
    ['sub/b.bin', 'x\u0001'],
    ['nb.ipynb', '{"cells": []}'],
    ["a'b & c#d%41?e.txt", 'odd']
  ]);
  asked = [];
  server.on('GET /sessions/{session}/files/folder', ({ query }) => {
    const folder = String(query.path ?? '');
    const after = String(query.after ?? '');
    const limit = Number(query.limit);
    const inside = [...files.keys()]
      .filter(each => each.slice(0, Math.max(0, each.lastIndexOf('/'))) === folder)
      .sort();
    const found = inside.filter(each => each.slice(each.lastIndexOf('/') + 1) > after);
    const page = found.slice(0, limit);
    return {
      json: {
        session: SESSION,
        workspace: 'of the running kernel',
        at: query.at === undefined ? null : Number(query.at),
        path: folder,
        entries: page.map(entry),
        total: inside.length,
        next: found.length > limit ? String(page.at(-1)).split('/').at(-1) : null
      }
    };
  });
  server.on('GET /sessions/{session}/files/content', ({ query }) => ({
    bytes: files.get(String(query.path)) ?? '',
    type: 'application/octet-stream'
  }));
  server.on('PUT /sessions/{session}/files/content', ({ query, bytes }) => {
    const path = String(query.path);
    asked.push(`put ${path}`);
    if (files.has(path) && query.replace !== 'true') {
      return { status: 409, json: { error: { code: 'exists', message: `${path} is there.` } } };
    }
    files.set(path, bytes.toString());
    return { json: job({ outcome: 'ok', seq: 4 }) };
  });
  server.on('POST /sessions/{session}/file-changes', ({ body }) => {
    asked.push(JSON.stringify(body));
    return { json: job({ outcome: 'ok', seq: 5 }) };
  });
  drive = new WorkspaceDrive(new WorkspaceFiles(api), server.settings, () => [
    { id: SESSION, name: 'a.ipynb' }
  ]);
}, 60_000);

afterEach(async () => {
  drive.dispose();
  api.dispose();
  await server.close();
});

test('folders and files are models that the file browser takes', async () => {
  const folder = await drive.get(SESSION, { content: true });
  const names = (folder.content as { name: string; type: string; path: string }[]).map(
    each => `${each.type} ${each.name}`
  );
  expect(names).toEqual([
    "file a'b & c#d%41?e.txt",
    'file a.txt',
    'notebook nb.ipynb',
    'directory sub'
  ]);
  expect((await drive.get('', { content: true })).content).toMatchObject([
    { type: 'directory', name: 'a.ipynb', path: SESSION }
  ]);
  expect((await drive.get(`${SESSION}/a.txt`, { content: true })).content).toBe('text');
  expect((await drive.get(`${SESSION}/a'b & c#d%41?e.txt`, { content: true })).content).toBe('odd');
  expect((await drive.get(`${SESSION}/nb.ipynb`, { content: true })).content).toEqual({
    cells: []
  });
  const bytes = await drive.get(`${SESSION}/sub/b.bin`, { content: true, format: 'base64' });
  expect([bytes.format, bytes.content]).toEqual(['base64', btoa('x\u0001')]);
  await expect(drive.get(`${SESSION}/none`)).rejects.toMatchObject({ response: { status: 404 } });
});

test('a folder of thousands is listed in part, and more when asked', async () => {
  for (let number = 0; number < 4_500; number += 1) {
    files.set(`sub/f${String(number).padStart(5, '0')}`, '');
  }
  const path = `${SESSION}/sub`;
  expect((await drive.get(path, { content: true })).content).toHaveLength(2_000);
  expect(drive.partial(path)).toEqual({ listed: 2_000, total: 4_501 });
  drive.more(path);
  drive.more(path);
  expect((await drive.get(path, { content: true })).content).toHaveLength(4_501);
  expect(drive.partial(path)).toBeNull();
  // One file of them is found without listing what is before it.
  expect((await drive.get(`${path}/f04321`)).name).toBe('f04321');
});

test('what is saved, made, moved and deleted is a change of files, and told', async () => {
  const told: string[] = [];
  drive.fileChanged.connect((_, { type, newValue, oldValue }) => {
    told.push(`${type} ${newValue?.path ?? oldValue?.path ?? ''}`);
  });
  await drive.save(`${SESSION}/a.txt`, { type: 'file', format: 'text', content: 'new' });
  expect(files.get('a.txt')).toBe('new');
  const made = await drive.newUntitled({ path: SESSION, type: 'file', ext: 'md' });
  expect(made.path).toBe(`${SESSION}/untitled.md`);
  expect((await drive.newUntitled({ path: SESSION, type: 'file', ext: 'md' })).name).toBe(
    'untitled (2).md'
  );
  files.set('c.txt', 'moved');
  await drive.rename(`${SESSION}/a.txt`, `${SESSION}/c.txt`);
  await drive.delete(`${SESSION}/sub`);
  expect(asked).toEqual([
    'put a.txt',
    'put untitled.md',
    'put untitled.md',
    'put untitled (2).md',
    '{"move":[{"from":"a.txt","to":"c.txt"}]}',
    '{"remove":["sub"]}'
  ]);
  expect(told).toEqual([
    `save ${SESSION}/a.txt`,
    `new ${SESSION}/untitled.md`,
    `new ${SESSION}/untitled (2).md`,
    `rename ${SESSION}/c.txt`,
    `delete ${SESSION}/sub`
  ]);
});

test('a save in pieces is one step, when the last piece has come', async () => {
  const piece = (content: string, chunk: number): Promise<unknown> =>
    drive.save(`${SESSION}/big.bin`, {
      type: 'file',
      format: 'base64',
      content: btoa(content),
      chunk
    });
  await piece('one ', 1);
  await piece('two ', 2);
  expect(asked).toEqual([]);
  await piece('three', -1);
  expect([asked, files.get('big.bin')]).toEqual([['put big.bin'], 'one two three']);
});

test('a past step is read-only, and files do not move between sessions', async () => {
  const past = `${SESSION}@3`;
  for (const act of [
    drive.save(`${past}/a.txt`, { type: 'file', format: 'text', content: 'x' }),
    drive.delete(`${past}/a.txt`),
    drive.rename(`${past}/a.txt`, `${past}/b.txt`),
    drive.newUntitled({ path: past, type: 'directory' }),
    drive.rename(`${SESSION}/a.txt`, `${OTHER}/a.txt`)
  ]) {
    await expect(act).rejects.toBeInstanceOf(DriveError);
  }
  expect(asked).toEqual([]);
  expect((await drive.get(past, { content: true })).writable).toBe(false);
});

test('a step that does not come in is an error with its words', async () => {
  server.on('POST /sessions/{session}/file-changes', () => ({
    json: job({}, 'failed', { code: 'sandbox-died', message: 'The sandbox died meanwhile.' })
  }));
  await expect(drive.delete(`${SESSION}/a.txt`)).rejects.toThrow('The sandbox died meanwhile.');
});

test('what is not built is told with its code', async () => {
  server.on('GET /sessions/{session}/files/folder', () => ({
    status: 409,
    json: { error: { code: 'not-built', message: 'It does not stand.', at: 3 } }
  }));
  await expect(drive.get(`${SESSION}@3`, { content: true })).rejects.toMatchObject({
    response: { status: 409 },
    cause: { code: 'not-built' }
  });
});
