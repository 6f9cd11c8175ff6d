// The extension is in the page and stays out of the way.

import { expect, openNotebook, runCell, test } from '../fixtures/lab';

test('a notebook on Reprise opens and runs, and nothing fails in the page', async ({
  page,
  server,
  name
}) => {
  const errors: string[] = [];
  page.on('pageerror', error => errors.push(error.message));
  await server.notebook(`${name}.ipynb`, ['6 * 7']);
  await openNotebook(page, server, `${name}.ipynb`);
  const cell = await runCell(page, 0);
  await expect(cell.locator('.jp-OutputArea-output')).toHaveText('42');
  const ours = await page.evaluate(
    () =>
      (window as any).jupyterapp
        .listPlugins()
        .filter((id: string) => id.startsWith('@jupyter-reprise/')).length
  );
  expect(ours).toBeGreaterThan(3);
  expect(errors).toEqual([]);
});
