// After the network, the laptop or the server was gone: what is shown is told as of then, then caught up with.

import type { Page } from '@playwright/test';

import {
  cellAt,
  expectTicks,
  interrupt,
  lastCell,
  logged,
  outputAt,
  outputsOf,
  promptAt,
  save,
  start,
  TICKING
} from '../fixtures/cells';
import {
  expect,
  kernelIdle,
  openNotebook,
  runCell,
  sessionOf,
  signIn,
  test
} from '../fixtures/lab';

/** JupyterLab's own, modal: it has said that the server could not be reached. */
async function closeNotice(page: Page): Promise<void> {
  const close = page.locator('.jp-Dialog').getByRole('button', { name: 'Close' });
  // It may come between a look and the next one.
  await expect(async () => {
    if (await close.isVisible()) {
      await close.click({ timeout: 1_000 });
    }
    await expect(page.locator('.jp-Dialog')).toHaveCount(0, { timeout: 1_000 });
  }).toPass();
}

test('without a network a cell goes on, and the page catches up when it is back', async ({
  page,
  server,
  name
}) => {
  const notebook = `${name}.ipynb`;
  await server.notebook(notebook, [TICKING, '6 * 7']);
  await openNotebook(page, server, notebook);
  await start(page, 0);
  await expect(outputAt(page, 0)).toContainText('tick 2');
  const session = await sessionOf(server, notebook);
  const seq = await lastCell(server, session);
  await page.context().setOffline(true);
  await logged(server, session, seq, 'tick 12');
  await page.context().setOffline(false);
  await expect(outputAt(page, 0)).toContainText('tick 14');
  await interrupt(server, notebook);
  await expect(promptAt(page, 0)).toHaveText('[1]:');
  expectTicks(await outputsOf(page, 0), 'KeyboardInterrupt');
  await kernelIdle(page);
  await closeNotice(page);
  const cell = await runCell(page, 1);
  await expect(cell.locator('.jp-OutputArea-output')).toHaveText('42');
});

test('a page that was frozen, as in a closed laptop, shows what came meanwhile', async ({
  page,
  server,
  name
}) => {
  const notebook = `${name}.ipynb`;
  await server.notebook(notebook, [TICKING]);
  await openNotebook(page, server, notebook);
  await start(page, 0);
  await expect(outputAt(page, 0)).toContainText('tick 2');
  const session = await sessionOf(server, notebook);
  const seq = await lastCell(server, session);
  const devtools = await page.context().newCDPSession(page.context().pages()[0]);
  await devtools.send('Page.setWebLifecycleState', { state: 'frozen' });
  await logged(server, session, seq, 'tick 12');
  await interrupt(server, notebook);
  await devtools.send('Page.setWebLifecycleState', { state: 'active' });
  await expect(promptAt(page, 0)).toHaveText('[1]:');
  expectTicks(await outputsOf(page, 0), 'KeyboardInterrupt');
});

test('the server restarts in mid-run: the cell says so, the session comes back, panels go on', async ({
  page,
  server,
  name
}) => {
  const notebook = `${name}.ipynb`;
  await server.notebook(notebook, ['x = 41', TICKING, 'x + 1']);
  await openNotebook(page, server, notebook);
  await runCell(page, 0);
  await start(page, 1);
  await expect(outputAt(page, 1)).toContainText('tick 2');
  await save(page);
  const session = await sessionOf(server, notebook);
  const seq = await lastCell(server, session);
  await server.server('kill');
  // Another request finds out; what is there stays.
  await page.evaluate(() =>
    (window as any).jupyterapp.serviceManager.contents.get('').catch(() => undefined)
  );
  await expect(outputAt(page, 1)).toContainText('tick 2');
  await server.server('start');
  // The kernel went with its server; the notebook's next one takes the session.
  await page.evaluate(async () => {
    const context = (window as any).jupyterapp.shell.currentWidget.sessionContext;
    await context.shutdown().catch(() => undefined);
    await context.changeKernel({ name: 'reprise' });
  });
  await kernelIdle(page);
  await expect(promptAt(page, 1)).not.toHaveText('[*]:');
  await expect(outputAt(page, 1)).toContainText('tick 2');
  // A kernel whose server is gone interrupts its cell, when it gets to it.
  const { outcome } = await server.api('GET', `sessions/${session}/steps/${seq}/shown`);
  expect(['interrupted', 'died', 'lost']).toContain(outcome);
  await closeNotice(page);
  const cell = await runCell(page, 2);
  await expect(cell.locator('.jp-OutputArea-output')).toHaveText('42');
  expect(await sessionOf(server, notebook)).toBe(session);
  const texts = (await outputsOf(page, 1)).map(each => each.text ?? '').join('');
  expect(texts.match(/tick 2\n/g)).toHaveLength(1);
});

test('signed out: every place says so once, and nothing is lost', async ({
  page,
  context,
  server,
  name
}) => {
  const notebook = `${name}.ipynb`;
  await server.notebook(notebook, ['6 * 7']);
  await openNotebook(page, server, notebook);
  await runCell(page, 0);
  await save(page);
  // Neither the page's token nor its cookie, which outlives a token, is known any more.
  await server.expire();
  await context.clearCookies();
  await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:open-timeline'));
  const notice = page
    .getByText('You are signed out. Nothing is lost; running steps go on.')
    .first();
  await expect(notice).toBeVisible();
  await closeNotice(page);
  await expect(
    page
      .getByRole('link', { name: 'Sign in' })
      .or(page.getByRole('button', { name: 'Sign in' }))
      .first()
  ).toBeVisible();
  await expect(cellAt(page, 0)).toContainText('42');
  await signIn(context, server);
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
  await expect(notice).toBeHidden();
});
