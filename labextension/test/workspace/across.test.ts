// Copies between the workspace and the person's own files are whole, or are refused.

import { Blob as Bytes } from 'node:buffer';

import { Contents, ContentsManager, ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { afterEach, expect, test } from 'vitest';

import { Across } from '../../src/workspace/across';
import { WorkspaceDrive } from '../../src/workspace/drive';
import { IEntry, WorkspaceFiles } from '../../src/workspace/files';
import { madeEntry } from '../../src/workspace/models';
import { IPlace } from '../../src/workspace/paths';

const SESSION = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0001';

let contents: ContentsManager;

afterEach(() => contents.dispose());

/** A workspace with a folder of so many files, and own files that take what comes. */
function sides(many: number): { across: Across; saved: string[] } {
  const serverSettings = ServerConnection.makeSettings({ baseUrl: 'http://localhost:1/' });
  const inside = new Map<string, readonly IEntry[]>([
    ['', [madeEntry('', 'many', 'dir', 0)]],
    ['many', Array.from({ length: many }, (_, each) => madeEntry('many', `f${each}`, 'file', 1))]
  ]);
  const files = {
    folder: ({ path }: IPlace, limit: number) => {
      const all = inside.get(path) ?? [];
      const entries = all.slice(0, limit);
      return Promise.resolve({ entries, total: all.length, more: all.length > limit });
    },
    entry: ({ path }: IPlace) =>
      Promise.resolve([...inside.values()].flat().find(each => each.path === path) ?? null),
    // jsdom's own cannot be read.
    bytes: () => Promise.resolve(new Bytes(['x']))
  } as unknown as WorkspaceFiles;
  const drive = new WorkspaceDrive(files, serverSettings, () => []);
  const saved: string[] = [];
  const own = {
    name: '',
    serverSettings,
    fileChanged: new Signal({}),
    get: (path: string) => Promise.resolve({ path, type: 'directory', content: [] }),
    save: (path: string, options: Partial<Contents.IModel>) => {
      saved.push(path);
      return Promise.resolve({ path, ...options });
    },
    dispose: () => undefined
  } as unknown as Contents.IDrive;
  contents = new ContentsManager({ serverSettings, defaultDrive: own });
  contents.addDrive(drive);
  const across = new Across(contents, drive, () => Promise.resolve('keep'));
  return { across, saved };
}

test('a folder with more files than are listed at first is copied whole', async () => {
  const { across, saved } = sides(2_500);
  expect(await across.copy([`Reprise:${SESSION}/many`], 'to')).toEqual(['to/many']);
  expect(saved).toHaveLength(2_501);
  expect(saved.at(-1)).toBe('to/many/f2499');
});

test('a folder with more files than are copied is refused before anything is', async () => {
  const { across, saved } = sides(5_001);
  await expect(across.copy([`Reprise:${SESSION}/many`], 'to')).rejects.toThrow(
    'many has 5,001 entries'
  );
  expect(saved).toEqual([]);
});
