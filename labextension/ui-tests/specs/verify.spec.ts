// A verify report: begun, joined, stopped, lost and found again; what differs is seen side by side.

import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import { promises as fs } from 'fs';

import {
  accessible,
  expect,
  openNotebook,
  runCell,
  Server,
  sessionOf,
  setTheme,
  test
} from '../fixtures/lab';

const HOSTILE = '<img src=x onerror="window.hacked = 1"> \u202eback';

/** Cells of which one comes out the same, one otherwise, one draws something else, one is volatile. */
const CELLS = [
  'print("as ever")\nopen("kept.csv", "w").write("a,b\\n" * 3)\n6 * 7',
  `import random\nnoise = [round(random.random(), 3) for _ in range(4)]\nprint(${JSON.stringify(HOSTILE)})\nprint("noise is", noise)\nprint("the end")`,
  [
    'import random, struct, zlib',
    'from IPython.display import Image, display',
    'def png(color, size=120):',
    '    rows = b"".join(b"\\0" + bytes(color) * size for _ in range(size))',
    '    def chunk(kind, data):',
    '        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))',
    '    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)',
    '    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")',
    'display(Image(png([random.randrange(256) for _ in range(3)])))'
  ].join('\n'),
  'print(object())'
];

async function ran(
  page: IJupyterLabPageFixture,
  server: Server,
  name: string,
  cells: string[]
): Promise<string> {
  await server.notebook(`${name}.ipynb`, cells);
  await openNotebook(page, server, `${name}.ipynb`);
  for (let index = 0; index < cells.length; index += 1) {
    await runCell(page, index);
  }
  return sessionOf(server, `${name}.ipynb`);
}

async function verify(page: IJupyterLabPageFixture, args: object = {}): Promise<void> {
  // In menus it can be pressed once the page knows which session its notebook has.
  await page.waitForFunction(
    said => (window as any).jupyterapp.commands.isEnabled('reprise:verify', said) as boolean,
    args
  );
  await page.evaluate(
    said => (window as any).jupyterapp.commands.execute('reprise:verify', said) as Promise<void>,
    args
  );
}

/** The row of a cell by what its first line says. */
function row(page: IJupyterLabPageFixture, text: string) {
  return page.locator('.jp-Reprise-verify-table tbody', {
    has: page.locator('.jp-Reprise-verify-title', { hasText: text })
  });
}

test('what came out otherwise stands first, both sides of it beside each other', async ({
  page,
  server,
  name
}) => {
  await ran(page, server, name, CELLS);
  await verify(page);
  const tab = page.locator('.jp-Reprise-verify');
  await expect(tab.locator('.jp-Reprise-verify-counts')).toHaveText(
    /^\d+ steps · \d+ same · 1 volatile · 2 different · 0 could not run$/
  );
  await expect(tab.locator('.jp-Reprise-verify-verdict').first()).toContainText('different');
  await expect(page.locator('.lm-TabBar-tabLabel', { hasText: `Verify · ${name}` })).toBeVisible();

  // Causes are named before anything is opened; a row opens by the keyboard alone.
  const noise = row(page, 'import random');
  await expect(noise.first()).toContainText('draws random values without a seed');
  const first = tab.locator('.jp-Reprise-verify-toggle').first();
  await first.focus();
  await page.keyboard.press('Enter');
  await expect(first).toHaveAttribute('aria-expanded', 'true');
  const sides = tab.locator('.jp-Reprise-diff .cm-content');
  await expect(sides).toHaveCount(2);
  await expect(sides.first()).toContainText('noise is');
  // Hostile text stands there as text, and what turns its direction is written out.
  await expect(sides.first()).toContainText('<img src=x onerror="window.hacked = 1"> \\u202eback');
  expect(await page.evaluate(() => (window as any).hacked)).toBeUndefined();

  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  const images = tab.locator('.jp-Reprise-images-beside img');
  await expect(images).toHaveCount(2);
  const [before, after] = await images.evaluateAll(all =>
    all.map(each => (each as HTMLImageElement).src)
  );
  expect(before).toMatch(/^data:image\/png;base64,/);
  expect(before).not.toBe(after);
  expect(await images.first().evaluate(each => (each as HTMLImageElement).naturalWidth)).toBe(120);

  // Volatile parts are marked, and shown.
  const volatile = row(page, 'print(object())');
  await volatile.locator('.jp-Reprise-verify-toggle').click();
  await expect(volatile.locator('.jp-Reprise-verify-volatile')).toContainText('address');
  await expect(volatile.locator('.cm-content').first()).toContainText('<object object at 0x');

  await accessible(page, '.jp-Reprise-verify');
  for (const theme of ['JupyterLab Dark', 'JupyterLab Dark High Contrast'] as const) {
    await setTheme(page, theme);
    await accessible(page, '.jp-Reprise-verify');
  }
});

test('it looks as it should', async ({ page, server, name }) => {
  await ran(page, server, name, [
    'x = 1\nprint("as ever")',
    'import os\nprint(os.urandom(4).hex())'
  ]);
  await verify(page);
  const tab = page.locator('.jp-Reprise-verify');
  await expect(tab.locator('.jp-Reprise-diff .cm-content')).toHaveCount(2);
  const mask = [
    tab.locator('.jp-Reprise-verify-time'),
    tab.locator('.jp-Reprise-verify-head > .jp-Reprise-secondary'),
    tab.locator('.jp-Reprise-diff-texts'),
    tab.locator('.jp-Reprise-verify-title')
  ];
  await page.mouse.move(0, 0);
  await expect(tab).toHaveScreenshot('verify-light.png', { mask });
  await setTheme(page, 'JupyterLab Dark');
  await expect(tab).toHaveScreenshot('verify-dark.png', { mask });
});

test('the report is saved as a page and as JSON', async ({ page, server, name }) => {
  const session = await ran(page, server, name, ['print("as ever")']);
  await verify(page);
  await expect(page.locator('.jp-Reprise-verify h2')).toContainText('showed what they had shown');
  const [html] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Save as HTML' }).click()
  ]);
  expect(html.suggestedFilename()).toBe(`${name} verified.html`);
  expect(await fs.readFile(await html.path(), 'utf8')).toContain('Content-Security-Policy');
  const [json] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Save as JSON' }).click()
  ]);
  expect(JSON.parse(await fs.readFile(await json.path(), 'utf8')).session).toBe(session);
});

// Galata's mocks ask the server for settings, which is away for a moment here.
test.describe('with the server coming and going', () => {
  test.use({ mockConfig: false, mockSettings: false, mockState: false, mockUser: false });

  test('one on its way is joined after a reload, stopped, and lost with its server', async ({
    page,
    server,
    name
  }) => {
    const session = await ran(page, server, name, [
      'import time\nprint("begun")',
      'time.sleep(2)\nprint("done")'
    ]);
    await verify(page, { session });
    const tab = page.locator('.jp-Reprise-verify');
    await expect(tab.getByRole('progressbar')).toBeVisible();
    await expect(tab).toContainText('Your notebook is not touched.');
    const jobs = await server.api('GET', `jobs?session=${session}&kind=verify`);
    expect(jobs.jobs).toHaveLength(1);

    // The page may be loaded anew: the tab finds the one that is on its way, or what came of it.
    await openNotebook(page, server, `${name}.ipynb`);
    await verify(page, { session, restored: true });
    await expect(tab.locator('.jp-Reprise-verify-counts')).toBeVisible();
    expect((await server.api('GET', `jobs?session=${session}&kind=verify`)).jobs).toHaveLength(1);

    await tab.getByRole('button', { name: 'Verify again' }).click();
    await tab.getByRole('button', { name: 'Stop' }).click();
    await expect(tab).toContainText(
      'Stopped. Its sandbox is gone, and your notebook was not touched.'
    );

    await tab.getByRole('button', { name: 'Verify again' }).click();
    await expect(tab).toContainText('Playing step');
    // JupyterLab says in a dialog of its own that its server is away.
    await page.addLocatorHandler(
      page.locator('.jp-Dialog', { hasText: 'Server Connection Error' }),
      dialog => dialog.getByRole('button', { name: 'Close' }).first().click()
    );
    await server.server('kill');
    await server.server('start');
    await expect(tab).toContainText('The report is not on the server any more');
    await tab.getByRole('button', { name: 'Verify again' }).click();
    await expect(tab.locator('.jp-Reprise-verify-counts')).toHaveText(/0 could not run/);
  });
});

test('a session of old is verified from a step on, with nothing open', async ({ page, server }) => {
  const session = (await server.api('POST', 'sessions', {})).id;
  for (const code of ['x = 1', 'print(x)', 'print(x + 1)']) {
    const job = await server.api('POST', `sessions/${session}/run`, { kind: 'cell', code });
    await expect
      .poll(
        async () => (await server.api('GET', `jobs/${job.id}?wait=5&version=${job.version}`)).state
      )
      .toBe('done');
  }
  await page.goto(`${server.url}/lab/tree?reset`);
  await page.waitForFunction(() =>
    (window as any).jupyterapp?.commands.hasCommand('reprise:verify')
  );
  await verify(page, { session, from: 1 });
  const tab = page.locator('.jp-Reprise-verify');
  await expect(tab.locator('.jp-Reprise-verify-counts')).toHaveText(/^2 steps · 2 same/);
  await expect(tab).toContainText('From step 1 on');
  // What was recorded since is said, not hidden.
  const job = await server.api('POST', `sessions/${session}/run`, { kind: 'cell', code: 'x' });
  await server.api('GET', `jobs/${job.id}?wait=20&version=${job.version}`);
  await expect(tab).toContainText('1 step came since, and is not in this report.');
  // A session that is not there is said in words, with what to do.
  await verify(page, { session: '00000000-0000-4000-8000-000000000000' });
  await expect(page.locator('.jp-Reprise-verify').last().getByRole('alert')).toBeVisible();
});
