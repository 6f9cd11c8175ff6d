// The Timeline: what each step was, found again, walked by keys, forked, rewound, run again, looked back at.

import type { Page } from '@playwright/test';

import { pastSession } from '../fixtures/history';
import type { PastStep } from '../fixtures/history';
import {
  accessible,
  dismissLost,
  expect,
  kernelIdle,
  openNotebook,
  runCell,
  sessionOf,
  setTheme,
  test
} from '../fixtures/lab';

type Located = { locator: Page['locator'] };
const panel = (page: Located) => page.locator('.jp-Reprise-Timeline');
const rows = (page: Located) => panel(page).locator('.jp-Reprise-Timeline-row');
const row = (page: Located, text: string) => rows(page).filter({ hasText: text }).first();
const detail = (page: Located) => panel(page).locator('.jp-Reprise-Step article');
const total = (page: Located) => panel(page).locator('.jp-Reprise-Timeline-total');

async function execute(page: any, command: string, args: object = {}): Promise<unknown> {
  return page.evaluate(
    ([command, args]: [string, object]) =>
      (window as any).jupyterapp.commands.execute(command, args),
    [command, args]
  );
}

/** The lab without a notebook, its Timeline at a session. */
async function openAt(page: any, server: any, session: string): Promise<void> {
  await page.goto(`${server.url}/lab?reset`);
  await page.waitForFunction(() => (window as any).jupyterapp?.restored !== undefined);
  await page.evaluate(() => (window as any).jupyterapp.restored.then(() => undefined));
  await execute(page, 'reprise:open-timeline', { session });
  await expect(rows(page).first()).toBeVisible();
}

const HISTORY: PastStep[] = [
  { code: 'import pandas as pd', seconds: 0.4 },
  {
    code: "df = pd.read_csv('rentals.csv')\ndf.head()",
    seconds: 0.2,
    shown: '   day  rentals\n0  1  31'
  },
  {
    shell: 'python -m pip list',
    seconds: 2.1,
    agent: { conversation: 'b2f0c3de-0000-4000-8000-000000000000', turn: 3 },
    shown: 'pandas 2.3'
  },
  {
    code: "big = 'x' * 10**11",
    seconds: 14,
    status: 'died',
    cause: { what: 'memory', limit: 4_000_000_000 }
  },
  { code: 'while True: pass', seconds: 75, status: 'interrupted', cause: { what: 'interrupt' } },
  { code: "df['rentals'].mean()", seconds: 0.005, shown: '31.5' }
];

test('steps say kind, who, outcome, duration; the detail the rest; in both themes, for screen readers', async ({
  page,
  server
}) => {
  const session = await pastSession(server, HISTORY);
  const fork = await server.api('POST', `sessions/${session}/forks`, { at: 2, name: 'rentals-b' });
  await openAt(page, server, session);
  await expect(total(page)).toHaveText('6 steps');
  await expect(row(page, 'pip list')).toContainText('command');
  await expect(row(page, 'pip list')).toContainText('agent');
  await expect(row(page, 'big =')).toContainText('died');
  await expect(row(page, 'while True')).toContainText('1:15 min');
  // The fork leaves above the last step that it shares.
  await expect(rows(page).nth(3)).toContainText('fork: rentals-b');
  await expect(panel(page).getByRole('grid')).toHaveAttribute('aria-rowcount', '7');
  await expect(row(page, 'import pandas')).toHaveAttribute('aria-rowindex', '7');

  await row(page, 'big =').click();
  await expect(detail(page)).toContainText('Out of memory (4.0 GB). The sandbox went with it');
  await row(page, 'pip list').click();
  await expect(detail(page).locator('pre').first()).toHaveText('python -m pip list');
  await expect(detail(page)).toContainText('Asked by agent, turn 3');
  await expect(detail(page).locator('.jp-Reprise-Output')).toHaveText('pandas 2.3');
  const told = await server.api('GET', `sessions/${session}/steps/2`);
  await expect(detail(page)).toContainText(told.digest);
  await accessible(page, '.jp-Reprise-Session .jp-Reprise-Timeline');
  const mask = [
    detail(page).locator('.jp-Reprise-secondary').first(),
    detail(page).locator('code'),
    panel(page).locator('.jp-Reprise-Timeline-picker')
  ];
  await expect(panel(page)).toHaveScreenshot('timeline-light.png', { mask });
  await setTheme(page, 'JupyterLab Dark');
  await expect(panel(page)).toHaveScreenshot('timeline-dark.png', { mask });
  await accessible(page, '.jp-Reprise-Session .jp-Reprise-Timeline');
  await setTheme(page, 'JupyterLab Light');

  await row(page, 'fork: rentals-b').click();
  await expect(total(page)).toHaveText('3 steps');
  await expect(panel(page).getByLabel('Session')).toHaveValue(fork.session);
  // From there the way back is drawn as well.
  await rows(page).filter({ hasText: 'left ' }).click();
  await expect(total(page)).toHaveText('6 steps');
});

test('search, kinds, who and failures are found on the server', async ({ page, server }) => {
  const session = await pastSession(server, HISTORY);
  await openAt(page, server, session);
  const search = panel(page).getByLabel('Search steps');
  await search.fill('DF mean');
  await expect(total(page)).toHaveText('1 of 6');
  await expect(rows(page)).toHaveCount(1);
  await search.fill('nothing like this');
  await expect(panel(page)).toContainText('No step fits.');
  await panel(page).getByRole('button', { name: 'Show all steps' }).click();
  await expect(total(page)).toHaveText('6 steps');
  await panel(page).getByLabel('failed').check();
  await expect(total(page)).toHaveText('2 of 6');
  await panel(page).getByLabel('Kind').selectOption('command');
  await expect(total(page)).toHaveText('0 of 6');
  await panel(page).getByLabel('failed').uncheck();
  await panel(page).getByLabel('Who').selectOption('agent');
  await expect(rows(page)).toHaveCount(1);
  // A link to a step that the filter hides shows it all the same.
  await execute(page, 'reprise:show-step', { session, step: 0 });
  await expect(detail(page)).toContainText('import pandas as pd');
  await expect(total(page)).toHaveText('6 steps');
});

test('all of it by keyboard: chord, arrows, selection, menu, detail, and back', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['a = 1', 'b = a + 1\nb', 'c = b']);
  await openNotebook(page, server, `${name}.ipynb`);
  for (const index of [0, 1, 2]) {
    await runCell(page, index);
  }
  await page.locator('.jp-Notebook .jp-CodeCell').nth(1).locator('.cm-content').click();
  await page.keyboard.press('Escape');
  // The second key of a chord has to come within a second, which a busy machine does not promise.
  await expect(async () => {
    await page.keyboard.press('Control+k');
    await page.keyboard.press('j');
    await expect(detail(page)).toBeVisible({ timeout: 3_000 });
  }).toPass();
  await expect(detail(page).locator('pre').first()).toHaveText('b = a + 1\nb');

  await page.locator('.jp-Notebook .jp-CodeCell').nth(1).locator('.cm-content').click();
  await page.keyboard.press('Escape');
  await expect(async () => {
    await page.keyboard.press('Control+k');
    await page.keyboard.press('t');
    await expect(panel(page).locator('[role=row]:focus')).toHaveCount(1, { timeout: 3_000 });
  }).toPass();
  await page.keyboard.press('Home');
  await expect(page.locator('[role=row]:focus')).toContainText('c = b');
  await page.keyboard.press('Space');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await expect(page.locator('[role=row]:focus')).toContainText('a = 1');
  await page.keyboard.press('Space');
  await expect(panel(page).locator('[role=row][aria-selected=true]')).toHaveCount(2);
  await expect(panel(page).getByRole('button', { name: 'Compare' })).toBeVisible();
  await page.keyboard.press('Shift+F10');
  await expect(page.locator('.lm-Menu.jp-Reprise-menu')).toContainText('Rewind to Here');
  await page.keyboard.press('Escape');
  await expect(page.locator('[role=row]:focus')).toContainText('a = 1');
  await page.keyboard.press('Enter');
  await expect(detail(page).locator('h3')).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(page.locator('[role=row]:focus')).toContainText('a = 1');
  await page.keyboard.press('Escape');
  await expect(page.locator('.jp-NotebookPanel:focus-within')).toHaveCount(1);
});

test('a fork has a name, a notebook of its own, and a branch; its variables are those of the step', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = [3, 5, 8]', 'x.clear()', 'x']);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  await runCell(page, 1);
  await execute(page, 'reprise:open-timeline');
  await row(page, 'x = [3, 5, 8]').click();
  await detail(page).getByRole('button', { name: 'Fork here' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.locator('input')).toHaveValue(`${name}-b`);
  await dialog.locator('input').fill(`${name} what if`);
  await dialog.getByRole('button', { name: 'Fork' }).click();
  const tab = page.locator('.lm-TabBar-tab.lm-mod-current', { hasText: `${name} what if.ipynb` });
  await expect(tab).toBeVisible();
  const fork = page.locator('.jp-NotebookPanel:not(.lm-mod-hidden)');
  await expect(fork.locator('.jp-CodeCell')).toHaveCount(1);
  await kernelIdle(page);
  await fork.locator('.jp-CodeCell .cm-content').click();
  await page.keyboard.press('Control+a');
  await page.keyboard.type('sum(x)');
  await page.keyboard.press('Control+Enter');
  await expect(fork.locator('.jp-OutputArea-output')).toHaveText('16');
  await page
    .locator('.lm-TabBar-tab', { hasText: `${name}.ipynb` })
    .first()
    .click();
  await expect(row(page, `fork: ${name} what if`)).toBeVisible();
  await expect(row(page, 'x.clear()')).toBeVisible();
});

test('a rewind says what leaves and what is not undone, and the old session stays listed', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = [3, 5, 8]', 'x.clear()', 'sum(x)']);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  await runCell(page, 1);
  await execute(page, 'reprise:open-timeline');
  const before = await panel(page).getByLabel('Session').inputValue();
  await row(page, 'x = [3, 5, 8]').click();
  const seq = (await detail(page).locator('h3').innerText()).replace(/\D/g, '');
  const rewind = detail(page).getByRole('button', { name: 'Rewind to here' });
  await rewind.click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText(`Rewind to step ${seq}?`);
  await expect(dialog).toContainText(
    `Step ${Number(seq) + 1} leaves this notebook and stays in '${name} (before rewind)'.`
  );
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  expect((await server.api('GET', `sessions/${before}/forks`)).forks).toEqual([]);

  await rewind.click();
  await dialog.getByRole('button', { name: 'Rewind' }).click();
  await expect(page.locator('.jp-Reprise-announcer[aria-live=polite]')).toContainText(
    `At step ${seq}.`
  );
  await expect(row(page, `left ${name} (before rewind)`)).toBeVisible();
  await expect(rows(page).filter({ hasText: 'x.clear()' })).toHaveCount(0);
  const cell = await runCell(page, 2);
  await expect(cell.locator('.jp-OutputArea-output')).toHaveText('16');
  // Nothing is lost: it is in the picker, and led to by its branch.
  await panel(page).getByLabel('Session').selectOption(before);
  await expect(row(page, 'x.clear()')).toBeVisible();
});

test('a step runs again as a new one, and new steps come by themselves', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['n = 0', 'n += 1\nprint("n is", n)', '1/0']);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  await execute(page, 'reprise:open-timeline');
  await runCell(page, 1);
  await expect(rows(page).first()).toContainText('n += 1');
  await rows(page).first().click();
  await detail(page).getByRole('button', { name: 'Run again' }).click();
  await expect(detail(page).locator('.jp-Reprise-Output')).toHaveText('n is 2');
  await expect(rows(page).filter({ hasText: 'n += 1' })).toHaveCount(2);
  const upload = rows(page).filter({ hasText: '.ipynb' }).first();
  await upload.click();
  await expect(detail(page).getByRole('button', { name: 'Run again' })).toBeDisabled();
  // Paused, they wait and are counted; under the pointer nothing moves.
  await page.mouse.move(900, 700);
  await panel(page).getByRole('button', { name: 'live' }).click();
  await page.locator('.jp-Notebook .jp-CodeCell').nth(2).locator('.cm-content').click();
  await page.keyboard.press('Control+Enter');
  await panel(page).getByRole('button', { name: '1 new' }).click();
  await expect(rows(page).first()).toContainText('1/0');
  await expect(rows(page).first()).toContainText('error');
});

test('the notebook as of a step: read-only, hostile output harmless, files beside', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, [
    "from IPython.display import HTML\nHTML(\"<b id=bold>bold</b><img src=x onerror='window.taken = 1'><a href='javascript:window.taken = 1'>x</a>\")",
    '"a later one"'
  ]);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  await runCell(page, 1);
  const session = await sessionOf(server, `${name}.ipynb`);
  const { rows: told } = await server.api('GET', `sessions/${session}/rows?kind=cell`);
  await execute(page, 'reprise:view-step', { session, step: told[0].seq });
  const past = page.locator('.jp-Reprise-Past');
  await expect(past).toContainText(`${name} as of step ${told[0].seq}, read-only.`);
  await expect(past.locator('.jp-CodeCell')).toHaveCount(1);
  await expect(past.locator('.jp-OutputArea-output b')).toHaveText('bold');
  await past.locator('.cm-content').click();
  await page.keyboard.type('mine');
  await expect(past.locator('.cm-content')).not.toContainText('mine');
  await execute(page, 'reprise:show-step', { session, step: told[0].seq });
  await expect(detail(page).locator('.jp-Reprise-Output b')).toHaveText('bold');
  await detail(page).locator('.jp-Reprise-Output a').click();
  // The notebook itself runs what it showed live; in these two stands nothing that could run.
  for (const place of [past.locator('.jp-OutputArea-output'), detail(page)]) {
    for (const acts of ['#bold', '[onerror]', '[src]', 'a[href]']) {
      await expect(place.locator(acts)).toHaveCount(0);
    }
  }
  await accessible(page, '.jp-Reprise-Past-head');
  await past.getByRole('button', { name: 'Show in the Timeline' }).click();
  await expect(detail(page).locator('h3')).toHaveText(`Step ${told[0].seq}`);
});

test('without the server what was there stays, and says so; then it goes on', async ({
  page,
  server
}) => {
  const session = await pastSession(server, HISTORY);
  await openAt(page, server, session);
  await dismissLost(page);
  await server.server('stop');
  await execute(page, 'reprise:show-step', { session, step: 1 });
  await expect(panel(page)).toContainText('Connection lost. What you see is as of');
  await expect(rows(page)).toHaveCount(6);
  await server.server('start');
  await panel(page).getByRole('button', { name: 'Try now' }).click();
  await expect(panel(page)).not.toContainText('Connection lost');
  await row(page, 'import pandas').click();
  await expect(detail(page).locator('pre').first()).toHaveText('import pandas as pd');
});

test('an empty session explains itself in three lines; other kernels have no timeline', async ({
  page,
  server,
  name
}) => {
  const { id } = await server.api('POST', 'sessions', {});
  await page.goto(`${server.url}/lab?reset`);
  await page.waitForFunction(() => (window as any).jupyterapp?.restored !== undefined);
  await execute(page, 'reprise:open-timeline', { session: id });
  await expect(panel(page).locator('.jp-Reprise-empty p')).toHaveText([
    'Each cell is recorded before it runs.',
    'If the sandbox dies, it is played again.',
    'Select a step to look back.'
  ]);
  await server.notebook(`${name}.ipynb`, ['1'], 'python3');
  await openNotebook(page, server, `${name}.ipynb`);
  await execute(page, 'reprise:open-timeline');
  await expect(panel(page)).toContainText('Open a notebook with a Reprise kernel');
});
