// Nothing that the model, skills, files, outputs or steps say acts in the page. Without the page's policy, so that
// what keeps them is what draws them; security-policy.spec.ts has the second wall.

import type { Page } from '@playwright/test';
import { promises as fs } from 'fs';
import * as path from 'path';

import { expect, openNotebook, runCell, sessionOf, test } from '../fixtures/lab';
import { harmless, Outside, pressAll } from '../fixtures/outside';
import { add } from '../fixtures/skills';

test.use({ serve: { jupyter: ['--Reprise.page_policy=False'] } });

let outside: Outside;

test.beforeAll(async () => {
  outside = await Outside.listen();
});

test.afterAll(async () => {
  await outside.close();
});

function execute(page: Page, command: string, args: Record<string, unknown> = {}): Promise<void> {
  return page.evaluate(
    ([id, given]) => (window as any).jupyterapp.commands.execute(id, given).then(() => undefined),
    [command, args] as const
  );
}

/** Code that shows hostile outputs of every kind. */
function showing(html: string, markdown: string): string {
  return [
    'import json',
    'from IPython.display import HTML, Markdown, SVG, Javascript, display',
    `html, markdown = json.loads(${JSON.stringify(JSON.stringify([html, markdown]))})`,
    'display(HTML(html)); display(Markdown(markdown))',
    'display(Javascript("window.TAKEN = 1"))',
    'display(SVG(\'<svg xmlns="http://www.w3.org/2000/svg" onload="window.TAKEN=1" width="9" height="9"><rect width="9" height="9"/></svg>\'))',
    `display({"application/vnd.vegalite.v5+json": {"data": {"url": "${outside.url}/vega"}, "mark": "bar", "encoding": {}}, "text/plain": "a chart"}, raw=True)`,
    'display({"text/latex": r"$\\\\href{javascript:window.TAKEN=1}{x}$", "text/plain": "tex"}, raw=True)',
    'try:\n    import ipywidgets as w\n    display(w.HTML(html))\nexcept ImportError:\n    pass',
    'print("shown")'
  ].join('\n');
}

test('the attacks are real: where nothing draws them safely, they act', async ({
  page,
  server,
  name
}) => {
  const control = await Outside.listen();
  await server.notebook(`${name}.ipynb`, ['1']);
  await openNotebook(page, server, `${name}.ipynb`);
  await page.evaluate(html => {
    document.body.insertAdjacentHTML('beforeend', `<div id="raw">${html}</div>`);
  }, control.html('raw'));
  await expect.poll(() => page.evaluate(() => (window as any).TAKEN ?? null)).toBe('raw');
  for (const what of ['img', 'css', 'import', 'style', 'svg', 'frame']) {
    await expect.poll(() => control.asked).toContain(`GET /${what}-raw`);
  }
  await control.close();
  const headers = { Authorization: `token ${server.token}` };
  let terminals: { name: string }[] = [];
  await expect
    .poll(async () => {
      terminals = await (await fetch(`${server.url}/api/terminals`, { headers })).json();
      return terminals.length;
    })
    .toBeGreaterThan(0);
  for (const each of terminals) {
    await fetch(`${server.url}/api/terminals/${each.name}`, { method: 'DELETE', headers });
  }
});

test('what the model says and what its calls show act on nothing, and cover no question', async ({
  page,
  server,
  name
}) => {
  const notebook = `${name}.ipynb`;
  await server.notebook(notebook, ['1']);
  await fs.writeFile(
    path.join(server.folder, 'policy.yaml'),
    'rules:\n  - {name: commands, decision: ask, tool: run_command, why: "<b>why</b>"}\n'
  );
  expect((await server.run('policy', 'set', 'personal', 'policy.yaml')).code).toBe(0);
  await server.script('Attack me', [
    {
      think: outside.html('thought'),
      say: outside.markdown('said'),
      call: 'read_file',
      input: { path: `${outside.html('path')}.txt` }
    },
    {
      say: outside.markdown('again'),
      call: 'run_command',
      input: { command: `echo '${outside.html('command').replaceAll("'", '"')}'` }
    },
    { say: 'All told.' }
  ]);
  await openNotebook(page, server, notebook);
  await runCell(page, 0);
  await execute(page, 'reprise:open-chat');
  const input = page.getByLabel('Message to the agent');
  await input.fill(`Attack me ${outside.markdown('mine')}`);
  await input.press('Enter');
  const chat = page.locator('.jp-Reprise-chat');
  const frame = page.locator('.jp-Reprise-decision-frame').first();
  await expect(frame).toBeVisible();
  await expect(chat).toContainText('again');
  await harmless(page, server, outside);
  // The frame is what a press at its place would reach, all over it.
  const covered = await frame.evaluate(element => {
    const box = element.getBoundingClientRect();
    const missed = [];
    for (const x of [0.1, 0.3, 0.5, 0.7, 0.9]) {
      for (const y of [0.1, 0.3, 0.5, 0.7, 0.9]) {
        const hit = document.elementFromPoint(box.x + box.width * x, box.y + box.height * y);
        if (hit !== element) {
          missed.push(hit?.outerHTML.slice(0, 120));
        }
      }
    }
    return missed;
  });
  expect(covered).toEqual([]);
  // Exactly what would run stands in it, as text.
  await expect(
    page.frameLocator('.jp-Reprise-decision-frame').first().locator('body')
  ).toContainText('<script>window.TAKEN');
  const question = page.frameLocator('.jp-Reprise-decision-frame').first();
  await expect(async () => {
    await question
      .getByRole('button', { name: 'Allow once', exact: true })
      .click({ timeout: 5_000 });
    await expect(page.locator('.jp-Reprise-decision-frame')).toHaveCount(0, { timeout: 3_000 });
  }).toPass();
  await expect(chat).toContainText('All told.');
  for (const card of await chat.locator('[aria-expanded="false"]').all()) {
    await card.click({ timeout: 5_000 }).catch(() => undefined); // a fold may go as its turn ends
  }
  await pressAll(page, '.jp-Reprise-chat');
  await harmless(page, server, outside);
});

test('steps, files, past notebooks, comparisons and reports act on nothing', async ({
  page,
  server,
  name
}) => {
  const notebook = `${name}.ipynb`;
  const html = outside.html('output');
  await server.notebook(notebook, [
    showing(html, outside.markdown('output')),
    `open('<img src=x onerror=window.TAKEN=1>.txt', 'w').write(${JSON.stringify(outside.html('file'))})\nopen('a\\u202egnp.txt', 'w').close()`,
    `raise ValueError(${JSON.stringify(outside.html('error'))})`
  ]);
  // An agent wrote them, so what they show is static.
  const file = path.join(server.folder, notebook);
  const content = JSON.parse(await fs.readFile(file, 'utf8'));
  for (const cell of content.cells) {
    cell.metadata.reprise_edited_by = 'agent';
  }
  await fs.writeFile(file, JSON.stringify(content));
  await openNotebook(page, server, notebook);
  for (const index of [0, 1, 2]) {
    await runCell(page, index);
  }
  const session = await sessionOf(server, notebook);
  await harmless(page, server, outside);
  const { steps } = await server.api('GET', `sessions/${session}/steps?kind=cell`);
  const [shown, , failed] = steps.map((each: { seq: number }) => each.seq);

  await execute(page, 'reprise:open-timeline');
  const grid = page.getByRole('grid');
  await expect(grid).toContainText('ValueError');
  await execute(page, 'reprise:show-step', { session, step: shown });
  await execute(page, 'reprise:show-step', { session, step: failed });
  await pressAll(page, '#jp-left-stack');
  await harmless(page, server, outside);

  await execute(page, 'reprise:open-workspace');
  await expect(page.getByText('onerror=window.TAKEN=1').first()).toBeVisible();
  await harmless(page, server, outside);

  await execute(page, 'reprise:view-step', { session, step: failed });
  await expect(page.locator('[id^="jp-reprise-past-"]')).toContainText('shown');
  await pressAll(page, '[id^="jp-reprise-past-"]');
  await harmless(page, server, outside);

  await execute(page, 'reprise:compare', { session, left: shown, right: failed });
  const compare = page.locator('[id^="jp-reprise-compare"], .jp-Reprise-compare').first();
  await expect(compare).toContainText('ValueError');
  await pressAll(page, '.jp-Reprise-compare');
  await harmless(page, server, outside);

  await execute(page, 'reprise:verify', { session });
  await expect(page.locator('.jp-Reprise-verify').first()).toContainText(/same|different|volatile/);
  await pressAll(page, '.jp-Reprise-verify');
  await harmless(page, server, outside);
});

test('the texts and names of a skill act on nothing', async ({ page, server, name }) => {
  const skill = 'hostile-texts';
  await add(
    server,
    skill,
    outside.markdown('skill'),
    [
      { path: 'references/page.html', text: outside.html('reference') },
      { path: 'references/notes.md', text: outside.markdown('notes') },
      {
        path: 'assets/drawing.svg',
        text: `<svg xmlns="http://www.w3.org/2000/svg" onload="window.TAKEN=1">${outside.html('drawing')}</svg>`
      }
    ],
    `Counts. ${outside.html('description').replaceAll('"', "'").slice(0, 400)}`.replaceAll(
      /[<>:]/g,
      ' '
    )
  );
  await server.notebook(`${name}.ipynb`, ['1']);
  await openNotebook(page, server, `${name}.ipynb`);
  await execute(page, 'reprise:skills');
  await expect(page.locator('.jp-Reprise-skills, #reprise-skills').first()).toContainText(skill);
  await execute(page, 'reprise:open-skill', { skill });
  const tab = page.locator('.jp-Reprise-skill-tab:not(.lm-mod-hidden)');
  await expect(tab.locator('.jp-Reprise-skill-markdown')).toContainText('skill');
  await pressAll(page, '.jp-Reprise-skill-tab');
  await harmless(page, server, outside);
  for (const title of ['Files', 'Findings', 'Versions', 'Usage', 'Read']) {
    await tab.getByRole('tab', { name: new RegExp(`^${title}`) }).click();
    await expect(tab.getByRole('tabpanel').first()).toBeVisible();
    if (title === 'Files') {
      for (const named of ['page.html', 'notes.md', 'drawing.svg']) {
        await tab.getByText(named).first().click();
        await expect(tab).toContainText('TAKEN');
      }
    }
    await pressAll(page, '.jp-Reprise-skill-tab');
    await harmless(page, server, outside);
  }
});
