// With jupyter-collaboration the agent edits the shared document: both pages have it, and nobody saves.

import type { Page } from '@playwright/test';

import { expect, openNotebook, runCell, test } from '../fixtures/lab';

test.use({ serve: { collaboration: true } });

async function sources(page: Page): Promise<string[]> {
  return page.evaluate(() =>
    (window as any).jupyterapp.shell.currentWidget.content.model.sharedModel.cells.map(
      (each: { getSource(): string }) => each.getSource()
    )
  );
}

test('an edit is in every page at once, and is taken away in all of them', async ({
  page,
  context,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await server.script(`together ${name}`, [
    {
      call: 'edit_notebook',
      input: { edits: [{ do: 'insert', source: 'x + 41', after: 'cell-0' }] }
    },
    { say: 'Written for both.' }
  ]);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  const other = await context.newPage();
  await other.goto(`${server.url}/lab/workspaces/other/tree/${name}.ipynb?reset`);
  await other.locator('.jp-Notebook .jp-Cell').first().waitFor();
  await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:open-chat'));
  const input = page.getByLabel('Message to the agent');
  await input.fill(`Please write together ${name}`);
  await input.press('Enter');
  await expect(page.getByText('Written for both.')).toBeVisible();
  await expect.poll(() => sources(page)).toEqual(['x = 1', 'x + 41']);
  await expect.poll(() => sources(other)).toEqual(['x = 1', 'x + 41']);
  // There is one document, so no page is another one.
  await expect(page.locator('.jp-Reprise-lease')).toBeHidden();
  await expect(other.locator('.jp-Reprise-lease')).toBeHidden();
  const conversation = (await server.api('GET', `conversations?notebook=${name}.ipynb`))
    .conversations[0].id;
  const found = await server.api('GET', `conversations/${conversation}/entries?limit=500`);
  const before = found.entries.find((each: { kind: string }) => each.kind === 'notebook');
  expect(before.body.where).toBe('room');
  const marks = page.locator('.jp-Reprise-cellmark.jp-mod-changed');
  await expect(marks).toContainText('Agent added this cell');
  await marks.getByRole('button', { name: 'Take away' }).click();
  await expect.poll(() => sources(other)).toEqual(['x = 1']);
});
