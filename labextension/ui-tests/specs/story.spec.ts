// The story of the product, as its docs show it: run, ask, approve, kill, come back, fork, verify, undo.

import type { Page } from '@playwright/test';

import { expect, openNotebook, runCell, sessionOf, test } from '../fixtures/lab';
import { add } from '../fixtures/skills';

const SUMS = `#!/usr/bin/env python3
import csv, sys
totals = {}
for row in csv.DictReader(open(sys.argv[1])):
    totals[row["region"]] = totals.get(row["region"], 0) + int(row["amount"])
for region in sorted(totals):
    print(region, totals[region])
`;

/** What waits, pressed in its frame as a person presses it: it takes no press that comes too soon. */
async function press(page: Page, where: string, button: string): Promise<void> {
  await page.locator(`${where} .jp-Reprise-decision-frame`).waitFor();
  const frame = page.frameLocator(`${where} .jp-Reprise-decision-frame`);
  await expect(async () => {
    await frame.getByRole('button', { name: button, exact: true }).click({ timeout: 5_000 });
    await expect(page.locator(`${where} .jp-Reprise-decision-frame`)).toHaveCount(0, {
      timeout: 3_000
    });
  }).toPass();
}

function execute(page: Page, command: string, args: Record<string, unknown> = {}): Promise<void> {
  return page.evaluate(
    ([id, given]) => (window as any).jupyterapp.commands.execute(id, given).then(() => undefined),
    [command, args] as const
  );
}

test('a notebook is worked in with an agent, survives its sandbox, and can be gone back in', async ({
  page,
  server,
  name
}) => {
  // A whole story: many steps, three kernels.
  test.slow();
  const notebook = `${name}.ipynb`;
  const skill = 'sum-by-region';
  await server.notebook(notebook, [
    'from pathlib import Path\nPath("sales.csv").write_text("region,amount\\nnorth,3\\nsouth,4\\nnorth,5\\n")\nfactor = 10',
    'factor * 2'
  ]);
  await add(server, skill, 'Sums amounts by region. Run scripts/sums.py FILE.', [
    { path: 'scripts/sums.py', text: SUMS, executable: true }
  ]);
  await server.api('PUT', 'policies', {
    scope: 'personal',
    policy: [
      'rules:',
      '  - name: show-me-commands',
      '    decision: ask',
      '    tool: run_command',
      '    why: I want to see commands before they run.'
    ].join('\n')
  });

  await test.step('cells run, and their steps are in the timeline', async () => {
    await openNotebook(page, server, notebook);
    await runCell(page, 0);
    const second = await runCell(page, 1);
    await expect(second.locator('.jp-OutputArea-output')).toHaveText('20');
    await execute(page, 'reprise:open-timeline');
    await expect(page.getByRole('grid')).toContainText('factor * 2');
  });
  const session = await sessionOf(server, notebook);

  await test.step('a skill is read and trusted, exactly as it is', async () => {
    await execute(page, 'reprise:open-skill', { skill });
    const tab = page.locator('.jp-Reprise-skill-tab:not(.lm-mod-hidden)');
    await tab.getByRole('button', { name: /^Trust/ }).click();
    await page
      .getByRole('dialog')
      .getByRole('button', { name: /^Trust v1/ })
      .click();
    await press(page, '.jp-Reprise-decision-dialog', 'Allow');
    await expect(tab.locator('.jp-Reprise-skill-head')).toContainText('trusted');
    await tab.page().locator('.lm-TabBar-tab.lm-mod-current .lm-TabBar-tabCloseIcon').click();
  });

  await test.step('the agent runs its script, and asks before it runs a command', async () => {
    await server.script('Sum the sales', [
      { say: 'A skill fits. I load it.', call: 'load_skill', input: { skill } },
      {
        call: 'run_skill',
        input: { skill, script: 'sums.py', args: ['{workspace}/sales.csv'] }
      },
      { say: 'Now I count the lines.', call: 'run_command', input: { command: 'wc -l sales.csv' } },
      {
        say: 'I keep the sums in the notebook.',
        call: 'edit_notebook',
        input: {
          edits: [{ do: 'insert', type: 'code', source: 'sums = {"north": 8, "south": 4}\nsums' }]
        }
      },
      { say: 'North has **8**, south has **4**.' }
    ]);
    await execute(page, 'reprise:open-chat');
    await page.locator('.jp-Reprise-composer-input').first().click();
    await page.keyboard.type('Sum the sales by region.');
    await page.keyboard.press('Enter');
    const chat = page.locator('.jp-Reprise-chat');
    await expect(page.frameLocator('.jp-Reprise-decision-frame').locator('main')).toContainText(
      'wc -l sales.csv'
    );
    await press(page, '.jp-Reprise-pinned', 'Allow once');
    await expect(chat).toContainText('North has 8, south has 4.');
    const kinds = (await server.api('GET', `sessions/${session}/steps?actor=agent`)).steps.map(
      (each: { kind: string }) => each.kind
    );
    expect(kinds.slice(0, 3)).toEqual(['mount', 'command', 'command']);
    await expect(page.locator('.jp-Notebook')).toContainText('sums = {"north": 8, "south": 4}');
  });

  await test.step('the sandbox is killed, and comes back with what was in it', async () => {
    expect(await server.killSandbox(session)).toHaveLength(1);
    const second = page.locator('.jp-Notebook .jp-CodeCell').nth(1);
    await second.locator('.cm-content').click();
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.type('factor + len(open("sales.csv").readlines())');
    await page.keyboard.press('Control+Enter');
    await expect(second.locator('.jp-OutputArea-output')).toHaveText('14');
    await expect(page.locator('.jp-Reprise-status-button')).toContainText('Ready');
  });

  await test.step('the history forks at a step', async () => {
    const { steps } = await server.api('GET', `sessions/${session}/steps?kind=cell`);
    // It asks for a name, so the command goes on while we answer.
    const forked = execute(page, 'reprise:fork', { session, step: steps[1].seq });
    await page.locator('.jp-Dialog .jp-mod-accept').click();
    await forked;
    await expect
      .poll(async () => (await server.api('GET', `sessions/${session}/forks`)).forks.length)
      .toBe(1);
  });

  await test.step('all of it plays again and shows the same', async () => {
    await execute(page, 'reprise:verify', { session });
    const report = page.locator('.jp-Reprise-Verify, [class*="jp-Reprise-verify"]').first();
    await expect(report).toContainText('0 different');
    await expect(report).toContainText('0 could not run');
  });

  await test.step('the agent’s turn is undone: cells, files, variables', async () => {
    await execute(page, 'docmanager:open', { path: notebook });
    await execute(page, 'reprise:open-chat');
    await page.locator('.jp-Reprise-chat').getByRole('button', { name: 'Undo turn' }).click();
    await page.locator('.jp-Dialog .jp-mod-accept, .jp-Dialog .jp-mod-warn').last().click();
    await expect(
      page.locator('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook')
    ).not.toContainText('sums = {"north": 8');
    // Going back never destroys: the session that was left is there.
    const sessions = (await server.api('GET', `sessions?notebook=${notebook}`)).sessions;
    expect(sessions.length).toBeGreaterThan(1);
  });
});
