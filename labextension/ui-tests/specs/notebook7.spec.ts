// Status, notes, timeline and chat in Notebook 7, where nothing isolates; it says so all the time.

import { accessible, expect, test } from '../fixtures/lab';

test.use({ serve: { backend: 'process' } });

const cellAt = (page: any, index: number) => page.locator('.jp-Notebook .jp-CodeCell').nth(index);
const button = (page: any) => page.locator('.jp-Reprise-status-button');

test('Notebook 7 has the status button, the session panel and the chat', async ({
  context,
  server,
  name
}) => {
  // A page of Playwright's own: Galata's waits for what only JupyterLab has.
  const page = await context.newPage();
  const errors: string[] = [];
  const refused: string[] = [];
  page.on('console', said => {
    if (/Content.Security.Policy/i.test(said.text())) {
      refused.push(said.text());
    }
  });
  page.on('pageerror', error => errors.push(error.stack ?? error.message));
  await server.notebook(`${name}.ipynb`, ['x = 41', 'import os\nos.kill(os.getpid(), 9)', 'x + 1']);
  const answer = await page.goto(`${server.url}/notebooks/${name}.ipynb`);
  // Its page is under our policy, like JupyterLab's; that forbids nothing which it needs.
  expect(answer?.headers()['content-security-policy']).toContain('script-src');
  await cellAt(page, 0).waitFor();
  await expect(button(page)).toHaveText('Ready · Not isolated');
  await cellAt(page, 0).locator('.cm-content').click();
  await page.keyboard.press('Control+Enter');
  await expect(cellAt(page, 0).locator('.jp-InputPrompt')).toHaveText('[1]:');

  await button(page).click();
  const popup = page.locator('.jp-Reprise-status-popup');
  await expect(popup.locator('.jp-Reprise-notice')).toContainText('Not isolated');
  await accessible(page, '.jp-Reprise-status-popup');
  await page.keyboard.press('Escape');
  await expect(button(page)).toBeFocused();

  await cellAt(page, 1).locator('.cm-content').click();
  await page.keyboard.press('Control+Enter');
  await expect(cellAt(page, 1).getByRole('note')).toContainText('Rolled back: killed (signal 9).');
  await cellAt(page, 2).locator('.cm-content').click();
  await page.keyboard.press('Control+Enter');
  await expect(cellAt(page, 2).locator('.jp-OutputArea-output')).toHaveText('42');

  for (const [key, shown] of [
    ['t', '.jp-Reprise-Timeline'],
    ['c', '.jp-Reprise-chat']
  ]) {
    // The second key of a chord has to come within a second, which a busy machine does not promise.
    await expect(async () => {
      await cellAt(page, 2).locator('.jp-InputPrompt').click();
      await page.keyboard.press('Control+k');
      await page.keyboard.press(key);
      await expect(page.locator(shown).first()).toBeVisible({ timeout: 2_000 });
    }).toPass();
  }
  expect(refused).toEqual([]);
  // Of our own code: Notebook 7 with Galata's extension beside it has one about a schema.
  expect(errors.filter(each => each.includes('@jupyter-reprise/'))).toEqual([]);
});
