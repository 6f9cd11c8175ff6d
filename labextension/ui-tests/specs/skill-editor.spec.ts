// A skill is written in the lab: checked while one types, saved as versions, never lost by accident.

import type { Locator, Page } from '@playwright/test';

import { accessible, dismissLost, expect, setTheme, test } from '../fixtures/lab';
import { add, COUNT } from '../fixtures/skills';

function tab(page: Page): Locator {
  return page.locator('.jp-Reprise-skill-tab:not(.lm-mod-hidden)');
}

function text(page: Page): Locator {
  return tab(page).locator('.cm-content');
}

async function write(page: Page, url: string, name: string): Promise<void> {
  await page.goto(`${url}/lab?reset`);
  await create(page, name);
}

async function create(page: Page, name: string): Promise<void> {
  // The command ends when its dialog does.
  await page.evaluate(() => void (window as any).jupyterapp.commands.execute('reprise:new-skill'));
  await page.locator('.jp-Dialog input').fill(name);
  await page.locator('.jp-Dialog').getByRole('button', { name: 'Write it' }).click();
  await expect(text(page)).toContainText(`name: ${name}`);
}

test('a skill is written with its findings at their lines and its cost, and saved as versions', async ({
  page,
  server
}) => {
  await write(page, server.url, 'count-words');
  const checks = tab(page).getByRole('complementary', { name: 'Check' });
  await expect(checks).toContainText('It keeps to every rule of the check.');
  await expect(checks).toContainText(/SKILL\.md.*~\d+ tokens/);

  // A name that is none, with its finding at line 2; the link goes there.
  await text(page).click();
  await page.keyboard.press('Control+Home');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('End');
  await page.keyboard.type(' Twice');
  await expect(checks).toContainText('name-format');
  await expect(tab(page).locator('.cm-lint-marker-error')).toHaveCount(1);
  await checks.getByRole('button', { name: 'SKILL.md:2' }).first().click();
  await expect(text(page)).toBeFocused();
  await page.keyboard.press('End');
  for (let count = 0; count < ' Twice'.length; count++) {
    await page.keyboard.press('Backspace');
  }
  await page.keyboard.press('Control+End');
  await page.keyboard.type('4. Look at `references/rules.md`.');
  await expect(checks).toContainText('path-missing');

  // A file of its own mends that, and Ctrl S saves.
  await page.keyboard.press('Escape');
  await tab(page).getByRole('button', { name: 'New file…' }).click();
  await page.locator('.jp-Dialog input').fill('references/rules.md');
  await page.locator('.jp-Dialog').getByRole('button', { name: 'Add' }).click();
  await tab(page).getByRole('textbox', { name: 'Text of references/rules.md' }).click();
  await page.keyboard.type('Never trust a header.');
  await expect(checks).not.toContainText('path-missing');
  await page.keyboard.press('Control+s');
  await expect(tab(page)).toContainText(
    'Saved as personal:count-words@1. It is a draft of yours that nobody trusts yet.'
  );
  const { text: said } = await server
    .api('GET', 'skills/count-words@1/body')
    .then(body => ({ text: body.body as string }));
  expect(said).toContain('4. Look at `references/rules.md`.');

  // The next save is the next version, and says what is new.
  await page.keyboard.type(' Count twice.');
  await tab(page).getByPlaceholder('What is new').fill('counts twice');
  await tab(page).getByRole('button', { name: 'Save version' }).click();
  await expect(tab(page)).toContainText('Saved as personal:count-words@2');
  const { versions } = await server.api('GET', 'skills/count-words/versions');
  expect(versions.map((each: any) => [each.number, each.note])).toEqual([
    [2, 'counts twice'],
    [1, '']
  ]);
});

test('what is not saved is asked about, kept over a reload, and thrown away only if one says so', async ({
  page,
  server
}) => {
  await add(server, 'keep-it', 'As it was.', [
    { path: 'scripts/count.py', text: COUNT, executable: true }
  ]);
  const edit = async (): Promise<void> => {
    await page.evaluate(() =>
      (window as any).jupyterapp.commands.execute('reprise:open-skill', { skill: 'keep-it' })
    );
    await tab(page).getByRole('button', { name: 'Edit', exact: true }).click();
    await expect(text(page)).toContainText('name: keep-it');
  };
  await page.goto(`${server.url}/lab?reset`);
  await edit();
  await text(page).click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('Mine.');
  await expect(tab(page)).toContainText('Not saved yet');

  // In the middle of it the page is loaded anew.
  await page.reload();
  await edit();
  await expect(text(page)).toContainText('Mine.');
  await expect(tab(page)).toContainText('You go on with changes that were not saved on');

  // Closing asks, and keeps; the server has nothing of it.
  await page.evaluate(() => (window as any).jupyterapp.shell.currentWidget.close());
  const dialog = page.locator('.jp-Dialog');
  await expect(dialog).toContainText('Close without saving?');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await expect(text(page)).toContainText('Mine.');
  await page.evaluate(() => (window as any).jupyterapp.shell.currentWidget.close());
  await dialog.getByRole('button', { name: 'Keep them' }).click();
  await edit();
  await expect(text(page)).toContainText('Mine.');
  expect((await server.api('GET', 'skills/keep-it/versions')).total).toBe(1);

  // What could not be saved is still there, and says why.
  await dismissLost(page);
  await server.server('stop');
  await tab(page).getByRole('button', { name: 'Save version' }).click();
  await expect(tab(page).getByRole('alert').first()).toContainText('cannot be reached');
  await expect(text(page)).toContainText('Mine.');
  await server.server('start');
  await expect(tab(page)).not.toContainText('Connection lost');
  await tab(page).getByRole('button', { name: 'Throw away changes…' }).click();
  await dialog.getByRole('button', { name: 'Throw away' }).click();
  await expect(text(page)).not.toContainText('Mine.');
  await expect(text(page)).toContainText('As it was.');
});

test('the editor is accessible, and looks as it should', async ({ page, server }) => {
  await add(server, 'look-here', '# Look here\n\n1. Run `scripts/count.py FILE`.\n', [
    { path: 'scripts/count.py', text: COUNT, executable: true }
  ]);
  await page.goto(`${server.url}/lab?reset`);
  await page.evaluate(() =>
    (window as any).jupyterapp.commands.execute('reprise:open-skill', { skill: 'look-here' })
  );
  await tab(page).getByRole('button', { name: 'Edit', exact: true }).click();
  await expect(tab(page)).toContainText('Token cost');
  for (const theme of ['JupyterLab Light', 'JupyterLab Dark'] as const) {
    await setTheme(page, theme);
    await accessible(page, '.jp-Reprise-skill-tab:not(.lm-mod-hidden)');
    await page.mouse.move(640, 790);
    await expect(tab(page)).toHaveScreenshot(`editor-${theme.split(' ').pop()?.toLowerCase()}.png`);
  }
});
