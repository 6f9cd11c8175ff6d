// Notes at cells come from the log and survive a reload; static outputs are attacked and run nothing.

import { promises as fs } from 'fs';
import * as path from 'path';

import type { Request } from '@playwright/test';

import { notebookOf, pastSession } from '../fixtures/history';
import { accessible, expect, openNotebook, runCell, setTheme, test } from '../fixtures/lab';

const cellAt = (page: any, index: number) =>
  page.locator('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-CodeCell').nth(index);

/** Run a cell whose end is none of the usual. */
async function send(page: any, index: number): Promise<void> {
  await cellAt(page, index).locator('.cm-content').click();
  await page.keyboard.press('Control+Enter');
}

test('a rolled-back cell says why and what to do, after a reload too; its next run clears it', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, [
    'x = 41',
    'import os\nif x == 41:\n    x = 0\n    os.kill(os.getpid(), 9)',
    'x + 1'
  ]);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  await send(page, 1);
  const note = cellAt(page, 1).getByRole('note');
  await expect(note).toContainText(
    /Rolled back: killed \(signal 9\)\. State is as after step \d+; the next cell works\./
  );
  const next = await runCell(page, 2);
  await expect(next.locator('.jp-OutputArea-output')).toHaveText('42');

  await accessible(page, '.jp-Reprise-cellnote');
  await expect(note).toHaveScreenshot('rolled-back-light.png');
  await setTheme(page, 'JupyterLab Dark');
  await expect(note).toHaveScreenshot('rolled-back-dark.png');

  // D D on a focused button is no command of the notebook.
  await note.getByRole('button', { name: 'Run again' }).focus();
  await page.keyboard.press('d');
  await page.keyboard.press('d');
  await expect(cellAt(page, 1)).toContainText('os.kill');

  await note.getByRole('button', { name: /^Step \d+$/ }).click();
  await expect(page.locator('.jp-Reprise-Timeline')).toBeVisible();

  await page.evaluate(async () => {
    await (window as any).jupyterapp.commands.execute('docmanager:save');
  });
  await page.reload();
  await cellAt(page, 1).waitFor();
  await expect(note).toContainText('Rolled back: killed (signal 9).');
  await cellAt(page, 0).locator('.cm-content').fill('x = 1');
  await runCell(page, 0);
  await note.getByRole('button', { name: 'Run again' }).focus();
  await page.keyboard.press('Enter');
  await expect(note).toHaveCount(0);
});

test('each way of being cut short has its own words, from the log alone', async ({
  page,
  server,
  name
}) => {
  const session = await pastSession(server, [
    { code: 'x = 1', cell: 'cell-0' },
    {
      code: 'big()',
      cell: 'cell-1',
      status: 'died',
      cause: { what: 'memory', limit: 4 * 2 ** 30 }
    },
    { code: 'send()', cell: 'cell-2', status: 'lost' },
    { code: 'fit()', cell: 'cell-3', status: 'timeout', cause: { what: 'timeout', limit_s: 60 } },
    { code: 'gone()', cell: 'deleted', status: 'died' },
    { code: 'twice()', cell: 'cell-4', status: 'died', cause: { what: 'signal', signal: 11 } },
    { code: 'x = 2', cell: 'cell-4' }
  ]);
  await notebookOf(server, `${name}.ipynb`, session, ['x', 'big()', 'send()', 'fit()', 'x']);
  await openNotebook(page, server, `${name}.ipynb`);
  await expect(cellAt(page, 1).getByRole('note')).toContainText(
    'Rolled back: out of memory (4.0 GiB). State is as after step 0; the next cell works.'
  );
  await expect(cellAt(page, 2).getByRole('note')).toContainText(
    'We stopped before its end was recorded. State is as before. It may have acted outside, so it runs only if you ask.'
  );
  await expect(cellAt(page, 3).getByRole('note')).toContainText(
    'Stopped at its time limit (60 s). It was left out when the session came back: what it had done is gone.'
  );
  await expect(page.locator('.jp-Reprise-cellnote')).toHaveCount(3);
  // What it takes to have more is where limits are set.
  await cellAt(page, 1).getByRole('button', { name: 'Raise limit' }).click();
  await expect(page.locator('.jp-Reprise-environment')).toContainText('reprise env limit memory');
});

test('an interrupted cell says that its effects cannot be played again', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['import time\nprint("on")\ntime.sleep(600)']);
  await openNotebook(page, server, `${name}.ipynb`);
  await send(page, 0);
  await expect(cellAt(page, 0).locator('.jp-OutputArea-output').first()).toHaveText(/on/);
  await page.evaluate(async () => {
    await (window as any).jupyterapp.commands.execute('notebook:interrupt-kernel');
  });
  await expect(cellAt(page, 0).getByRole('note')).toContainText(
    'Interrupted. Its effects are here, but cannot be played again if the sandbox ends.'
  );
});

const EVIL = 'http://evil.example';
const ATTACK = `
<style>@import url(${EVIL}/import.css); h1 { background: url(${EVIL}/style.png); color: rgb(1, 2, 3); }</style>
<link rel="stylesheet" href="${EVIL}/link.css"><link rel="dns-prefetch" href="${EVIL}">
<meta http-equiv="refresh" content="0;url=${EVIL}/refresh">
<base href="${EVIL}/">
<h1 id="jp-main-dock-panel">Quarterly figures</h1>
<script>parent.pwned = 1; fetch('/api/terminals', {method: 'POST'})</script>
<img src="x" onerror="parent.pwned = 2"><img src="${EVIL}/image.png">
<svg onload="parent.pwned = 3"><a xlink:href="javascript:parent.pwned=4"><text y="9">svg</text></a></svg>
<iframe srcdoc="<script>top.pwned = 5</script>"></iframe><iframe src="${EVIL}/frame"></iframe>
<object data="${EVIL}/object"></object><embed src="${EVIL}/embed">
<form action="/api/terminals" method="post"><button>Send</button></form>
<video autoplay src="${EVIL}/video"></video>
<a href="javascript:parent.pwned=6">bad link</a> <a href="${EVIL}/good" ping="${EVIL}/ping">good link</a>
<a data-reprise-address="/lab/own">own address</a>
`;

test('what an agent’s output holds runs nothing, loads nothing and leads nowhere by itself', async ({
  page,
  server,
  name
}) => {
  const cells = [
    `from IPython.display import HTML\nHTML(${JSON.stringify(ATTACK)})`,
    'import pandas as pd\npd.DataFrame({"a": [1, 2]}).style.set_properties(**{"background-color": "rgb(4, 5, 6)"})',
    `from IPython.display import Javascript\nJavascript("window.pwned = 7")`
  ];
  await server.notebook(`${name}.ipynb`, cells);
  const file = path.join(server.folder, `${name}.ipynb`);
  const content = JSON.parse(await fs.readFile(file, 'utf8'));
  content.cells[0].metadata = { reprise_edited_by: 'agent' };
  await fs.writeFile(file, JSON.stringify(content));

  // What the policy of the frame stops is told as a request that failed of it; it never left.
  const asked: Request[] = [];
  page.on('request', request => {
    const url = request.url();
    if (url.startsWith(EVIL) || (url.includes('/api/terminals') && request.method() !== 'GET')) {
      asked.push(request);
    }
  });
  await openNotebook(page, server, `${name}.ipynb`);
  const attacked = await runCell(page, 0);
  const frame = attacked.locator('.jp-Reprise-frame iframe');
  await expect(frame).toHaveAttribute('sandbox', 'allow-same-origin');
  const inside = frame.contentFrame();
  await expect(inside.getByRole('heading')).toHaveText('Quarterly figures');
  // Its styles are there, which is what the frame is for.
  await expect(inside.getByRole('heading')).toHaveCSS('color', 'rgb(1, 2, 3)');
  for (const gone of [
    'script',
    'iframe',
    'object',
    'embed',
    'form',
    'link',
    'meta[http-equiv=refresh]',
    'base',
    '[onerror]',
    '[onload]',
    'a[href]'
  ]) {
    await expect(inside.locator(gone)).toHaveCount(0);
  }
  await expect(inside.locator('[data-reprise-address]')).toHaveText('good link');

  await expect(attacked.locator('.jp-Reprise-static')).toHaveText(
    'Scripts in this output are off: an agent made it.Why'
  );
  await accessible(page, '.jp-Reprise-static');
  await attacked.getByRole('button', { name: 'Why' }).click();
  await expect(page.getByRole('dialog')).toContainText('reprise env output default live');
  await page.getByRole('button', { name: 'Close', exact: true }).click();

  await inside.getByText('bad link').click();
  const [opened] = await Promise.all([
    page.context().waitForEvent('page'),
    inside.getByText('good link').click()
  ]);
  expect(await opened.evaluate(() => window.opener)).toBeNull();
  await opened.close();

  const styled = await runCell(page, 1);
  const table = styled.locator('.jp-Reprise-frame iframe').contentFrame();
  await expect(table.locator('td').first()).toHaveCSS('background-color', 'rgb(4, 5, 6)');
  await expect(styled.locator('.jp-Reprise-static')).toHaveCount(0);

  const script = await runCell(page, 2);
  await expect(script.locator('.jp-Reprise-static')).toHaveCount(1);
  await expect(script.locator('.jp-OutputArea-output')).toContainText('held back: JavaScript');

  expect(await page.evaluate(() => (window as any).pwned)).toBeUndefined();
  const left = asked.filter(each => each.failure()?.errorText !== 'csp');
  expect(left.map(each => each.url()).filter(url => !url.endsWith('/good'))).toEqual([]);
});
