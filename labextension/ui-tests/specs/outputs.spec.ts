// What cells show while no page is there stands in the notebook afterwards: in its cell, once.

import type { Page } from '@playwright/test';

import { expect, kernelIdle, openNotebook, runCell, Server, sessionOf, test } from '../fixtures/lab';

/** Prints so many lines, slowly enough for pages to come and go. */
const TICKS = 32;
const TICKING = `import time\nfor n in range(${TICKS}):\n    print("tick", n, flush=True)\n    time.sleep(0.25)`;
const ALL_TICKS = Array.from({ length: TICKS }, (_, n) => `tick ${n}\n`).join('');

function cellAt(page: Page, index: number) {
  return page.locator('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-CodeCell').nth(index);
}

function promptAt(page: Page, index: number) {
  return cellAt(page, index).locator('.jp-InputPrompt');
}

function outputAt(page: Page, index: number) {
  return cellAt(page, index).locator('.jp-OutputArea');
}

async function start(page: Page, index: number): Promise<void> {
  await cellAt(page, index).locator('.cm-content').click();
  await page.keyboard.press('Control+Enter');
}

async function save(page: Page): Promise<void> {
  await page.evaluate(() => (window as any).jupyterapp.commands.execute('docmanager:save'));
}

/** The outputs of a cell as the page's model has them. */
async function outputsOf(page: Page, index: number): Promise<any[]> {
  return page.evaluate(
    at => (window as any).jupyterapp.shell.currentWidget.content.widgets[at].model.outputs.toJSON(),
    index
  );
}

async function isDirty(page: Page): Promise<boolean> {
  return page.evaluate(() => (window as any).jupyterapp.shell.currentWidget.context.model.dirty);
}

/** Open it without waiting for a kernel that does nothing. */
async function reopen(page: Page, server: Server, notebook: string): Promise<void> {
  await page.goto(`${server.url}/lab/tree/${notebook}?reset`);
  await cellAt(page, 0).waitFor();
}

/** Wait until the log has what a running cell has shown. */
async function logged(server: Server, session: string, seq: number, text: string): Promise<void> {
  await expect(async () => {
    const { messages } = await server.api('GET', `sessions/${session}/steps/${seq}/shown`);
    expect(JSON.stringify(messages)).toContain(text);
  }).toPass();
}

async function ended(server: Server, session: string, seq: number): Promise<void> {
  await expect(async () => {
    const { outcome } = await server.api('GET', `sessions/${session}/steps/${seq}/shown`);
    expect(outcome).not.toBeNull();
  }).toPass();
}

/** The number of the cell step that a session has last. */
async function lastCell(server: Server, session: string): Promise<number> {
  const { steps } = await server.api(
    'GET',
    `sessions/${session}/steps?kind=cell&newest=true&limit=1`
  );
  return steps[0].seq;
}

test('a page that is loaded again in mid-run shows what came meanwhile and goes on to the end', async ({
  page,
  server,
  name
}) => {
  const notebook = `${name}.ipynb`;
  await server.notebook(notebook, [TICKING, '6 * 7']);
  await openNotebook(page, server, notebook);
  await start(page, 0);
  await expect(outputAt(page, 0)).toContainText('tick 3');
  await save(page);
  const session = await sessionOf(server, notebook);
  await page.close({ runBeforeUnload: false });
  await logged(server, session, await lastCell(server, session), 'tick 12');

  page = (await page.context().newPage()) as never;
  await reopen(page, server, notebook);
  await expect(promptAt(page, 0)).toHaveText('[*]:');
  await expect(outputAt(page, 0)).toContainText('tick 12');
  await expect(promptAt(page, 0)).toHaveText('[1]:');
  const shown = await outputsOf(page, 0);
  expect(shown.map(each => [each.output_type, each.text])).toEqual([['stream', ALL_TICKS]]);
  // The kernel is the page's as ever, and the notebook says up to where it shows the session.
  await kernelIdle(page);
  await runCell(page, 1);
  await save(page);
  const saved = JSON.parse(
    await (await import('fs')).promises.readFile(`${server.folder}/${notebook}`, 'utf8')
  );
  const steps = (await server.api('GET', `sessions/${session}`)).steps;
  expect(saved.metadata.reprise).toMatchObject({ session, step: steps - 1 });
  expect(saved.cells[0].metadata.reprise).toBeUndefined();
});
