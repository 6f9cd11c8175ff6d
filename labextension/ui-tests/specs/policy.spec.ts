// Policies: seen by level, written with what is wrong at its line, tried before they are set by a press.

import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import * as path from 'path';

import { press } from '../fixtures/decision';
import { accessible, expect, Server, setTheme, test } from '../fixtures/lab';

// Whoever runs this server forbids some hosts.
test.use({
  serve: {
    jupyter: [`--RepriseAgent.policy_file=${path.join(__dirname, 'environments.policy.yaml')}`]
  }
});

async function open(page: IJupyterLabPageFixture, server: Server) {
  await page.goto(`${server.url}/lab?reset`);
  await page.waitForFunction(() =>
    (window as any).jupyterapp?.commands.hasCommand('reprise:open-policy')
  );
  await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:open-policy'));
  const tab = page.locator('.jp-Reprise-policy');
  await expect(tab.locator('.jp-Reprise-policy-textbox .cm-content')).toBeVisible();
  return tab;
}

async function write(page: IJupyterLabPageFixture, text: string): Promise<void> {
  await page.locator('.jp-Reprise-policy-textbox .cm-content').click();
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText(text);
}

const RULE =
  'rules:\n  - name: no-curl\n    decision: deny\n    why: Ask the data office.\n    tool: run_command\n';

test('a policy is written, tried and set by a press, and its versions compared', async ({
  page,
  server
}) => {
  const tab = await open(page, server);
  await expect(tab.locator('.jp-Reprise-policy-level').first()).toContainText('This server');
  await accessible(page, '.jp-Reprise-policy');
  await page.mouse.move(0, 0);
  await expect(tab).toHaveScreenshot('policy-light.png');
  await setTheme(page, 'JupyterLab Dark');
  await expect(tab).toHaveScreenshot('policy-dark.png');
  await accessible(page, '.jp-Reprise-policy');
  await setTheme(page, 'JupyterLab Light');

  // What is wrong stands at its line, and cannot be saved.
  await write(page, 'rules:\n  - name: x\n    decision: perhaps\n');
  await expect(tab.locator('.jp-Reprise-policy-finding')).toContainText(
    "Line 3: 'perhaps' is no decision."
  );
  await expect(tab.locator('.cm-lint-marker-error')).toBeVisible();
  const save = tab.getByRole('button', { name: 'Save…' });
  await expect(save).toBeDisabled();

  // One act is tried on the draft and on what binds.
  await write(page, RULE);
  const outcome = tab.locator('.jp-Reprise-policy-outcome');
  await tab.getByLabel('Command').fill('curl -s https://a.example; id');
  await expect(outcome).toContainText('Deny, by personal/no-curl.');
  await expect(outcome).toContainText('Ask the data office.');
  await expect(outcome).toContainText('Now it is: allow, by default/run.');
  await expect(outcome).toContainText('more than plain words for a shell');
  await tab.getByLabel('The agent calls').selectOption('read_file');
  await expect(outcome).toContainText('Allow, by default/read.');
  await expect(tab).toContainText('No call yet on which it could be tried.');

  // Nothing is set without a press.
  await tab.getByPlaceholder('Why it changes').fill('first');
  await save.click();
  await press(page, 'Do not');
  expect((await server.api('GET', 'policies/versions?scope=personal')).versions).toEqual([]);
  await save.click();
  const frame = page.frameLocator('.jp-Reprise-decision-frame');
  await expect(frame.locator('body')).toContainText('no-curl');
  await press(page, 'Allow');
  await expect(tab).toContainText('Saved as version 1.');
  await expect(tab.locator('.jp-Reprise-policy-level', { hasText: 'Yours' })).toContainText(
    '1 rule'
  );

  await write(page, RULE.replace('deny', 'ask'));
  await expect(save).toBeEnabled();
  await save.click();
  await press(page, 'Allow');
  await expect(tab).toContainText('Saved as version 2.');
  const newest = tab.locator('.jp-Reprise-policy-version').first();
  await expect(newest).toContainText('Version 2 · binds');
  await newest.locator('summary').click();
  await expect(newest.locator('.jp-Reprise-diff')).toContainText('1 added, 1 removed');
  const older = tab.locator('.jp-Reprise-policy-version').nth(1);
  await older.locator('summary').click();
  await older.getByRole('button', { name: 'Put version 1 into the editor' }).click();
  await expect(tab.locator('.jp-Reprise-policy-textbox .cm-content')).toContainText(
    'decision: deny'
  );
});

test('what was written outlives a reload, and is not written over another version', async ({
  page,
  server
}) => {
  let tab = await open(page, server);
  const binds =
    (await server.api('GET', 'policies/versions?scope=personal')).versions[0]?.version ?? 0;
  await write(page, RULE.replace('no-curl', 'mine'));
  await expect(tab.locator('.jp-Reprise-policy-trial')).toBeVisible();
  await page.reload();
  tab = await open(page, server);
  await expect(tab).toContainText('You go on with what you had not saved.');
  await expect(tab.locator('.jp-Reprise-policy-textbox .cm-content')).toContainText('name: mine');

  // A program sets another one meanwhile.
  await server.api('PUT', 'policies', {
    scope: 'personal',
    policy: RULE.replace('no-curl', 'theirs'),
    after: binds
  });
  await expect(tab).toContainText(`Somebody has set version ${binds + 1} since you began.`);
  await expect(tab.getByRole('button', { name: 'Save…' })).toBeDisabled();
  await tab.getByRole('button', { name: 'Go on with mine' }).click();
  await expect(tab.getByRole('button', { name: 'Save…' })).toBeEnabled();
  await tab.getByRole('button', { name: 'Throw away…' }).click();
  await page.locator('.jp-Dialog').getByRole('button', { name: 'Throw away' }).click();
  await expect(tab.locator('.jp-Reprise-policy-textbox .cm-content')).toContainText('name: theirs');
});
