// The section shows one session's files: what another one's browser hears late is not shown.

import { PageConfig } from '@jupyterlab/coreutils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { Contents, ContentsManager, ServerConnection } from '@jupyterlab/services';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { afterEach, expect, test } from 'vitest';

import { IConnection } from '../../src/api/tokens';
import { INotebookSession, ISessions } from '../../src/sessions/tokens';
import { Across } from '../../src/workspace/across';
import { WorkspaceDrive } from '../../src/workspace/drive';
import { IChanges, WorkspaceFiles } from '../../src/workspace/files';
import { madeEntry } from '../../src/workspace/models';
import { IPlace } from '../../src/workspace/paths';
import { WorkspaceSection } from '../../src/workspace/section';

const ONE = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0001';
const TWO = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0002';

let section: WorkspaceSection | null = null;

afterEach(() => {
  section?.dispose();
  section = null;
});

function made() {
  const serverSettings = ServerConnection.makeSettings({ baseUrl: 'http://localhost:1/' });
  const asked: {
    session: string;
    fail: (error: Error) => void;
    answer: (...names: string[]) => void;
  }[] = [];
  const changes: IChanges[] = [];
  const put: string[] = [];
  const files = {
    folder: ({ session }: IPlace) =>
      new Promise((resolve, reject) => {
        asked.push({
          session,
          fail: reject,
          answer: (...names) => {
            const entries = names.map(each => madeEntry('', each, 'file', 1));
            resolve({ entries, total: names.length, more: false });
          }
        });
      }),
    entry: ({ path }: IPlace) => Promise.resolve(madeEntry('', path, 'file', 1)),
    put: (session: string, path: string) => {
      if (path === 'refused.txt') {
        return Promise.reject(new Error('Full.'));
      }
      put.push(`${session}/${path}`);
      return Promise.resolve();
    },
    change: (_: string, change: IChanges) => {
      changes.push(change);
      return Promise.resolve();
    }
  } as unknown as WorkspaceFiles;
  const drive = new WorkspaceDrive(files, serverSettings, () => []);
  const contents = new ContentsManager({ serverSettings });
  contents.addDrive(drive);
  const ask = (): Promise<'cancel'> => Promise.resolve('cancel');
  const session = (id: string): INotebookSession =>
    ({
      id,
      path: 'a.ipynb',
      status: { state: 'ready' },
      stepped: new Signal({}),
      statusChanged: new Signal({})
    }) as unknown as INotebookSession;
  const sessions = {
    current: session(ONE) as INotebookSession | null,
    currentChanged: new Signal<object, INotebookSession | null>({})
  };
  const services = {
    contents: contents as Contents.IManager,
    sessions: { runningChanged: new Signal({}), running: () => [] }
  };
  const documents = {
    services,
    deleteFile: (path: string) => contents.delete(path),
    activateRequested: new Signal({}),
    registry: { getFileTypesForPath: () => [], getFileTypeForModel: () => ({ name: 'text' }) }
  } as unknown as IDocumentManager;
  section = new WorkspaceSection({
    sessions: sessions as unknown as ISessions,
    documents,
    files,
    drive,
    across: new Across(contents, drive, ask),
    ask,
    connection: {
      line: { state: 'online' },
      changed: new Signal({}),
      restored: new Signal({})
    } as unknown as IConnection,
    translator: nullTranslator,
    trans: nullTranslator.load('reprise'),
    track: () => undefined
  });
  Widget.attach(section, document.body);
  const go = (to: INotebookSession | null): void => {
    sessions.current = to;
    sessions.currentChanged.emit(to);
  };
  return { section, asked, changes, put, go, session };
}

test('a browser that is left looks at nothing more, and its late failure is not shown', async () => {
  const { section, asked, go, session } = made();
  const { model } = section.browser!;
  await expect.poll(() => asked.map(each => each.session)).toEqual([ONE]);
  go(session(TWO));
  expect(model.isDisposed).toBe(true);
  await expect.poll(() => asked.map(each => each.session)).toEqual([ONE, TWO]);
  asked[1]?.answer();
  asked[0]?.fail(new Error('Not of this session.'));
  await expect.poll(() => section.node.querySelector('.jp-DirListing')).not.toBeNull();
  await new Promise(resolve => requestAnimationFrame(resolve));
  expect(section.node.textContent).not.toContain('Not of this session.');
  expect(section.shown).toEqual({ session: TWO, at: null });
});

test('without a session nothing is looked at', async () => {
  const { section, asked, go } = made();
  const { model } = section.browser!;
  await expect.poll(() => asked.length).toBe(1);
  const looking = section.refresh();
  go(null);
  asked[0]?.answer();
  await looking;
  expect(asked.length).toBe(1);
  expect(model.isDisposed).toBe(true);
  expect(section.browser).toBeNull();
});

test('files are looked at again when that is asked for while they are being listed', async () => {
  const { section, asked } = made();
  await expect.poll(() => asked.length).toBe(1);
  const both = Promise.all([section.refresh(), section.refresh()]);
  await new Promise(resolve => setTimeout(resolve, 50)); // JupyterLab's own asks a moment later
  asked[0]?.answer('before.txt');
  await expect.poll(() => asked.length).toBe(2);
  asked[1]?.answer('before.txt', 'after.txt');
  await both;
  expect([...section.browser!.model.items()].map(each => each.name)).toEqual([
    'before.txt',
    'after.txt'
  ]);
  expect(asked.length).toBe(2);
});

test('deleting is told as a step, also where the server has a trash for its own files', async () => {
  PageConfig.setOption('delete_to_trash', 'true');
  const { section, asked, changes } = made();
  await expect.poll(() => asked.length).toBe(1);
  asked[0]?.answer('a\u202eb.txt', 'c.txt');
  await expect.poll(() => [...section.browser!.model.items()].length).toBe(2);
  section.browser!['listing'].selectNext();
  void section.browser!.delete();
  const dialog = (): Element | null => document.querySelector('.jp-Dialog');
  await expect.poll(() => dialog()?.textContent).toContain('Delete “a\\u202eb.txt” from');
  expect(dialog()?.textContent).not.toContain('rash');
  dialog()?.querySelector<HTMLElement>('.jp-mod-warn')?.click();
  await expect.poll(() => changes).toEqual([{ remove: ['a\u202eb.txt'] }]);
});

test('what is dropped before the files are listed comes into the session', async () => {
  const { section, asked, put } = made();
  const dropped = section.browser!.model.upload(new File(['a'], 'a.txt'));
  await expect.poll(() => asked.length).toBe(2);
  for (const each of asked) {
    each.answer();
  }
  await expect.poll(() => put).toEqual([`${ONE}/a.txt`]);
  expect((await dropped).path).toBe(`Reprise:${ONE}/a.txt`);
});

test('what could not come in is said, also when the files are listed later', async () => {
  const { section, asked } = made();
  const { model } = section.browser!;
  await expect.poll(() => asked.length).toBe(1);
  const dropped = model.upload(new File(['a'], 'refused.txt'));
  await expect.poll(() => asked.length).toBe(2);
  asked[1]?.answer();
  await expect(dropped).rejects.toThrow('Full.');
  asked[0]?.answer();
  await expect.poll(() => section.node.textContent).toContain('Full');
});
