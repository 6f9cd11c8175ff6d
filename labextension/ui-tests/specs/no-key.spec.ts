// Without a key for a model, the chat says what is missing, and all else works.

import { accessible, expect, openNotebook, runCell, test } from '../fixtures/lab';
import { CHAT } from '../fixtures/asking';

test.use({ serve: { noKey: true } });

test('the panel says what is missing, and all else works', async ({ page, server, name }) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await openNotebook(page, server, `${name}.ipynb`);
  await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:open-chat'));
  await expect(page.locator(CHAT)).toContainText(
    'No model key on the server. All else works. Set ANTHROPIC_API_KEY and restart it.'
  );
  await accessible(page, CHAT);
  await runCell(page, 0);
});
