// Two steps compared in a tab: what differs stands open, what does not is said.

import type { Page } from '@playwright/test';

import {
  accessible,
  dismissLost,
  expect,
  openNotebook,
  runCell,
  sessionOf,
  setTheme,
  test
} from '../fixtures/lab';

type Located = { locator: Page['locator'] };
const tab = (page: Located) => page.locator('.jp-Reprise-Compare');

/** A small picture of that grey, as a cell makes it without a library. */
const PICTURE = `import base64, struct, zlib
def grey(level):
    row = b"\\0" + bytes([level]) * 40
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    head = struct.pack(">IIBBBBB", 40, 20, 8, 0, 0, 0, 0)
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * 20)) + chunk(b"IEND", b"")
from IPython.display import Image`;

async function compare(page: any, session: string, before: number, after: number): Promise<void> {
  await page.evaluate(
    (args: object) => (window as any).jupyterapp.commands.execute('reprise:compare', args),
    { session, before, after }
  );
  await expect(tab(page)).toBeVisible();
}

/** Numbers of the session's cells, in their order. */
async function cellSteps(server: any, session: string): Promise<number[]> {
  const { rows } = await server.api('GET', `sessions/${session}/rows?kind=cell`);
  return rows.map((each: { seq: number }) => each.seq);
}

test('input, outputs, files and variables; names of files are text; both themes, for screen readers', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, [
    'x = [3, 5, 8]\nopen("report.txt", "w").write("total 16\\n")\nprint("first")',
    'x.append(9)\ny = "new"\nopen("report.txt", "a").write("more\\n")\nopen("<img src=x onerror=window.taken=1>.txt", "w").write("hostile\\n")\nprint("second")'
  ]);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  await runCell(page, 1);
  const session = await sessionOf(server, `${name}.ipynb`);
  const [before, after] = await cellSteps(server, session);
  await compare(page, session, before, after);
  const part = (title: string) => tab(page).getByRole('button', { name: title });
  await expect(part('Variables')).toContainText('2 differ');
  for (const title of ['Input', 'Outputs', 'Files', 'Variables']) {
    await expect(part(title)).toHaveAttribute('aria-expanded', 'true');
  }
  await expect(part('Files')).toContainText('2 differ');
  await expect(tab(page)).toContainText('<img src=x onerror=window.taken=1>.txt');
  expect(await page.evaluate(() => (window as any).taken)).toBeUndefined();
  await expect(tab(page).locator('.jp-Reprise-Unified-line.jp-mod-added')).toHaveText([
    '+hostile',
    '+more'
  ]);
  await expect(tab(page).locator('tbody tr')).toHaveText([
    /x\[3, 5, 8\].*\[3, 5, 8, 9\]/,
    /y.*new/
  ]);
  await accessible(page, '.jp-Reprise-Compare');
  const mask = [tab(page).locator('.jp-Reprise-Compare-words'), tab(page).locator('input')];
  await expect(tab(page)).toHaveScreenshot('compare-light.png', { mask });
  await setTheme(page, 'JupyterLab Dark');
  await accessible(page, '.jp-Reprise-Compare');
  await expect(tab(page)).toHaveScreenshot('compare-dark.png', { mask });

  // A step beside itself has no differences, and that is said.
  await tab(page).getByLabel('First step').fill(String(after));
  await tab(page).getByLabel('First step').press('Enter');
  await expect(tab(page).locator('.jp-Reprise-Compare-summary')).toHaveText(
    /^No differences in 1 outputs?, \d+ files?\.$/
  );
  await expect(part('Input')).toHaveAttribute('aria-expanded', 'false');
  // What is no step is not taken.
  await tab(page).getByLabel('First step').fill('4000');
  await tab(page).getByLabel('First step').press('Enter');
  await expect(tab(page).getByLabel('First step')).toHaveValue(String(after));
});

test('pictures stand side by side, or under a slider that arrow keys move', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, [PICTURE, 'Image(grey(40))', 'Image(grey(200))']);
  await openNotebook(page, server, `${name}.ipynb`);
  for (const index of [0, 1, 2]) {
    await runCell(page, index);
  }
  const session = await sessionOf(server, `${name}.ipynb`);
  const [, before, after] = await cellSteps(server, session);
  await compare(page, session, before, after);
  const images = tab(page).locator('.jp-Reprise-images');
  await expect(images.locator('figcaption')).toHaveText([`Step ${before}`, `Step ${after}`]);
  await images.getByRole('button', { name: 'Slider' }).click();
  const slider = images.getByRole('slider');
  await slider.focus();
  await page.keyboard.press('ArrowRight');
  await expect(slider).toHaveValue('51');
  await expect(images.locator('img').nth(1)).toHaveAttribute('style', /51%/);
  await expect(tab(page).getByRole('button', { name: 'Variables' })).toContainText(
    'No differences.'
  );
});

test('comparing files can be stopped and begun again; without the server the tab says so', async ({
  page,
  server,
  name
}) => {
  // Both states are played again, so there is time to say stop.
  await server.notebook(`${name}.ipynb`, [
    'import time\ntime.sleep(5)\na = 1',
    'b = 2\nopen("b.txt", "w").write("b")'
  ]);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  await runCell(page, 1);
  const session = await sessionOf(server, `${name}.ipynb`);
  const [before, after] = await cellSteps(server, session);
  await compare(page, session, before, after);
  await tab(page).getByRole('button', { name: 'Stop' }).click();
  await expect(tab(page)).toContainText('Files and variables were not compared: it was stopped.');
  await tab(page).getByRole('button', { name: 'Compare them' }).click();
  await expect(tab(page).getByRole('button', { name: 'Files' })).toContainText('1 differs');
  await dismissLost(page);
  await server.server('stop');
  await tab(page).getByRole('button', { name: 'Swap' }).click();
  await expect(tab(page).getByRole('alert').first()).toContainText('The server cannot be reached.');
  await server.server('start');
  await tab(page).getByRole('button', { name: 'Try again' }).first().click();
  await expect(tab(page).getByRole('button', { name: 'Input' })).toBeVisible();
});
