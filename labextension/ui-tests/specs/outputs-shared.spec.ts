// In a document that several pages share, what a cell shows is written once, by one page after the other.

import {
  cellAt,
  expectTicks,
  interrupt,
  outputAt,
  outputsOf,
  promptAt,
  reopen,
  start,
  TICKING
} from '../fixtures/cells';
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
  const at = (await outputsOf(other, 0))[0].text.trimEnd().split('\n').length;
  await expect(outputAt(other, 0)).toContainText(`tick ${at + 4}`);
  await interrupt(server, notebook);
  await expect(promptAt(other, 0)).toHaveText('[1]:');
  expectTicks(await outputsOf(other, 0), 'KeyboardInterrupt');
  // And who comes later finds it there, once.
  const third = await other.context().newPage();
  await reopen(third, server, notebook);
  await kernelIdle(third);
  await runCell(third, 1);
  expectTicks(await outputsOf(third, 0), 'KeyboardInterrupt');
  await expect(outputAt(other, 1)).toHaveText(/42/);
  expect((await outputsOf(other, 1)).length).toBe(1);
  await other.close();
  await third.close();
});
