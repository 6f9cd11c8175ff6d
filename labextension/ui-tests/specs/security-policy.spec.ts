// The page's own policy, as `reprise lab` sends it: our parts live under it in JupyterLab, and
// what gets into the page all the same neither runs nor loads.

import { expect, runCell, test } from '../fixtures/lab';
import { Outside } from '../fixtures/outside';

test('JupyterLab with our extension breaks no rule of the policy, and what is put into it does nothing', async ({
  page,
  server,
  name
}) => {
  const outside = await Outside.listen();
  const notebook = `${name}.ipynb`;
  await server.notebook(notebook, ['6 * 7']);
  // A page of its own: Galata's waits for JupyterLab, whatever opens.
  const own = await page.context().newPage();
  const refused: string[] = [];
  own.on('console', message => {
    if (message.text().includes('Content Security Policy')) {
      refused.push(message.text());
    }
  });
  await own.goto(`${server.url}/lab/tree/${notebook}`);
  await own.locator('.jp-NotebookPanel .jp-Cell').first().waitFor();
  await expect(own.locator('.jp-Reprise-status-button').first()).toContainText('Ready');
  await runCell(own, 0);
  await own.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:open-chat'));
  await expect(own.locator('.jp-Reprise-chat').first()).toBeVisible();
  expect(refused).toEqual([]);
  await own.evaluate(html => {
    const place = document.createElement('div');
    document.body.append(place);
    place.append(document.createRange().createContextualFragment(html));
  }, outside.html('injected'));
  await expect.poll(() => refused.length).toBeGreaterThan(3);
  expect(await own.evaluate(() => (window as any).TAKEN ?? null)).toBeNull();
  expect(outside.asked).toEqual([]);
  await outside.close();
  await own.close({ runBeforeUnload: false });
});
