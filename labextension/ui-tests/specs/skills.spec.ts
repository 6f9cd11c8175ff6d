// Skills are browsed, read, judged, brought in and run; nothing in them acts in the page.

import type { Locator, Page } from '@playwright/test';
import { promises as fs } from 'fs';

import { press } from '../fixtures/decision';
import {
  accessible,
  dismissLost,
  expect,
  openNotebook,
  runCell,
  sessionOf,
  setTheme,
  test
} from '../fixtures/lab';
import { add, COUNT, skillMd, zip } from '../fixtures/skills';

const HOSTILE = `# Hi <script>window.hacked = 1</script>

<img src=x onerror="window.hacked = 2"> [press](javascript:window.hacked=3) [out](https://example.org/)

<a href="/lab" data-commandlinker-command="terminal:create-new">terminal</a>

![elsewhere](http://127.0.0.1:9/x.png) zero\u200bwidth \u202eturned
`;
const SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20" onload="parent.hacked=4"><script>parent.hacked=5</script><rect width="40" height="20" fill="teal"/></svg>';

function panel(page: Page): Locator {
  return page.locator('#jp-reprise-skills');
}

function search(page: Page): Locator {
  return panel(page).locator('input');
}

function tab(page: Page): Locator {
  return page.locator('.jp-Reprise-skill-tab:not(.lm-mod-hidden)');
}

async function openLab(page: Page, url: string): Promise<void> {
  await page.goto(`${url}/lab?reset`);
  // It comes last, and takes the focus.
  await page.locator('.jp-Launcher').waitFor();
  await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:skills'));
  await expect(panel(page)).toBeVisible();
}

async function openSkill(page: Page, args: Record<string, unknown>): Promise<Locator> {
  await page.evaluate(
    given => (window as any).jupyterapp.commands.execute('reprise:open-skill', given),
    args
  );
  await expect(tab(page).locator('.jp-Reprise-skill-head')).toBeVisible();
  return tab(page);
}

test('skills are found by scope, words and keyboard, and the list lives', async ({
  page,
  server,
  name
}) => {
  const found = `found-${name.toLowerCase()}`.replace(/[^a-z0-9]+/g, '-');
  await add(server, found, 'Untangles hydrographs.');
  await openLab(page, server.url);
  const list = panel(page).getByRole('listbox');
  await expect(list.getByRole('option', { name: new RegExp(found) })).toContainText('untrusted');
  await expect(list.getByRole('option', { name: /profile-dataset/ })).toContainText('trusted');

  // The search has the focus; the server looks into texts, too.
  await expect(async () => {
    // The lab that is just restored may give the focus to another part once more.
    await page.evaluate(() => (window as any).jupyterapp.commands.execute('reprise:skills'));
    await expect(search(page)).toBeFocused({ timeout: 2_000 });
  }).toPass();
  await page.keyboard.type('hydrographs');
  await expect(list.getByRole('option')).toHaveCount(1);
  await expect(list.getByRole('option')).toContainText(/~\d+/);
  const later = `${found}-later`;
  await add(server, later, 'Also about hydrographs.');
  await expect(list.getByRole('option')).toHaveCount(2);

  // Tab leads through the scopes to the list; arrows move, Enter opens.
  await page.keyboard.press('Tab');
  await expect(panel(page).getByRole('tab', { name: 'All' })).toBeFocused();
  await page.keyboard.press('Tab');
  await expect(list.getByRole('option').first()).toBeFocused();
  await page.keyboard.press('End');
  await expect(list.getByRole('option').last()).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(tab(page).getByRole('heading', { level: 2 })).toHaveText(/^found-/);

  await search(page).fill('no such words anywhere');
  await expect(panel(page)).toContainText('No skill fits "no such words anywhere".');
  await search(page).fill('');
  await panel(page).getByRole('tab', { name: 'Shipped' }).click();
  await expect(list.getByRole('option')).toHaveCount(5);
});

test('a hostile skill is text: nothing of it runs, loads or leads into the lab', async ({
  page,
  server
}) => {
  await add(
    server,
    'hostile',
    HOSTILE,
    [
      { path: 'assets/picture.svg', text: SVG },
      { path: 'b\u202edm.md', text: 'x' },
      { path: 'long.txt', text: 'line\n'.repeat(9_000) }
    ],
    '"<img src=x onerror=window.hacked=6> \\u202e turned"'
  );
  const asked: string[] = [];
  page.on('request', request => asked.push(request.url()));
  await openLab(page, server.url);
  const shown = await openSkill(page, { skill: 'hostile', view: 'read' });
  const body = shown.locator('.jp-Reprise-skill-markdown');
  await expect(body.getByRole('heading', { name: /^Hi/ })).toBeVisible();
  await expect(shown).toContainText('<img src=x onerror=window.hacked=6> \\u202e turned');
  await expect(shown).toContainText('It holds characters that nobody sees');
  await expect(body.locator('script, img[onerror], [data-commandlinker-command]')).toHaveCount(0);
  await body.getByText('press', { exact: true }).click();
  await body.getByText('terminal', { exact: true }).click();
  await expect(body.getByRole('link', { name: 'out' })).toHaveAttribute('rel', /noopener/);
  await expect(body.getByRole('link', { name: 'out' })).toHaveAttribute('target', '_blank');
  await shown.getByLabel('As it is written').check();
  await expect(shown.locator('.jp-Reprise-skill-source')).toContainText('zero\\u200bwidth');

  await shown.getByRole('tab', { name: /Files/ }).click();
  await expect(shown.getByRole('option', { name: 'b\\u202edm.md' })).toBeVisible();
  await shown.getByRole('option', { name: /picture\.svg/ }).click();
  await expect(shown.locator('.jp-Reprise-skill-preview img')).toHaveAttribute(
    'src',
    /^data:image\/svg\+xml;base64,/
  );
  await shown.getByRole('option', { name: /long\.txt/ }).click();
  await expect(shown).toContainText('2,000 of 9,001 lines.');

  expect(await page.evaluate(() => (window as any).hacked)).toBeUndefined();
  expect(asked.filter(each => !each.startsWith(server.url) && !each.startsWith('data:'))).toEqual(
    []
  );
  await expect(page.locator('.jp-Terminal')).toHaveCount(0);
});

test('trust is of exactly these files, pressed in the frame; a change asks again', async ({
  page,
  server
}) => {
  const script = { path: 'scripts/count.py', text: COUNT, executable: true };
  await add(server, 'weigh-up', 'One.', [script]);
  await openLab(page, server.url);
  const shown = await openSkill(page, { skill: 'weigh-up@1', scope: 'personal' });
  await shown.getByRole('button', { name: 'Trust…' }).click();
  const dialog = page.locator('.jp-Reprise-skill-dialog');
  await expect(dialog).toContainText('Trust weigh-up v1?');
  await expect(dialog).toContainText(/Exactly these 2 files, sha256 [0-9a-f]{8}…; 1 can run/);
  await expect(dialog).toContainText('Any change asks again.');
  await dialog.getByRole('button', { name: 'Trust v1' }).click();
  const frame = page.frameLocator('.jp-Reprise-decision-frame');
  await expect(frame.locator('body')).toContainText('personal:weigh-up@1');
  await expect(frame.locator('body')).toContainText('scripts/count.py');

  // No script of the page presses: what it sends is none of the frame's.
  await page.evaluate(() => {
    for (const nonce of ['', 'a'.repeat(43)]) {
      window.postMessage({ type: 'reprise-decision', decision: 'x', nonce, reason: null }, '*');
    }
  });
  expect((await server.api('GET', 'skills/weigh-up@1')).standing).toBe('untrusted');
  await press(page, 'Allow');
  await expect(shown.locator('.jp-Reprise-skill-titles')).toContainText('trusted');
  await expect(shown.locator('.jp-Reprise-skill-titles')).not.toContainText('untrusted');

  await add(server, 'weigh-up', 'Two.', [script]);
  await expect(shown).toContainText('This is v1. v2 is newer.');
  await shown.getByRole('button', { name: 'Show v2' }).click();
  await shown.getByRole('button', { name: 'Trust…' }).click();
  await expect(dialog).toContainText('Changed since v1: 1 file');
  await dialog.getByRole('button', { name: 'Diff' }).click();
  await expect(dialog).toHaveCount(0);
  await expect(shown.locator('.jp-Reprise-diff')).toContainText('1 added, 1 removed');

  // Doing without changes nothing.
  await shown.getByRole('button', { name: 'Trust…' }).click();
  await dialog.getByRole('button', { name: 'Trust v2' }).click();
  await press(page, 'Do not');
  expect((await server.api('GET', 'skills/weigh-up@2')).standing).toBe('untrusted');
});

test('a script runs in the notebook as a step; what was revoked runs no more', async ({
  page,
  server,
  name
}) => {
  await add(server, 'count-lines', 'Counts.', [
    { path: 'scripts/count.py', text: COUNT, executable: true }
  ]);
  await server.notebook(`${name}.ipynb`, ['open("a.txt", "w").write("x\\ny\\n")']);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  const session = await sessionOf(server, `${name}.ipynb`);
  const shown = await openSkill(page, { skill: 'count-lines@1', view: 'files' });
  await shown.getByRole('option', { name: /count\.py/ }).click();
  await expect(shown).toContainText('Nobody has approved it: only where there is no network');
  await shown.getByLabel('Arguments').fill("'a.txt");
  await expect(shown.getByRole('button', { name: 'Run as a step' })).toBeDisabled();
  await shown.getByLabel('Arguments').fill("'{workspace}/a.txt'");
  await shown.getByLabel('Arguments').press('Enter');
  await expect(shown.getByRole('region', { name: 'What it shows' })).toContainText('lines: 2');
  await expect(shown.locator('.jp-Reprise-skill-outcome')).toContainText('It ended');
  const { steps } = await server.api('GET', `sessions/${session}/steps`);
  expect(steps.map((each: any) => each.kind)).toContain('mount');

  await shown.getByRole('tab', { name: 'Usage' }).click();
  await expect(shown).toContainText(session);
  await shown.getByRole('button', { name: 'Revoke…' }).click();
  const dialog = page.locator('.jp-Reprise-skill-dialog');
  await expect(dialog).toContainText('No new mounts. 1 session used it; it goes on and is marked.');
  await dialog.getByLabel('Reason').fill('sends names away');
  await dialog.getByRole('button', { name: 'Revoke v1' }).click();
  await expect(shown.locator('.jp-Reprise-skill-titles')).toContainText('revoked');
  await shown.getByRole('tab', { name: /Files/ }).click();
  await shown.getByRole('option', { name: /count\.py/ }).click();
  await expect(shown).toContainText('It was revoked, so it is mounted and run nowhere any more.');
  await shown.getByRole('tab', { name: /Versions/ }).click();
  await shown.getByText('Who did what').click();
  await expect(shown.locator('.jp-Reprise-skill-history')).toContainText(
    'revoked: sends names away'
  );
});

test('several skills come in one archive or folder, each that does not with its reason', async ({
  page,
  server
}) => {
  const archive = await zip({
    'come-in/SKILL.md': skillMd('come-in', 'Welcome.'),
    'come-in/scripts/go.py': COUNT,
    'also-in/SKILL.md': skillMd('also-in', 'Welcome.'),
    'no-words/SKILL.md': '---\nname: no-words\n---\nText.\n',
    'bad-path/SKILL.md': skillMd('bad-path', 'x'),
    'bad-path/con.txt': 'a device'
  });
  await openLab(page, server.url);
  const bytes = (await fs.readFile(archive)).toString('base64');
  const drop = await page.evaluateHandle(data => {
    const transfer = new DataTransfer();
    const raw = Uint8Array.from(atob(data), each => each.charCodeAt(0));
    transfer.items.add(new File([raw], 'skills.zip'));
    return transfer;
  }, bytes);
  await panel(page)
    .locator('.jp-Reprise-skills-body')
    .dispatchEvent('drop', { dataTransfer: drop });
  const shown = tab(page);
  await expect(shown.getByRole('checkbox')).toHaveCount(2);
  await expect(shown).toContainText(/no-words: .*description/);
  await expect(shown).toContainText(/bad-path: .*con\.txt/);
  await shown.getByRole('checkbox', { name: /also-in/ }).uncheck();
  await shown.getByRole('button', { name: 'Add 1 skill' }).click();
  await expect(shown.getByRole('button', { name: 'come-in' })).toBeVisible();
  await expect(panel(page).getByRole('option', { name: /come-in/ })).toContainText('untrusted');
  await expect(panel(page).getByRole('option', { name: /also-in/ })).toHaveCount(0);

  await shown.getByRole('button', { name: 'Import more' }).click();
  await shown.getByLabel('Address').fill('ssh://example.org/skills.git');
  await expect(shown.getByRole('button', { name: 'Import from Git' })).toBeDisabled();
  await shown.getByLabel('Address').fill('https://127.0.0.1:9/team/skills.git');
  await shown.getByRole('button', { name: 'Import from Git' }).click();
  await expect(shown.getByRole('alert')).toContainText('127.0.0.1');

  // What is exported comes in as what it was.
  const exported = await openSkill(page, { skill: 'come-in' });
  const download = page.waitForEvent('download');
  await exported.getByRole('button', { name: 'Export' }).click();
  const file = await (await download).path();
  expect((await download).suggestedFilename()).toBe('come-in.zip');
  expect((await fs.readFile(file)).subarray(0, 2).toString()).toBe('PK');
});

test('what is shown stays while the server is away, and is as it is afterwards', async ({
  page,
  server
}) => {
  await add(server, 'stays', 'One.');
  await openLab(page, server.url);
  const shown = await openSkill(page, { skill: 'stays' });
  await expect(shown).toContainText('One.');
  await dismissLost(page);
  await server.server('stop');
  await panel(page).getByTitle('Look again').click();
  await expect(panel(page)).toContainText('Connection lost. What you see is as of');
  await expect(panel(page).getByRole('option', { name: /stays/ })).toBeVisible();
  await server.server('start');
  await add(server, 'stays', 'Two.');
  // The tab was opened by the name alone, which leads to the newest.
  await expect(shown).toContainText('Two.');
  await expect(shown.locator('.jp-Reprise-skill-titles')).toContainText('v2');
  await expect(panel(page)).not.toContainText('Connection lost');
});

test('it is accessible, and looks as it should', async ({ page, server }) => {
  const script = { path: 'scripts/count.py', text: COUNT, executable: true };
  const body = '# Look at it\n\n1. Run `scripts/count.py FILE`.\n2. Compare.\n';
  await add(server, 'quillwort', body, [script]);
  await add(server, 'quillwort', `${body}3. Mind the header.\n`, [script]);
  await openLab(page, server.url);
  await search(page).fill('quillwort');
  await expect(panel(page).getByRole('option')).toHaveCount(1);
  for (const theme of [
    'JupyterLab Light',
    'JupyterLab Dark',
    'JupyterLab Dark High Contrast'
  ] as const) {
    await setTheme(page, theme);
    for (const view of ['read', 'files', 'versions', 'findings', 'usage']) {
      const shown = await openSkill(page, { skill: 'quillwort@2', scope: 'personal', view });
      await expect(shown.locator(`.jp-Reprise-skill-view.jp-mod-${view}`)).toBeVisible();
      await expect(shown.locator('.jp-Reprise-loading')).toHaveCount(0);
      if (theme === 'JupyterLab Light' || view === 'read') {
        await accessible(page, '#jp-reprise-skills', '.jp-Reprise-skill-tab');
      }
    }
    if (theme !== 'JupyterLab Dark High Contrast') {
      const shown = await openSkill(page, {
        skill: 'quillwort@2',
        scope: 'personal',
        view: 'files'
      });
      await shown.getByRole('option', { name: /count\.py/ }).click();
      await page.mouse.move(640, 790);
      await expect(page.locator('#jp-reprise-skills')).toHaveScreenshot(
        `panel-${theme.split(' ').pop()?.toLowerCase()}.png`
      );
      await expect(shown).toHaveScreenshot(`files-${theme.split(' ').pop()?.toLowerCase()}.png`, {
        mask: [shown.locator('.jp-Reprise-skill-head .jp-Reprise-secondary')]
      });
    }
  }
});
