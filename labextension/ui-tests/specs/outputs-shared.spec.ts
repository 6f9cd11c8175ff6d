// In a document that several pages share, what a cell shows is written once, by one page after the other.

import { ALL_TICKS, cellAt, outputAt, outputsOf, promptAt, reopen, start, TICKING } from '../fixtures/cells';
import { expect, kernelIdle, runCell, test } from '../fixtures/lab';

test.use({ serve: { collaboration: true } });

test('one page writes what its cell shows; when it is closed, another one goes on', async ({
  page,
  server,
  name
}) => {
  const notebook = `${name}.ipynb`;
  await server.notebook(notebook, [TICKING, '6 * 7']);
  await page.goto(`${server.url}/lab/tree/${notebook}?reset`);
  await cellAt(page, 0).waitFor();
  await kernelIdle(page);
  const other = await page.context().newPage();
  await reopen(other, server, notebook);
  await start(page, 0);
  await expect(outputAt(page, 0)).toContainText('tick 3');
  await expect(outputAt(other, 0)).toContainText('tick 3');
  await page.close({ runBeforeUnload: false });
  await expect(promptAt(other, 0)).toHaveText('[1]:');
  expect((await outputsOf(other, 0)).map(each => each.text)).toEqual([ALL_TICKS]);
  // And who comes later finds it there, once.
  const third = await other.context().newPage();
  await reopen(third, server, notebook);
  await kernelIdle(third);
  await runCell(third, 1);
  expect((await outputsOf(third, 0)).map(each => each.text)).toEqual([ALL_TICKS]);
  await expect(outputAt(other, 1)).toHaveText(/42/);
  expect((await outputsOf(other, 1)).length).toBe(1);
  await other.close();
  await third.close();
});
