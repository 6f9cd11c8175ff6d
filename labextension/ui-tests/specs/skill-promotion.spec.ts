// Two people, each with a lab and a login of the database: one asks for a promotion, the other decides.

import type { Locator, Page } from '@playwright/test';

import { press } from '../fixtures/decision';
import { accessible, expect, Server, signIn, test } from '../fixtures/lab';
import { add } from '../fixtures/skills';

test.use({ serve: { people: ['anna', 'ben'], person: 'anna' } });

function tab(page: Page): Locator {
  return page.locator('.jp-Reprise-skill-tab:not(.lm-mod-hidden)');
}

async function openSkills(page: Page, server: Server): Promise<Locator> {
  await page.goto(`${server.url}/lab?reset`);
  await page.waitForFunction(() => (window as any).jupyterapp !== undefined);
  await page.evaluate(() =>
    (window as any).jupyterapp.restored.then(() =>
      (window as any).jupyterapp.commands.execute('reprise:skills')
    )
  );
  return page.locator('#jp-reprise-skills');
}

test('what somebody asks for another person decides, and nobody by himself', async ({
  page,
  server,
  browser
}) => {
  const bens = await Server.start({ person: 'ben', dsn: server.dsn });
  try {
    const context = await browser.newContext();
    await signIn(context, bens);
    const ben = await context.newPage();
    const benSkills = await openSkills(ben, bens);

    // ben makes the team, and appoints anna: the login that may then ask.
    await ben.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:skill-teams'));
    await tab(ben).getByLabel('New team').last().fill('ml');
    await tab(ben).getByRole('button', { name: 'Create…' }).click();
    await press(ben, 'Allow');
    const team = tab(ben).getByRole('region', { name: 'Team ml' });
    await team.getByLabel('Login').fill('anna');
    await team.getByRole('button', { name: 'Appoint…' }).click();
    await press(ben, 'Allow');
    await expect(team.getByRole('row', { name: /anna/ })).toContainText('member');
    // Nobody is out by a slip: that is asked first, and Enter keeps them.
    await team.getByRole('row', { name: /anna/ }).getByRole('button', { name: 'Dismiss' }).click();
    const asked = ben.locator('.jp-Dialog');
    await expect(asked).toContainText('Dismiss “anna” from “Team ml”?');
    await ben.keyboard.press('Enter');
    await expect(asked).toHaveCount(0);
    await expect(team.getByRole('row', { name: /anna/ })).toContainText('member');

    await add(server, 'count-rows', 'One.');
    const annaSkills = await openSkills(page, server);
    await annaSkills.getByRole('option', { name: /count-rows/ }).click();
    await tab(page).getByRole('button', { name: 'Promote…' }).click();
    const dialog = page.locator('.jp-Reprise-skill-dialog');
    await expect(dialog).toContainText('Another person there decides');
    await dialog.getByLabel('Note').fill('counts rows of any table');
    await dialog.getByRole('button', { name: 'Ask for it' }).click();
    await expect(tab(page)).toContainText('Another reviewer must approve.');
    await expect(tab(page)).toContainText('Nothing is published there yet, so all of it is new.');
    await expect(tab(page).getByRole('button', { name: /Approve/ })).toHaveCount(0);
    await expect(tab(page).getByRole('button', { name: 'Withdraw' })).toBeVisible();

    await benSkills.getByTitle('Look again').click();
    await benSkills.getByRole('tab', { name: /Promotions/ }).click();
    await benSkills.getByRole('button', { name: /count-rows/ }).click();
    await expect(tab(ben)).toContainText('counts rows of any table');
    await expect(tab(ben).locator('[aria-current=step]')).toHaveText('draft');
    await accessible(ben, '#jp-reprise-skills', '.jp-Reprise-skill-tab:not(.lm-mod-hidden)');
    await tab(ben).getByRole('button', { name: 'Approve and release…' }).click();
    const frame = ben.frameLocator('.jp-Reprise-decision-frame');
    await expect(frame.locator('body')).toContainText('team/ml:count-rows@1');
    await press(ben, 'Allow');
    await expect(tab(ben).locator('[aria-current=step]')).toHaveText('published');

    // anna has it from the team, trusted, since somebody else has looked at it.
    await annaSkills.getByTitle('Look again').click();
    await annaSkills.getByRole('tab', { name: 'Team ml' }).click();
    await expect(annaSkills.getByRole('option', { name: /count-rows/ })).toContainText('trusted');
    await annaSkills.getByRole('option', { name: /count-rows/ }).click();
    await expect(tab(page).locator('.jp-Reprise-skill-titles')).toContainText('published');
    await context.close();
  } finally {
    await bens.stop();
  }
});
