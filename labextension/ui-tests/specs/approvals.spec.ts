// What waits for a person: pinned, exact, pressed in its frame by nobody else; the model's own questions.

import { accessible, expect, openNotebook, test } from '../fixtures/lab';
import { CHAT, FRAME, COMMANDS, setPolicy, say, turn, frame, press } from '../fixtures/asking';

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
