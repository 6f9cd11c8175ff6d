// After the network, the laptop or the server was gone: what is shown is told as of then, then caught up with.

import {
  ALL_TICKS,
  cellAt,
  ended,
  lastCell,
  logged,
  outputAt,
  outputsOf,
  promptAt,
  save,
  start,
  TICKING
} from '../fixtures/cells';
import { expect, kernelIdle, openNotebook, runCell, sessionOf, signIn, test } from '../fixtures/lab';

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
  await expect(promptAt(page, 0)).toHaveText('[1]:');
  expect((await outputsOf(page, 0)).map(each => each.text)).toEqual([ALL_TICKS]);
  await kernelIdle(page);
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
  const devtools = await page.context().newCDPSession(page as never);
  await devtools.send('Page.setWebLifecycleState', { state: 'frozen' });
  await ended(server, session, seq);
  await devtools.send('Page.setWebLifecycleState', { state: 'active' });
  await expect(promptAt(page, 0)).toHaveText('[1]:');
  expect((await outputsOf(page, 0)).map(each => each.text)).toEqual([ALL_TICKS]);
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
  expect((await server.api('GET', `sessions/${session}/steps/${seq}/shown`)).outcome).toBe('lost');
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
  await server.expire();
  await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:open-timeline'));
  const notice = page.getByText('You are signed out. Nothing is lost; running steps go on.').first();
  await expect(notice).toBeVisible();
  await expect(page.getByRole('link', { name: 'Sign in' }).or(page.getByRole('button', { name: 'Sign in' })).first()).toBeVisible();
  await expect(cellAt(page, 0)).toContainText('42');
  await signIn(context, server);
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
  await expect(notice).toBeHidden();
});
