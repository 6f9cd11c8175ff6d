// The status button: how a session stands, killed and coming back, for long, held elsewhere, cancelled.

import type { Page } from '@playwright/test';

import { heldSession, notebookOf, pastSession } from '../fixtures/history';
import {
  accessible,
  expect,
  kernelIdle,
  openNotebook,
  runCell,
  sessionOf,
  setTheme,
  test
} from '../fixtures/lab';

const button = (page: { locator: Page['locator'] }) =>
  page.locator('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Reprise-status-button');
const popup = (page: { locator: Page['locator'] }) => page.locator('.jp-Reprise-status-popup');

/** Bring a notebook to the front. */
async function show(page: any, path: string): Promise<void> {
  await page.evaluate(async (path: string) => {
    await (window as any).jupyterapp.commands.execute('docmanager:open', { path });
  }, path);
  await page.locator(`.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell`).first().waitFor();
}

/** Open without waiting for the kernel: it may be on its way back. */
async function open(page: any, server: any, notebook: string): Promise<void> {
  await page.goto(`${server.url}/lab/tree/${notebook}?reset`);
  await page.locator('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell').first().waitFor();
}

test('the popup says how the session stands; by keyboard, in both themes, for screen readers', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 41', 'x + 1']);
  await openNotebook(page, server, `${name}.ipynb`);
  await expect(button(page)).toHaveText('Ready · isolated');
  await runCell(page, 0);

  await page.keyboard.press('Escape');
  await expect(async () => {
    // The second key of a chord has to come within a second, which a busy machine does not promise.
    await page.keyboard.press('Control+k');
    await page.keyboard.press('i');
    await expect(popup(page)).toBeVisible({ timeout: 15_000 });
  }).toPass();
  await expect(popup(page)).toBeFocused();
  await expect(popup(page)).toContainText('Isolated by bubblewrap');
  await expect(popup(page)).toContainText('Environmentdefault');
  await expect(popup(page)).toContainText(/Memory\d+ MiB/);
  await expect(popup(page)).toContainText('None: coming back plays all steps');
  await accessible(page, '.jp-Reprise-status-popup', '.jp-Reprise-status');
  await setTheme(page, 'JupyterLab Dark');
  await accessible(page, '.jp-Reprise-status-popup');
  await setTheme(page, 'JupyterLab Light');

  await popup(page).getByRole('button', { name: 'Show the steps in the timeline' }).click();
  await expect(popup(page)).toHaveCount(0);
  await expect(page.locator('.jp-Reprise-Timeline')).toBeVisible();

  await button(page).click();
  await page.keyboard.press('Escape');
  await expect(popup(page)).toHaveCount(0);
  await expect(button(page)).toBeFocused();
});

test('a killed sandbox comes back by itself, and nothing is marked stale', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 41', 'print("kept", x)', 'x + 1']);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  const printed = await runCell(page, 1);
  const session = await sessionOf(server, `${name}.ipynb`);
  expect(await server.killSandbox(session)).toHaveLength(1);
  await expect(button(page)).toHaveText(/^Back at step \d+ in \d+ s$/);
  await expect(printed.locator('.jp-OutputArea-output')).toHaveText(/kept 41/);
  await expect(printed.locator('.jp-InputPrompt')).toHaveText('[2]:');
  await expect(page.locator('.jp-Reprise-cellnote')).toHaveCount(0);
  const next = await runCell(page, 2);
  await expect(next.locator('.jp-OutputArea-output')).toHaveText('42');
  await button(page).click();
  await expect(popup(page)).toContainText(/Last came back\d+ steps? in \d+ s/);
});

test('a way back of minutes waits for the first cell, or a press', async ({
  page,
  server,
  name
}) => {
  const steps = Array.from({ length: 212 }, (_, number) => ({
    code: `x = ${number}`,
    seconds: 1.13
  }));
  const session = await pastSession(server, steps);
  await notebookOf(server, `${name}.ipynb`, session, ['x']);
  await open(page, server, `${name}.ipynb`);
  await expect(button(page)).toHaveText('Ready to come back');
  await button(page).click();
  await expect(popup(page)).toContainText(
    'Ready to come back: about 4 min (212 steps). Starts with your first cell.'
  );
  await accessible(page, '.jp-Reprise-status-popup');
  await popup(page).getByRole('button', { name: 'Start now' }).click();
  await expect(button(page)).toHaveText(/^Back at step 211 in \d+ s$/);
  await page.keyboard.press('Escape');
  const cell = await runCell(page, 0);
  await expect(cell.locator('.jp-OutputArea-output')).toHaveText('211');
});

test('coming back says how far it is, is cancelled, and goes on', async ({
  page,
  server,
  name
}) => {
  const until = Math.round(Date.now() / 1000) + 25;
  const session = await pastSession(server, [
    { code: 'import time' },
    ...[1, 2, 3, 4].map(number => ({ code: `x = ${number}` })),
    { code: `time.sleep(max(0, ${until} - time.time()))`, seconds: 9 },
    ...[5, 6, 7, 8, 9].map(number => ({ code: `x = ${number}` }))
  ]);
  await notebookOf(server, `${name}.ipynb`, session, ['x']);
  await open(page, server, `${name}.ipynb`);
  await expect(button(page)).toHaveText(/^Coming back · \d+ s$/);
  await button(page).click();
  const progress = popup(page).getByRole('progressbar', { name: 'Coming back' });
  await expect(progress).toHaveAttribute('aria-valuenow', '5');
  await expect(progress).toHaveAttribute('aria-valuemax', '11');
  await expect(popup(page)).toContainText('Playing 11 steps from the beginning.');
  await popup(page).getByRole('button', { name: 'Cancel' }).click();
  await expect(button(page)).toHaveText('Stopped at 5 of 11');
  await expect(popup(page)).toContainText('Stopped at 5 of 11. The log is whole.');
  await popup(page).getByRole('button', { name: 'Go on' }).click();
  await expect(button(page)).toHaveText(/^Back at step 10 in \d+ s$/);
});

test('a session that is open elsewhere says since when, and is had when that closes', async ({
  page,
  server,
  name
}) => {
  const { session, release } = await heldSession(server, [{ code: 'x = 41' }]);
  await notebookOf(server, `${name}.ipynb`, session, ['x + 1']);
  await open(page, server, `${name}.ipynb`);
  await expect(button(page)).toHaveText('Open elsewhere');
  await button(page).click();
  await expect(popup(page)).toContainText(
    /Open in another kernel since \d+:\d\d\. Close it there or fork\./
  );
  // This kernel has no session whose network or environment could be shown.
  await expect(popup(page).getByRole('button')).toHaveText(['Fork']);
  // Or go on beside it, in a notebook of its own.
  await popup(page).getByRole('button', { name: 'Fork' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Fork' }).click();
  const fork = page.locator('.jp-NotebookPanel:not(.lm-mod-hidden)');
  await expect(fork.locator('.jp-CodeCell .cm-content')).toHaveText('x = 41');
  await expect(button(page)).toHaveText(/Ready · isolated|Back at step/);
  await show(page, `${name}.ipynb`);
  await expect(button(page)).toHaveText('Open elsewhere');
  await release();
  const cell = await runCell(page, 0);
  await expect(cell.locator('.jp-OutputArea-output')).toHaveText('42');
  await expect(button(page)).toHaveText(/Ready · isolated|Back at step/);
});

test('each notebook has its own; other kernels have none; it outlives a restart of the server', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}-a.ipynb`, ['x = 1', 'x']);
  await server.notebook(`${name}-b.ipynb`, ['1'], 'python3');
  await openNotebook(page, server, `${name}-a.ipynb`);
  await runCell(page, 0);
  await expect(button(page)).toHaveText('Ready · isolated');
  await show(page, `${name}-b.ipynb`);
  await kernelIdle(page);
  await runCell(page, 0);
  await expect(button(page)).toHaveCount(0);
  await show(page, `${name}-a.ipynb`);
  await expect(button(page)).toHaveText('Ready · isolated');

  // A saved notebook names its session, and finds it again with any kernel.
  await page.evaluate(async () => {
    await (window as any).jupyterapp.commands.execute('docmanager:save');
  });
  // JupyterLab says by itself that its server was away.
  await page.addLocatorHandler(
    page.getByRole('dialog').filter({ hasText: 'Server Connection Error' }),
    async dialog => dialog.getByRole('button').first().click()
  );
  await server.server('restart');
  await expect(button(page)).toHaveText('No kernel');
  await button(page).click();
  await popup(page).getByRole('button', { name: 'Start kernel' }).click();
  await expect(button(page)).toHaveText(/Ready · isolated|Back at step/);
  await page.keyboard.press('Escape');
  const cell = await runCell(page, 1);
  await expect(cell.locator('.jp-OutputArea-output')).toHaveText('1');
});
