// Environments: notebooks made in one, sessions that go over to another, hosts allowed by a press.

import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import { promises as fs } from 'fs';
import * as path from 'path';

import { press } from '../fixtures/decision';
import {
  accessible,
  expect,
  kernelIdle,
  openNotebook,
  runCell,
  Server,
  sessionOf,
  setTheme,
  test
} from '../fixtures/lab';

const ASKS = [
  'import urllib.request',
  'try:',
  '    urllib.request.urlopen("http://data.example/a.csv", timeout=20)',
  'except Exception as error:',
  '    print(type(error).__name__, getattr(error, "code", ""))'
].join('\n');

// Whoever runs this server forbids some hosts.
test.use({
  serve: {
    jupyter: [`--RepriseAgent.policy_file=${path.join(__dirname, 'environments.policy.yaml')}`]
  }
});

async function environment(server: Server, name: string, said: object): Promise<void> {
  const folder = path.join(server.home, 'environments');
  await fs.mkdir(folder, { recursive: true, mode: 0o700 });
  await fs.writeFile(path.join(folder, `${name}.json`), JSON.stringify(said));
}

test.beforeEach(async ({ server }) => {
  await environment(server, 'stats', { variables: { WHERE: 'stats' } });
  await environment(server, 'web', {
    variables: { WHERE: 'web' },
    network: { allow: ['a.example', 'b.example:8443'] }
  });
});

function command(page: IJupyterLabPageFixture, id: string, args: object = {}): Promise<void> {
  return page.evaluate(([id, args]) => void (window as any).jupyterapp.commands.execute(id, args), [
    id,
    args
  ] as const);
}

/** Type into the last cell, and run it. */
async function type(page: IJupyterLabPageFixture, code: string): Promise<string> {
  const cell = page.locator('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell').last();
  await cell.locator('.cm-content').click();
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText(code);
  await page.keyboard.press('Control+Enter');
  await expect(cell.locator('.jp-InputPrompt')).toHaveText(/\[\d+\]:/);
  await kernelIdle(page);
  return (await cell.locator('.jp-OutputArea-output').last().innerText()).trim();
}

test('a notebook is made in an environment, by a card that says what it may reach', async ({
  page,
  server
}) => {
  await page.goto(`${server.url}/lab?reset`);
  const card = page.locator('.jp-LauncherCard', { hasText: 'stats · isolated, no network' });
  await expect(card).toBeVisible();
  await expect(
    page.locator('.jp-LauncherCard', { hasText: 'reaches a.example and 1 more' })
  ).toBeVisible();
  await expect(page.locator('.jp-LauncherCard', { hasText: 'More Environments' })).toBeVisible();
  await card.click();
  await kernelIdle(page);
  expect(await type(page, 'import os; os.environ["WHERE"]')).toBe("'stats'");
  // File > New has the same.
  await page.menu.open('File>New');
  await expect(
    page.getByRole('menuitem', { name: /Notebook in web \(isolated, reaches/ })
  ).toBeVisible();
  await page.menu.closeAll();
  // A new kernel of the notebook runs there, too: the session was chosen for, not the kernel.
  await page.evaluate(async () => {
    const panel = (window as any).jupyterapp.shell.currentWidget;
    await panel.context.save();
    await panel.sessionContext.shutdown();
    await panel.sessionContext.startKernel();
  });
  await kernelIdle(page);
  expect(await type(page, 'os.environ["WHERE"]')).toBe("'stats'");
});

test('a session goes on elsewhere, with its files, without its variables, where it is pressed', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 6; open("kept.txt", "w").write("as it was")', '']);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  const before = await sessionOf(server, `${name}.ipynb`);
  await command(page, 'reprise:change-environment');
  const dialog = page.locator('.jp-Dialog');
  await expect(dialog).toContainText(/New session with step \d+'s files, without variables\./);
  await accessible(page, '.jp-Reprise-environment-choice');
  // Enter on what has the focus cancels; nothing is chosen by accident.
  await page.keyboard.press('Enter');
  await expect(dialog).toHaveCount(0);

  await command(page, 'reprise:change-environment', { environment: 'web' });
  await dialog.getByRole('button', { name: 'New session' }).click();
  const frame = page.frameLocator('.jp-Reprise-decision-frame');
  await expect(frame.locator('body')).toContainText('may reach a.example, b.example:8443');
  await press(page, 'Allow');
  await expect
    .poll(async () => {
      const { sessions } = await server.api('GET', `sessions?notebook=${name}.ipynb`);
      return sessions.some((each: any) => each.parent === before);
    })
    .toBe(true);
  await expect
    .poll(async () => {
      const { sessions } = await server.api('GET', `sessions?notebook=${name}.ipynb`);
      const fork = sessions.find((each: any) => each.parent === before).id;
      return (await server.api('GET', `sessions/${fork}/environment`)).running?.environment;
    })
    .toBe('web');
  await kernelIdle(page);
  expect(
    await type(
      page,
      'import os; print(open("kept.txt").read(), "x" in globals(), os.environ["WHERE"])'
    )
  ).toBe('as it was False web');
});

test('a refused host is allowed for the session, pressed, and there after a start that loses nothing', async ({
  page,
  server,
  name
}) => {
  const session = (await server.api('POST', 'sessions', { environment: 'web' })).id;
  await server.notebook(`${name}.ipynb`, ['x = 6', ASKS, 'x']);
  const file = path.join(server.folder, `${name}.ipynb`);
  const notebook = JSON.parse(await fs.readFile(file, 'utf8'));
  notebook.metadata.reprise = { session };
  await fs.writeFile(file, JSON.stringify(notebook));
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  await command(page, 'reprise:open-network', { session });
  const tab = page.locator('.jp-Reprise-network');
  await expect(tab).toContainText('Nothing yet.');
  await page
    .locator('.lm-TabBar-tabLabel', { hasText: `${name}.ipynb` })
    .first()
    .click();
  await runCell(page, 1);
  await command(page, 'reprise:open-network', { session });
  // Live: nobody asked for it anew.
  await expect(tab).toContainText('Refused data.example:80: no rule allows it. Nothing was sent.');
  await expect(tab.locator('tbody tr')).toContainText(['data.example:80']);
  await accessible(page, '.jp-Reprise-network');

  await tab.getByRole('button', { name: 'Allow for session' }).first().click();
  await press(page, 'Do not');
  await expect(tab).toContainText('Refused data.example:80');
  await tab.getByRole('button', { name: 'Allow for session' }).first().click();
  await press(page, 'Allow');
  await expect(tab).toContainText('Allowed from the next start of its kernel on: data.example.');
  await expect(tab).not.toContainText('Refused data.example:80');
  await tab.getByRole('button', { name: 'Start again now' }).click();
  await expect
    .poll(async () => (await server.api('GET', `sessions/${session}/environment`)).running?.network)
    .toContain('data.example');
  await expect(tab).not.toContainText('Allowed from the next start');
  await page
    .locator('.lm-TabBar-tabLabel', { hasText: `${name}.ipynb` })
    .first()
    .click();
  await kernelIdle(page);
  const cell = await runCell(page, 2);
  await expect(cell.locator('.jp-OutputArea-output')).toHaveText('6');
  await runCell(page, 1);
  await command(page, 'reprise:open-network', { session });
  // It is allowed now, by that rule; that host is nowhere.
  await expect(tab.locator('tbody tr').first()).toContainText('not reached');
  await expect(tab.locator('tbody tr').first()).toContainText('data.example');
});

test('an environment says what it is; hosts are allowed by a press, and what is wrong is told', async ({
  page,
  server
}) => {
  await page.goto(`${server.url}/lab?reset`);
  await page.waitForFunction(() =>
    (window as any).jupyterapp?.commands.hasCommand('reprise:open-environment')
  );
  await command(page, 'reprise:open-environment', { environment: 'stats' });
  const tab = page.locator('.jp-Reprise-environment');
  await expect(tab).toContainText('Isolated (bubblewrap) · no network');
  await tab.getByPlaceholder('Find a package').fill('ipykernel');
  await expect(tab.locator('.jp-Reprise-environment-packages').first()).toContainText('ipykernel');
  const host = tab.getByLabel('Allow a host for all notebooks in it');
  await host.fill('http://c.example/');
  await page.keyboard.press('Enter');
  await expect(tab.getByRole('alert')).toContainText('is no HOST');
  await host.fill('c.example');
  await page.keyboard.press('Enter');
  await press(page, 'Allow');
  await expect(tab.getByRole('button', { name: 'Take back c.example' })).toBeVisible();
  await tab.getByRole('button', { name: 'Take back c.example' }).click();
  await expect(tab).toContainText('No network: its sandboxes have no interface');
  await accessible(page, '.jp-Reprise-environment');
  await page.mouse.move(0, 0);
  const mask = [tab.locator('.jp-Reprise-environment-packages'), tab.locator('dd')];
  await expect(tab).toHaveScreenshot('environment-light.png', { mask });
  await setTheme(page, 'JupyterLab Dark');
  await expect(tab).toHaveScreenshot('environment-dark.png', { mask });
  await accessible(page, '.jp-Reprise-environment');
  // One that is not there is said, not shown empty.
  await command(page, 'reprise:open-environment', { environment: 'gone' });
  await expect(page.locator('.jp-Reprise-environment').last().getByRole('alert')).toContainText(
    "no environment 'gone'"
  );
});

test('where a policy forbids a host, it says who and by which rule', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  await command(page, 'reprise:open-network');
  const tab = page.locator('.jp-Reprise-network');
  await tab.getByLabel('Allow a host for this session').fill('data.rival.example');
  await page.keyboard.press('Enter');
  await expect(tab).toContainText('This server forbids it (server/net).');
  await expect(tab).toContainText('Ask the data office.');
  await expect(page.locator('.jp-Reprise-decision-dialog')).toHaveCount(0);
});
