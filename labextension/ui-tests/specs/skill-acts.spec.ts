// A version in its whole life: trusted, no more, revoked, back, deprecated, restored; and a Git repository.

import type { Locator, Page } from '@playwright/test';

import { press } from '../fixtures/decision';
import { accessible, expect, Server, test } from '../fixtures/lab';
import { add, COUNT, skillMd } from '../fixtures/skills';

test.use({ serve: { git: true } });

const tab = (page: Page): Locator => page.locator('.jp-Reprise-skill-tab:not(.lm-mod-hidden)');
const titles = (page: Page): Locator => tab(page).locator('.jp-Reprise-skill-titles');
const dialog = (page: Page): Locator => page.locator('.jp-Reprise-skill-dialog');

async function open(page: Page, server: Server, command: string, args: object = {}): Promise<void> {
  await page.goto(`${server.url}/lab?reset`);
  await page.locator('.jp-Launcher').waitFor();
  await page.evaluate(([name, given]) => (window as any).jupyterapp.commands.execute(name, given), [
    command,
    args
  ] as const);
}

/** Press a button of the tab, and the dialog's that says what is about to be done. */
async function act(
  page: Page,
  button: string,
  confirm: string,
  reason: string | null = null,
  within: Locator = tab(page)
): Promise<void> {
  await within.getByRole('button', { name: button, exact: true }).click();
  if (reason !== null) {
    await dialog(page).getByLabel('Reason').fill(reason);
  }
  await dialog(page).getByRole('button', { name: confirm, exact: true }).click();
}

test('trust is taken back; what was revoked comes back untrusted; a version is deprecated and restored', async ({
  page,
  server
}) => {
  await add(server, 'mend-it', 'One.', [{ path: 'scripts/count.py', text: COUNT }]);
  await add(server, 'mend-it', 'Two.');
  await open(page, server, 'reprise:open-skill', { skill: 'mend-it@1', scope: 'personal' });

  await act(page, 'Trust…', 'Trust v1', 'read it');
  await press(page, 'Allow');
  await expect(titles(page).getByText('trusted', { exact: true })).toBeVisible();
  // Less is pressed in no frame.
  await act(page, 'Take back trust…', 'Take back', 'not so sure');
  await expect(titles(page).getByText('untrusted', { exact: true })).toBeVisible();
  await act(page, 'Revoke…', 'Revoke v1', 'sends names away');
  await expect(titles(page).getByText('revoked', { exact: true })).toBeVisible();

  // More is: and who says no there has changed nothing.
  await act(page, 'Reinstate…', 'Reinstate v1', 'a mistake');
  await press(page, 'Do not');
  await expect(dialog(page)).toHaveCount(0);
  expect((await server.api('GET', 'skills/mend-it@1')).standing).toBe('revoked');
  await act(page, 'Reinstate…', 'Reinstate v1', 'a mistake');
  await press(page, 'Allow');
  await expect(titles(page).getByText('untrusted', { exact: true })).toBeVisible();

  await tab(page)
    .getByRole('tab', { name: /Versions/ })
    .click();
  const first = tab(page).getByRole('row', { name: /^v1/ });
  await act(page, 'Deprecate…', 'Deprecate v1', 'v2 is better', first);
  await expect(first.getByText('deprecated', { exact: true })).toBeVisible();
  await expect(titles(page).getByText('deprecated', { exact: true })).toBeVisible();
  await act(page, 'Undo deprecation', 'Undo', null, first);
  await expect(first.getByText('deprecated', { exact: true })).toHaveCount(0);
  await act(page, 'Restore…', 'Restore v1', null, first);
  await press(page, 'Allow');
  await expect(tab(page).getByRole('row', { name: /^v3/ })).toBeVisible();
  const [old, restored] = await Promise.all(
    [1, 3].map(number => server.api('GET', `skills/mend-it@${number}`))
  );
  expect(restored.digest).toBe(old.digest);

  await tab(page).getByText('Who did what').click();
  const history = tab(page).locator('.jp-Reprise-skill-history li');
  for (const said of [
    'trusted: read it',
    'took the trust back: not so sure',
    'revoked: sends names away',
    'reinstated: a mistake',
    /deprecated v1: v2 is better/,
    /took the deprecation back v1/
  ]) {
    await expect(history.filter({ hasText: said })).toHaveCount(1);
  }
  await accessible(page, '.jp-Reprise-skill-tab:not(.lm-mod-hidden)');
});

test('the skills of a Git repository come in from a commit, and say so', async ({
  page,
  server
}) => {
  const { url, commit } = await server.git('team', {
    'README.md': 'Ours.',
    'skills/from-git/SKILL.md': skillMd('from-git', 'Welcome.'),
    'skills/from-git/scripts/go.py': COUNT,
    'skills/broken/SKILL.md': '---\nname: broken\n---\nText.\n'
  });
  await open(page, server, 'reprise:import-skills');
  await tab(page).getByLabel('Address').fill(url);
  await tab(page).getByRole('button', { name: 'Import from Git' }).click();
  await expect(tab(page).getByRole('button', { name: 'from-git' })).toBeVisible();
  await expect(tab(page)).toContainText(/broken.*description/);
  await accessible(page, '.jp-Reprise-skill-tab:not(.lm-mod-hidden)');
  await tab(page).getByRole('button', { name: 'from-git' }).click();
  await expect(titles(page)).toContainText('from-git');
  await expect(titles(page)).toContainText('untrusted');
  await tab(page)
    .getByRole('tab', { name: /Versions/ })
    .click();
  await expect(tab(page).getByRole('row', { name: /^v1/ })).toContainText(
    `at ${commit.slice(0, 12)}`
  );

  // A branch that is not there is said, and nothing is lost of what was typed.
  await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:import-skills'));
  await tab(page).getByRole('button', { name: 'Import more' }).click();
  await tab(page).getByLabel('Address').fill(url);
  await tab(page).getByLabel('Branch, tag or commit').fill('no-such-branch');
  await tab(page).getByRole('button', { name: 'Import from Git' }).click();
  await expect(tab(page).getByRole('alert')).toContainText('no-such-branch');
  await expect(tab(page).getByLabel('Address')).toHaveValue(url);
});
