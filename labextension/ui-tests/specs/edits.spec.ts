// The agent's edits at cells: nothing before it is accepted, cell by cell; put back; yours stays.

import type { Locator, Page } from '@playwright/test';
import { createHash } from 'crypto';
import { promises as fs } from 'fs';
import * as path from 'path';

import { accessible, expect, openNotebook, runCell, setTheme, test } from '../fixtures/lab';
import type { Server } from '../fixtures/lab';

const ASK = 'rules:\n  - {name: edits, decision: ask, tool: edit_notebook}\n';

/** As in a terminal: a page would have to press it. */
async function policy(server: Server, text: string): Promise<void> {
  await fs.writeFile(path.join(server.folder, 'policy.yaml'), text);
  const set = await server.run('policy', 'set', 'personal', 'policy.yaml');
  expect(set.code, set.err).toBe(0);
}

/** Open a notebook and its chat, and say something there. */
async function say(page: Page, server: Server, notebook: string, words: string): Promise<void> {
  await openNotebook(page, server, notebook);
  await runCell(page, 0);
  await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:open-chat'));
  const input = page.getByLabel('Message to the agent');
  await input.fill(words);
  await input.press('Enter');
}

function cell(page: Page, index: number): Locator {
  return page.locator('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell').nth(index);
}

async function sources(page: Page): Promise<string[]> {
  return page.evaluate(() =>
    (window as any).jupyterapp.shell.currentWidget.content.model.sharedModel.cells.map(
      (each: { getSource(): string }) => each.getSource()
    )
  );
}

/** Save the notebook as a person does, and wait until it is. */
async function save(page: Page): Promise<void> {
  await page.keyboard.press('Control+s');
  await expect
    .poll(() =>
      page.evaluate(() => (window as any).jupyterapp.shell.currentWidget.context.model.dirty)
    )
    .toBe(false);
}

/** Press a button in the decision frame of a mark, as soon as the frame lets one. */
async function press(mark: Locator, label: string, done: () => Promise<void>): Promise<void> {
  const button = mark.frameLocator('iframe').getByRole('button', { name: label, exact: true });
  await expect(button).toBeVisible();
  await mark.locator('iframe').scrollIntoViewIfNeeded();
  await expect(async () => {
    if (await button.isVisible()) {
      await button.click({ timeout: 2_000 });
    }
    await done();
  }).toPass();
}

const soon = { timeout: 2_000 };

const edit = (...edits: object[]): { call: string; input: Record<string, unknown> } => ({
  call: 'edit_notebook',
  input: { edits }
});

/** The hash by which an edit of a code cell says how it was read. */
const was = (source: string): string =>
  createHash('sha256')
    .update(JSON.stringify(['code', source]))
    .digest('hex')
    .slice(0, 12);

const proposals = '.jp-Reprise-cellmark.jp-mod-proposal';
const changes = '.jp-Reprise-cellmark.jp-mod-changed';

test.afterEach(async ({ server }) => {
  await policy(server, 'rules: []\n');
});

test('what is asked about is accepted and rejected cell by cell, and written in one go', async ({
  page,
  server,
  name
}) => {
  await policy(server, ASK);
  await server.notebook(`${name}.ipynb`, ['x = 1', 'y = 2', 'z = 3']);
  await server.script(`edit ${name}`, [
    edit(
      { do: 'replace', cell: 'cell-1', was: was('y = 2'), source: 'y = x + 1' },
      { do: 'insert', source: 'total = x + y', after: 'cell-1' },
      { do: 'insert', source: '# The end', type: 'markdown' }
    ),
    { say: 'But for the heading, then.' }
  ]);
  await say(page, server, `${name}.ipynb`, `Please edit ${name}.`);
  const marks = page.locator(proposals);
  await expect(marks).toHaveCount(3);
  await expect(marks.nth(0)).toContainText('Agent proposes: cell 2');
  await expect(marks.nth(1)).toContainText('total = x + y');
  await accessible(page, proposals);

  await press(marks.nth(0), 'Accept', () => expect(marks.nth(0)).toContainText('Accepted.', soon));
  await expect(marks.nth(0)).toContainText(
    'Nothing is written before you have answered for 2 other'
  );
  // It is known to the server: a page that is loaded anew has it, too.
  await page.reload();
  await expect(marks).toHaveCount(3);
  await expect(marks.nth(0)).toContainText('Accepted.');
  expect(await sources(page)).toEqual(['x = 1', 'y = 2', 'z = 3']);

  await press(marks.nth(1), 'Accept', () => expect(marks.nth(1)).toContainText('Accepted.', soon));
  const reason = marks.nth(2).frameLocator('iframe').getByRole('textbox');
  await press(marks.nth(2), 'Reject…', () => expect(reason).toBeVisible(soon));
  await reason.fill('No headings, please.');
  await press(marks.nth(2), 'Yes: Reject', () => expect(marks).toHaveCount(0, soon));
  await expect(page.getByText('But for the heading, then.')).toBeVisible();
  expect(await sources(page)).toEqual(['x = 1', 'y = x + 1', 'total = x + y', 'z = 3']);
  const [{ id }] = (await server.api('GET', `conversations?notebook=${name}.ipynb`)).conversations;
  const { entries } = await server.api('GET', `conversations/${id}/entries?limit=500`);
  const results = entries.filter((each: { kind: string }) => each.kind === 'result');
  expect(JSON.stringify(results)).toContain('No headings, please.');

  // One step of undo, which accepts nothing and takes nothing of anybody's.
  await page.evaluate(() => {
    (window as any).jupyterapp.shell.currentWidget.content.model.sharedModel.undo();
  });
  expect(await sources(page)).toEqual(['x = 1', 'y = 2', 'z = 3']);
});

test('typed meanwhile: yours stays, and is rejected without a frame', async ({
  page,
  server,
  name
}) => {
  await policy(server, ASK);
  await server.notebook(`${name}.ipynb`, ['x = 1', 'y = 2']);
  await server.script(`edit ${name}`, [
    edit({ do: 'replace', cell: 'cell-1', was: was('y = 2'), source: 'y = 20' }),
    { say: 'I leave it to you.' }
  ]);
  await say(page, server, `${name}.ipynb`, `Please edit ${name}.`);
  const mark = page.locator(proposals);
  await expect(mark).toContainText('Agent proposes: cell 2');
  await cell(page, 1).locator('.jp-InputArea .cm-content').click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type(' # mine');
  await expect(mark).toContainText('You changed this cell after the agent read it. Yours stays.');
  await expect(mark.locator('iframe')).toHaveCount(0);
  await mark.getByRole('button', { name: 'Compare' }).click();
  await expect(mark.locator('.jp-Reprise-diff')).toContainText('y = 20');
  await mark.getByRole('button', { name: 'Reject' }).click();
  await expect(page.getByText('I leave it to you.')).toBeVisible();
  await expect(mark).toHaveCount(0);
  expect(await sources(page)).toEqual(['x = 1', 'y = 2 # mine']);
});

test('what is allowed is written at once, and put back or kept, also after a reload', async ({
  page,
  server,
  name
}) => {
  const long = Array.from({ length: 12 }, (_, line) => `line_${line} = ${line}`).join('\n');
  await server.notebook(`${name}.ipynb`, ['x = 1', 'y = 2', long]);
  await server.script(`edit ${name}`, [
    edit(
      { do: 'replace', cell: 'cell-1', was: was('y = 2'), source: 'y = x + 1' },
      { do: 'delete', cell: 'cell-2', was: was(long) },
      { do: 'insert', source: 'print("<img src=x onerror=alert(1)>")' }
    ),
    { say: 'Done so.' }
  ]);
  await say(page, server, `${name}.ipynb`, `Please edit ${name}.`);
  await expect(page.getByText('Done so.')).toBeVisible();
  const marks = page.locator(changes);
  await expect(marks).toHaveCount(3);
  expect(await sources(page)).toEqual([
    'x = 1',
    'y = x + 1',
    'print("<img src=x onerror=alert(1)>")'
  ]);
  await accessible(page, changes);
  // Saved by the person as ever; what stands is read from the entries again.
  await save(page);
  await page.reload();
  await expect(marks).toHaveCount(3);
  const deleted = marks.filter({ hasText: 'Cell deleted (12 lines)' });
  await deleted.getByRole('button', { name: 'Show' }).click();
  await expect(deleted.locator('.jp-Reprise-diff')).toContainText('line_11 = 11');
  await deleted.getByRole('button', { name: 'Put back' }).click();
  await expect(deleted).toHaveCount(0);
  const changed = marks.filter({ hasText: 'Agent changed this cell' });
  await changed.getByRole('button', { name: 'Put back' }).click();
  await expect(changed).toHaveCount(0);
  expect(await sources(page)).toEqual([
    'x = 1',
    'y = 2',
    long,
    'print("<img src=x onerror=alert(1)>")'
  ]);
  // The agent is told with the next message, which says so before it is sent.
  await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:open-chat'));
  await expect(page.locator('.jp-Reprise-chip')).toHaveCount(2);
  await marks
    .filter({ hasText: 'Agent added this cell' })
    .getByRole('button', { name: 'Keep' })
    .click();
  await expect(marks).toHaveCount(0);
  await save(page);
  const asked = page.waitForResponse(answer => new URL(answer.url()).pathname.endsWith('/edits'));
  await page.reload();
  await asked;
  await expect(cell(page, 0)).toBeVisible();
  await expect(page.locator('.jp-Reprise-composer')).toBeVisible();
  await expect(marks).toHaveCount(0);
});

test('two pages of a notebook: the agent works in one, and in the other when it is taken', async ({
  page,
  context,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  for (const which of ['first', 'second']) {
    await server.script(`${which} ${name}`, [
      edit({ do: 'insert', source: `${which} = 1`, after: 'cell-0' }),
      { say: `Wrote the ${which}.` }
    ]);
  }
  await say(page, server, `${name}.ipynb`, `Please the first ${name}.`);
  await expect(page.getByText('Wrote the first.')).toBeVisible();
  const other = await context.newPage();
  await other.goto(`${server.url}/lab/workspaces/other/tree/${name}.ipynb?reset`);
  const notice = other.locator('.jp-Reprise-lease');
  await expect(notice).toContainText('The agent works in another page of this notebook.');
  await expect(page.locator('.jp-Reprise-lease')).toBeHidden();
  await notice.getByRole('button', { name: 'Edit here instead' }).click();
  await expect(notice).toBeHidden();
  await expect(page.locator('.jp-Reprise-lease')).toBeVisible();
  const input = page.getByLabel('Message to the agent');
  await input.fill(`Please the second ${name}.`);
  await input.press('Enter');
  await expect(page.getByText('Wrote the second.')).toBeVisible();
  expect(await sources(other)).toContain('second = 1');
  expect(await sources(page)).not.toContain('second = 1');
  // The page that holds it goes: the other one is it again.
  await other.close();
  await expect(page.locator('.jp-Reprise-lease')).toBeHidden();
});

for (const [theme, kind] of [
  ['JupyterLab Light', 'light'],
  ['JupyterLab Dark', 'dark']
] as const) {
  test(`looks as it should, ${kind}`, async ({ page, server, name }) => {
    await policy(server, ASK);
    await server.notebook('look.ipynb', ['import pandas as pd', 'df.fillna(0)']);
    await server.script(`look ${name}`, [
      edit(
        {
          do: 'replace',
          cell: 'cell-1',
          was: was('df.fillna(0)'),
          source: 'df.fillna(df.median())'
        },
        { do: 'insert', source: 'df.describe()' }
      ),
      { say: 'Looked.' }
    ]);
    await say(page, server, 'look.ipynb', `Please look ${name}.`);
    await setTheme(page, theme);
    const marks = page.locator(proposals);
    await expect(marks).toHaveCount(2);
    await expect(marks.nth(1).frameLocator('iframe').getByText('Accept')).toBeVisible();
    await expect(marks.nth(0)).toHaveScreenshot(`proposal-${kind}.png`, {
      mask: [marks.nth(0).locator('iframe')]
    });
    await page.getByLabel('Message to the agent').click();
    await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:stop-turn'));
  });
}
