// The session's files beside the user's own: looked at, changed by steps, taken out, as of a past step.

import { promises as fs } from 'fs';
import * as path from 'path';

import type { FileChooser } from '@playwright/test';

import {
  accessible,
  expect,
  openNotebook,
  runCell,
  sessionOf,
  setTheme,
  test
} from '../fixtures/lab';

const section = (page: any) => page.locator('.jp-Reprise-workspace');
const item = (page: any, file: string) =>
  section(page).locator('.jp-DirListing-item').filter({ hasText: file });

async function run(page: any, command: string, args: object = {}): Promise<void> {
  await page.evaluate(
    async ([command, args]: [string, object]) => {
      await (window as any).jupyterapp.commands.execute(command, args);
    },
    [command, args]
  );
}

/** Open the Workspace, with more room than it has beside the Timeline. */
async function openWorkspace(page: any): Promise<void> {
  await run(page, 'reprise:open-workspace');
  await section(page).waitFor();
}

async function kinds(server: any, session: string): Promise<string[]> {
  const { steps } = await server.api('GET', `sessions/${session}/steps?limit=1000`);
  return steps
    .filter((step: any) => step.kind === 'upload' && step.actor.kind === 'user')
    .map((step: any) => step.outcome);
}

const HOSTILE = ['we\u202egnp.exe', '<img src=x onerror=window.pwned=1>.txt', "a'b & c#d%41?e.txt"];

test('files of the session show after each step, open, and are named to their last character', async ({
  page,
  server,
  name
}) => {
  const make = `import pathlib
pathlib.Path("data.csv").write_text("a,b\\n1,2\\n")
pathlib.Path("page.html").write_text("<script>parent.pwned = 2; document.title='ran'</script><p>page</p>")
for name in ${JSON.stringify(HOSTILE)}: pathlib.Path(name).write_text("inside")
pathlib.Path("sub").mkdir()
pathlib.Path("sub/deep.txt").write_text("deep")`;
  await server.notebook(`${name}.ipynb`, [make, 'pathlib.Path("later.txt").write_text("x")']);
  await openNotebook(page, server, `${name}.ipynb`);
  await openWorkspace(page);
  await runCell(page, 0);
  await expect(item(page, 'data.csv')).toBeVisible();
  await expect(item(page, 'we\\u202egnp.exe')).toBeVisible();
  await expect(item(page, '<img src=x onerror=window.pwned=1>.txt')).toBeVisible();
  await runCell(page, 1);
  await expect(item(page, 'later.txt')).toBeVisible();

  await accessible(page, '.jp-Reprise-workspace-head');
  await item(page, 'data.csv').dblclick();
  await expect(page.locator('.jp-CSVViewer')).toBeVisible();
  await item(page, "a'b & c#d%41?e.txt").dblclick();
  await expect(page.locator('.jp-FileEditor .cm-content')).toHaveText('inside');
  await item(page, 'page.html').dblclick();
  await expect(page.locator('.jp-HTMLViewer iframe')).toBeVisible();
  expect(await page.evaluate(() => (window as any).pwned)).toBeUndefined();

  // By keyboard alone: to the files, and into a folder.
  // A document that is still loading takes the focus when it has come.
  await expect(async () => {
    await run(page, 'reprise:open-workspace');
    const focused = section(page).locator('.jp-DirListing :focus');
    await expect(focused).toHaveCount(1, { timeout: 2_000 });
  }).toPass();
  await page.keyboard.type('sub');
  await page.keyboard.press('Enter');
  await expect(item(page, 'deep.txt')).toBeVisible();
});

test('what comes in, is made, renamed or deleted is a step, and code sees it at once', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, [
    'x = 1',
    'print(open("notes.txt").read(), end="")',
    'import os; print(sorted(each for each in os.listdir() if each.startswith(("notes", "Untitled", "named"))))'
  ]);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  const session = await sessionOf(server, `${name}.ipynb`);
  await openWorkspace(page);
  const upload = async (text: string) => {
    let chooser!: FileChooser;
    await expect(async () => {
      [chooser] = await Promise.all([
        page.waitForEvent('filechooser', { timeout: 10_000 }),
        section(page).getByRole('button', { name: 'Upload Files' }).click()
      ]);
    }).toPass();
    await chooser.setFiles({
      name: 'notes.txt',
      mimeType: 'text/plain',
      buffer: Buffer.from(text)
    });
  };
  await upload('first');
  await expect(item(page, 'notes.txt')).toBeVisible();
  const shown = await runCell(page, 1);
  await expect(shown.locator('.jp-OutputArea-output')).toHaveText('first');

  await upload('second');
  const dialog = page.getByRole('dialog').filter({ hasText: 'There is a “notes.txt” already' });
  // The first choice loses nothing.
  await expect(dialog.getByRole('button', { name: 'Keep both' })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(item(page, 'notes (2).txt')).toBeVisible();
  await upload('third');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await expect(dialog).toHaveCount(0);
  await upload('fourth');
  await dialog.getByRole('button', { name: 'Replace' }).click();
  await expect(async () => expect(await kinds(server, session)).toHaveLength(3)).toPass();
  await runCell(page, 1);
  await expect(shown.locator('.jp-OutputArea-output')).toHaveText('fourth');

  await section(page).getByRole('button', { name: 'New Folder' }).click();
  await section(page).locator('.jp-DirListing-editor').waitFor();
  await page.keyboard.type('named');
  await page.keyboard.press('Enter');
  await expect(item(page, 'named')).toBeVisible();
  await item(page, 'notes (2).txt').click();
  await page.keyboard.press('Delete');
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await expect(item(page, 'notes (2).txt')).toHaveCount(0);
  const listed = await runCell(page, 2);
  await expect(listed.locator('.jp-OutputArea-output')).toHaveText("['named', 'notes.txt']");
  // Five files and folders that came, were renamed or went: each a step that a replay makes again.
  const done = await kinds(server, session);
  expect(done).toHaveLength(6);
  expect(new Set(done)).toEqual(new Set(['ok']));
});

test('files are saved to the notebook’s folder, and the user’s own are brought in', async ({
  page,
  server,
  name
}) => {
  const folder = `${name}-folder`;
  await server.notebook(`${folder}/${name}.ipynb`, [
    `import pathlib
pathlib.Path("out").mkdir()
pathlib.Path("out/result.bin").write_bytes(bytes(range(256)) * 8192)`,
    'import pathlib; print(pathlib.Path("own.txt").read_text())'
  ]);
  await fs.writeFile(path.join(server.folder, 'own.txt'), 'from the user');
  await openNotebook(page, server, `${folder}/${name}.ipynb`);
  await runCell(page, 0);
  await openWorkspace(page);
  await item(page, 'out').click();
  await section(page).getByText('Save to my folder').click();
  await expect(section(page)).toContainText(`Saved as out in ${folder}.`);
  const saved = await fs.readFile(path.join(server.folder, folder, 'out', 'result.bin'));
  expect(saved.length).toBe(2 ** 21);
  expect([...saved.subarray(0, 256)]).toEqual([...Array(256).keys()]);

  // JupyterLab's own copy throws between drives.
  const session = await sessionOf(server, `${name}.ipynb`);
  await page.evaluate(
    async ([from, to]: string[]) => {
      await (window as any).jupyterapp.serviceManager.contents.copy(from, to);
    },
    ['own.txt', `Reprise:${session}`]
  );
  await expect(item(page, 'own.txt')).toBeVisible();
  const shown = await runCell(page, 1);
  await expect(shown.locator('.jp-OutputArea-output')).toHaveText('from the user');
  expect(await fs.readFile(path.join(server.folder, 'own.txt'), 'utf8')).toBe('from the user');
});

test('files dropped from the desktop come in as steps; any is downloaded to the last byte', async ({
  page,
  server,
  name
}, info) => {
  await server.notebook(`${name}.ipynb`, ['print(open("dropped.txt").read(), end="")']);
  await openNotebook(page, server, `${name}.ipynb`);
  await openWorkspace(page);
  const bytes = Buffer.from(Uint8Array.from({ length: 70_000 }, (_, at) => at));
  await fs.writeFile(info.outputPath('dropped.txt'), 'from the desktop');
  await fs.writeFile(info.outputPath('bytes.bin'), bytes);
  const box = (await section(page).locator('.jp-DirListing-content').boundingBox())!;
  // What a page makes by script has no entries; this is the browser's own drag.
  const devtools = await page.context().newCDPSession(page.context().pages()[0]);
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const) {
    await devtools.send('Input.dispatchDragEvent', {
      type,
      x: box.x + box.width / 2,
      y: box.y + box.height - 10,
      data: {
        items: [],
        files: [info.outputPath('dropped.txt'), info.outputPath('bytes.bin')],
        dragOperationsMask: 1
      }
    });
  }
  await expect(item(page, 'dropped.txt')).toBeVisible();
  await expect(item(page, 'bytes.bin')).toBeVisible();
  const shown = await runCell(page, 0);
  await expect(shown.locator('.jp-OutputArea-output')).toHaveText('from the desktop');
  const session = await sessionOf(server, `${name}.ipynb`);
  expect(await kinds(server, session)).toEqual(['ok', 'ok']);

  await item(page, 'bytes.bin').click({ button: 'right' });
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.locator('.lm-Menu').getByText('Download', { exact: true }).click()
  ]);
  expect(download.suggestedFilename()).toBe('bytes.bin');
  expect((await fs.readFile(await download.path())).equals(bytes)).toBe(true);
});

test('files as of a past step are built, read-only, and left for now again', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, [
    'open("a.txt", "w").write("old")',
    'open("a.txt", "w").write("new"); open("b.txt", "w").write("new")'
  ]);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  await runCell(page, 1);
  const session = await sessionOf(server, `${name}.ipynb`);
  const { steps } = await server.api('GET', `sessions/${session}/steps`);
  const first = steps.find((step: any) => step.payload.content?.code?.includes('"old"'));
  await run(page, 'reprise:files-at-step', { session, step: first.seq });
  await expect(section(page)).toContainText(`Files as of step ${first.seq}, read-only.`);
  await expect(item(page, 'a.txt')).toBeVisible();
  await expect(item(page, 'b.txt')).toHaveCount(0);
  await expect(section(page).getByRole('button', { name: 'New Folder' })).toHaveCount(0);
  await item(page, 'a.txt').dblclick();
  await expect(page.locator('.jp-FileEditor .cm-content')).toHaveText('old');
  const refused = await page.evaluate(async (path: string) => {
    const { contents } = (window as any).jupyterapp.serviceManager;
    const save = contents.save(path, { type: 'file', format: 'text', content: 'x' });
    return save.then(
      () => 'saved',
      (error: Error) => error.message
    );
  }, `Reprise:${session}@${first.seq}/a.txt`);
  expect(refused).toContain('read-only. Nothing was changed.');
  await accessible(page, '.jp-Reprise-workspace-head');
  await setTheme(page, 'JupyterLab Dark');
  await accessible(page, '.jp-Reprise-workspace-head');
  await section(page).getByRole('button', { name: 'Back to now' }).click();
  await expect(item(page, 'b.txt')).toBeVisible();
});

test('a huge folder is shown in part, with its true size; a lost connection is said', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, [
    'import pathlib\npathlib.Path("many").mkdir()\nfor n in range(2500): pathlib.Path(f"many/f{n:04}").touch()'
  ]);
  await openNotebook(page, server, `${name}.ipynb`);
  await openWorkspace(page);
  await runCell(page, 0);
  await item(page, 'many').dblclick();
  await expect(section(page)).toContainText('2,000 of 2,500 entries.');
  await section(page).getByRole('button', { name: 'List more' }).click();
  await expect(section(page)).not.toContainText('of 2,500 entries.');
  // JupyterLab says by itself that its server is away.
  await page.addLocatorHandler(
    page.getByRole('dialog').filter({ hasText: 'Server Connection Error' }),
    async dialog => dialog.getByRole('button').first().click()
  );
  await server.server('stop');
  try {
    await run(page, 'filebrowser:refresh');
    await expect(section(page)).toContainText('Connection lost. What you see is as of');
    await expect(item(page, 'f0000')).toBeVisible();
  } finally {
    await server.server('start');
  }
  await expect(section(page)).not.toContainText('Connection lost');
});
