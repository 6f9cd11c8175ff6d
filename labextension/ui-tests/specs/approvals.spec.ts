// What waits for a person: pinned, exact, pressed in its frame by nobody else; the model's own questions.

import { promises as fs } from 'fs';
import * as path from 'path';

import type { FrameLocator, Locator, Page } from '@playwright/test';

import { accessible, expect, openNotebook, Server, test } from '../fixtures/lab';

const CHAT = '.jp-Reprise-chat';
const FRAME = `${CHAT} .jp-Reprise-approval iframe`;

const COMMANDS =
  'rules:\n  - {name: look-at-commands, decision: ask, effect: run, why: Commands are looked at here.}\n';

async function setPolicy(server: Server, policy: string): Promise<void> {
  const file = path.join(server.home, 'approvals.yaml');
  await fs.writeFile(file, policy);
  const { code, err } = await server.run('policy', 'set', 'personal', file);
  expect(code, err).toBe(0);
}

async function say(page: Page, words: string): Promise<void> {
  await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:open-chat'));
  const input = page.locator(`${CHAT} .jp-Reprise-chat-composer textarea`);
  await input.fill(words);
  await input.press('Enter');
}

function turn(page: Page): Locator {
  return page.locator(`${CHAT} [data-turn="1"]`);
}

function frame(page: Page): FrameLocator {
  return page.frameLocator(FRAME);
}

/** A press counts once the frame has been in full view for a while: it says so when it was too soon. */
async function press(page: Page, name: string): Promise<void> {
  const button = frame(page).getByRole('button', { name, exact: true });
  await expect(async () => {
    if ((await page.locator(FRAME).count()) > 0) {
      await button.click({ timeout: 5_000 });
    }
    await expect(page.locator(FRAME)).toHaveCount(0, { timeout: 3_000 });
  }).toPass();
}

test.beforeEach(async ({ server }) => {
  await setPolicy(server, COMMANDS);
});

// Other specs may stand on the same lab.
test.afterEach(async ({ server }) => {
  await setPolicy(server, 'rules: []\n');
});

test('an approval is pinned and counted, shows its exact input, outlives a reload, and is pressed once for all tabs', async ({
  page,
  server,
  context,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await server.script('fetch', [
    { call: 'run_command', input: { command: 'echo \u001b[2K\u202edone' } },
    { say: 'It ran.' }
  ]);
  await openNotebook(page, server, `${name}.ipynb`);
  await say(page, 'Please fetch it.');
  await expect(page.locator(FRAME)).toBeVisible();
  // It takes no focus, and says exactly what runs.
  await expect(page.locator(`${CHAT} .jp-Reprise-chat-composer textarea`)).toBeFocused();
  await expect(frame(page).locator('main')).toContainText('echo \\x1b[2K\\u202edone');
  await expect(frame(page).locator('main')).toContainText('Commands are looked at here.');
  await expect(page.locator('.jp-Reprise-status')).toContainText('1');
  await expect(turn(page).locator('.jp-Reprise-card')).toContainText('waits for you');
  await accessible(page, CHAT);
  const id = await page.locator('[data-question]').getAttribute('data-question');
  await page.reload();
  await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:open-chat'));
  await expect(page.locator('[data-question]')).toHaveAttribute('data-question', id!);
  const left = await frame(page).locator('#left').textContent();
  expect(left).toMatch(/^[0-4]:/);

  // Scripts of the page press nothing: neither in the frame nor around it.
  const forced = await page.evaluate(async () => {
    const iframe = document.querySelector<HTMLIFrameElement>('.jp-Reprise-approval iframe')!;
    iframe.click();
    let read = 'unreadable';
    try {
      read = iframe.contentDocument === null ? read : 'read';
    } catch {
      // It has an origin of its own.
    }
    const fetched = await fetch(iframe.src);
    return { read, status: fetched.status, text: (await fetched.text()).includes('data-nonce') };
  });
  expect(forced.read).toBe('unreadable');
  expect(forced.text).toBe(false);

  const other = await context.newPage();
  await other.goto(`${server.url}/lab/workspaces/other/tree/${name}.ipynb`);
  await other.waitForFunction(() => (window as any).jupyterapp?.restored !== undefined);
  await other.evaluate(() => (window as any).jupyterapp.restored.then(() => undefined));
  await other.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:open-chat'));
  await expect(other.locator(FRAME)).toBeVisible();
  await page.bringToFront();
  await press(page, 'Allow once');
  await expect(turn(page)).toContainText('It ran.');
  await expect(turn(page).locator('.jp-Reprise-card')).toContainText('allowed once');
  await expect(other.locator(FRAME)).toHaveCount(0);
  await expect(other.locator(`${CHAT} [data-turn="1"]`)).toContainText('It ran.');
});

test('a denial takes its reason to the agent, by keyboard alone', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await server.script('remove', [
    { call: 'run_command', input: { command: 'rm -rf data' } },
    { say: 'I leave it.' }
  ]);
  await openNotebook(page, server, `${name}.ipynb`);
  await say(page, 'Please remove it.');
  await expect(page.locator(FRAME)).toBeVisible();
  await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:next-question'));
  await expect(page.locator(FRAME)).toBeFocused();
  const deny = frame(page).getByRole('button', { name: 'Deny…' });
  await expect(async () => {
    await page.locator(FRAME).focus();
    for (
      let n = 0;
      n < 6 && !(await deny.evaluate(node => node === document.activeElement));
      n += 1
    ) {
      await page.keyboard.press('Tab');
    }
    await page.keyboard.press('Enter');
    await expect(frame(page).getByRole('textbox')).toBeVisible({ timeout: 2_000 });
  }).toPass();
  await page.keyboard.type('use the copy in data/');
  const confirm = frame(page)
    .locator('.more:not([hidden]) button[aria-disabled="false"], .more:not([hidden]) button')
    .last();
  await expect(async () => {
    if ((await page.locator(FRAME).count()) > 0) {
      await confirm.focus();
      await page.keyboard.press('Enter');
    }
    await expect(page.locator(FRAME)).toHaveCount(0, { timeout: 3_000 });
  }).toPass();
  const card = turn(page).locator('.jp-Reprise-card');
  await expect(card).toContainText('denied');
  await expect(card).toContainText('Reason: use the copy in data/');
  await expect(turn(page)).toContainText('I leave it.');
  const told = await server.api(
    'GET',
    `conversations/${(await server.api('GET', 'conversations?limit=1')).conversations[0].id}/entries?limit=100`
  );
  expect(JSON.stringify(told)).toContain('They say: use the copy in data/');
});

test('the model’s own question is answered by an option or in words, and approves nothing', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await server.script('target', [
    {
      call: 'ask_user',
      input: {
        question: 'Which *column* is it? <img src=x onerror=alert(1)>',
        options: ['churn', 'left']
      }
    },
    { call: 'ask_user', input: { question: 'And why?' } },
    { say: 'Thank you.' }
  ]);
  await openNotebook(page, server, `${name}.ipynb`);
  await say(page, 'Find the target.');
  const pinned = page.locator(`${CHAT} .jp-Reprise-pinned`);
  await expect(pinned.locator('em')).toHaveText('column');
  await accessible(page, CHAT);
  await pinned.getByRole('button', { name: 'churn' }).click();
  await expect(pinned).toContainText('And why?');
  await pinned.getByRole('textbox').fill('It is what we sell.');
  await page.keyboard.press('Enter');
  await expect(turn(page)).toContainText('Thank you.');
  await expect(turn(page).locator('.jp-Reprise-asked')).toHaveCount(2);
  await expect(turn(page).locator('.jp-Reprise-asked').last()).toContainText('It is what we sell.');
});

test.describe('where nobody answers', () => {
  test.use({ serve: { jupyter: ['--RepriseAgent.approval_patience=8'] } });

  test('a question that is not answered in time is denied, and may be asked again', async ({
    page,
    server,
    name
  }) => {
    await server.notebook(`${name}.ipynb`, ['x = 1']);
    await server.script('wait for it', [
      { call: 'run_command', input: { command: 'echo late' } },
      { say: 'Nobody answered.' }
    ]);
    await server.script('I did not answer in time', [{ say: 'I ask again.' }]);
    await openNotebook(page, server, `${name}.ipynb`);
    await say(page, 'Please wait for it.');
    const card = turn(page).locator('.jp-Reprise-card');
    await expect(card).toContainText('Not answered in time, so not run. The agent was told.');
    await expect(turn(page)).toContainText('Nobody answered.');
    await card.getByRole('button', { name: 'Ask me again' }).click();
    await expect(page.locator(`${CHAT} [data-turn="2"]`)).toContainText('I ask again.');
  });
});

test.describe('without a key', () => {
  test.use({ serve: { noKey: true } });

  test('the panel says what is missing, and all else works', async ({ page, server, name }) => {
    await server.notebook(`${name}.ipynb`, ['x = 1']);
    await openNotebook(page, server, `${name}.ipynb`);
    await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:open-chat'));
    await expect(page.locator(CHAT)).toContainText(
      'No model key on the server. All else works. Set ANTHROPIC_API_KEY and restart it.'
    );
    await accessible(page, CHAT);
  });
});
