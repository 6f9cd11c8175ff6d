// The pictures of the docs: made by the real lab, and held against it, so that they never go stale.
// `playwright test --project docs --update-snapshots` draws them anew.

import type { Page } from '@playwright/test';

import { expect, openNotebook, runCell, test } from '../fixtures/lab';

/** Times and sizes differ a little from run to run; what has moved or is gone is more than this. */
const NEAR = { maxDiffPixelRatio: 0.03 };

const CELLS = [
  'import csv\nfrom pathlib import Path\nPath("rentals.csv").write_text("day,bikes\\nMon,12\\nTue,9\\nWed,17\\n")\nrows = list(csv.DictReader(open("rentals.csv")))\nlen(rows)',
  'total = sum(int(row["bikes"]) for row in rows)\ntotal',
  'total / len(row)'
];

function execute(page: Page, command: string, args: Record<string, unknown> = {}): Promise<void> {
  return page.evaluate(
    ([id, given]) => (window as any).jupyterapp.commands.execute(id, given).then(() => undefined),
    [command, args] as const
  );
}

test('the pictures of the docs are what the lab shows', async ({ page, server }) => {
  test.slow();
  await server.notebook('rentals.ipynb', CELLS);
  await server.api('PUT', 'policies', {
    scope: 'personal',
    policy:
      'rules:\n  - name: show-me-commands\n    decision: ask\n    tool: run_command\n    why: I want to see commands before they run.\n'
  });
  await server.script('Why does the last cell fail', [
    { say: 'I look at the notebook.', call: 'read_notebook', input: {} },
    {
      say: 'And at the table it reads.',
      call: 'run_command',
      input: { command: 'head -n 2 rentals.csv' }
    },
    {
      say: 'The loop variable is called `row`, the list **`rows`**. The mean is `total / len(rows)`:\n\n```python\ntotal / len(rows)\n```'
    }
  ]);
  await openNotebook(page, server, 'rentals.ipynb');
  for (const index of [0, 1, 2]) {
    await runCell(page, index);
  }
  await execute(page, 'reprise:open-timeline');
  await expect(page.getByRole('grid')).toContainText('total / len(row)');
  await execute(page, 'reprise:open-chat');
  const chat = page.locator('.jp-Reprise-chat');
  await page.locator('.jp-Reprise-composer-input').first().click();
  await page.keyboard.type('Why does the last cell fail?');
  await page.keyboard.press('Enter');
  const frame = page.frameLocator('.jp-Reprise-pinned .jp-Reprise-decision-frame');
  await expect(frame.locator('main')).toContainText('head -n 2 rentals.csv');
  await expect(chat).toHaveScreenshot('approval.png', NEAR);

  await expect(async () => {
    await frame.getByRole('button', { name: 'Allow once', exact: true }).click({ timeout: 5_000 });
    await expect(page.locator('.jp-Reprise-pinned')).toHaveCount(0, { timeout: 3_000 });
  }).toPass();
  await expect(chat).toContainText('The mean is');
  await expect(page.getByRole('grid')).toContainText('head -n 2 rentals.csv');
  await expect(page).toHaveScreenshot('lab.png', NEAR);

  await page.locator('.jp-Reprise-status-button').first().click();
  await expect(page.locator('.jp-Reprise-status-popup')).toHaveScreenshot('status.png', NEAR);
  await page.keyboard.press('Escape');

  await execute(page, 'reprise:verify');
  await expect(page.getByText(/0 different/)).toBeVisible();
  await expect(page.locator('#jp-main-dock-panel')).toHaveScreenshot('verify.png', NEAR);
});
