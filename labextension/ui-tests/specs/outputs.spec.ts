// What cells show while no page is there stands in the notebook afterwards: in its cell, once.

import {
  cellAt,
  ended,
  expectTicks,
  interrupt,
  isDirty,
  lastCell,
  logged,
  outputAt,
  outputsOf,
  promptAt,
  reopen,
  save,
  start,
  TICKING
} from '../fixtures/cells';
import { expect, kernelIdle, openNotebook, runCell, sessionOf, test } from '../fixtures/lab';

test('a page that is loaded again in mid-run shows what came meanwhile and goes on to the end', async ({
  page,
  server,
  name
}) => {
  const notebook = `${name}.ipynb`;
  await server.notebook(notebook, [TICKING, '6 * 7']);
  await openNotebook(page, server, notebook);
  await start(page, 0);
  await expect(outputAt(page, 0)).toContainText('tick 3');
  await save(page);
  const session = await sessionOf(server, notebook);
  await page.close({ runBeforeUnload: false });
  await logged(server, session, await lastCell(server, session), 'tick 12');

  page = (await page.context().newPage()) as never;
  await reopen(page, server, notebook);
  await expect(promptAt(page, 0)).toHaveText('[*]:');
  await expect(outputAt(page, 0)).toContainText('tick 12');
  await interrupt(server, notebook);
  await expect(promptAt(page, 0)).toHaveText('[1]:');
  expectTicks(await outputsOf(page, 0), 'KeyboardInterrupt');
  // The kernel is the page's as ever, and the notebook says up to where it shows the session.
  await kernelIdle(page);
  await runCell(page, 1);
  await save(page);
  const saved = JSON.parse(
    await (await import('fs')).promises.readFile(`${server.folder}/${notebook}`, 'utf8')
  );
  const steps = (await server.api('GET', `sessions/${session}`)).steps;
  expect(saved.metadata.reprise).toMatchObject({ session, step: steps - 1 });
  expect(saved.cells[0].metadata.reprise).toBeUndefined();
});

test('whatever a cell shows stands as if a page had been there', async ({ page, server, name }) => {
  const notebook = `${name}.ipynb`;
  const code = [
    'import sys, time',
    'from IPython.display import HTML, clear_output, display',
    'from threading import Thread',
    'print("gone")',
    'clear_output(wait=True)',
    'for n in range(5):',
    '    print(f"\\r{n * 25} %", end="", flush=True)',
    '    time.sleep(0.1)',
    'print()',
    'print("to stderr", file=sys.stderr, flush=True)',
    'handle = display(HTML("<b>old</b>"), display_id=True)',
    'time.sleep(GO)',
    'handle.update(HTML("<b>new</b>"))',
    '[1 / 0]'
  ].join('\n');
  const late = [
    'def later():',
    '    time.sleep(GO)',
    '    print("from a thread")',
    '    again = handle.update(HTML("<b>newest</b>"))',
    'Thread(target=later).start()',
    '42'
  ].join('\n');
  await server.notebook(notebook, ['GO = 1', code, late, 'GO = 3']);
  await openNotebook(page, server, notebook);
  await runCell(page, 0);
  await runCell(page, 1);
  await runCell(page, 2);
  await expect(outputAt(page, 2)).toContainText('from a thread');
  await expect(outputAt(page, 1)).toContainText('newest');
  const live = [await outputsOf(page, 1), await outputsOf(page, 2)];
  await runCell(page, 3);
  await save(page);
  const session = await sessionOf(server, notebook);
  const before = await lastCell(server, session);
  // Now with nobody there: the first while it runs, the second when only its thread still does.
  await start(page, 1);
  await expect(promptAt(page, 1)).toHaveText('[*]:');
  await page.close({ runBeforeUnload: false });
  await ended(server, session, before + 1);
  page = (await page.context().newPage()) as never;
  await reopen(page, server, notebook);
  await expect(promptAt(page, 1)).toHaveText('[5]:');
  await kernelIdle(page);
  await start(page, 2);
  await expect(promptAt(page, 2)).toHaveText('[6]:'); // it had a number before
  await save(page);
  const seq = await lastCell(server, session);
  await page.close({ runBeforeUnload: false });
  await logged(server, session, seq, 'from a thread');
  page = (await page.context().newPage()) as never;
  await reopen(page, server, notebook);
  await expect(outputAt(page, 2)).toContainText('from a thread');
  await expect(outputAt(page, 1)).toContainText('newest');
  const without = (outputs: any[]) =>
    outputs.map(({ execution_count: _, traceback: __, ...each }) => each);
  expect(without(await outputsOf(page, 1))).toEqual(without(live[0]));
  expect(without(await outputsOf(page, 2))).toEqual(without(live[1]));
});

test('a cell that asked while nobody was there is answered by who comes, by keyboard', async ({
  page,
  server,
  name
}) => {
  const notebook = `${name}.ipynb`;
  await server.notebook(notebook, [
    'import time\ntime.sleep(3)\nwho = input("Who is there?")\nprint(f"<{who}>")'
  ]);
  await openNotebook(page, server, notebook);
  await start(page, 0);
  await expect(promptAt(page, 0)).toHaveText('[*]:');
  await save(page);
  const session = await sessionOf(server, notebook);
  const context = page.context();
  await page.close({ runBeforeUnload: false });
  const seq = await lastCell(server, session);
  await expect(async () => {
    const { question } = await server.api('GET', `sessions/${session}/steps/${seq}/shown`);
    expect(question).toEqual({ prompt: 'Who is there?', password: false });
  }).toPass();
  // Two pages, both are asked; the first answer counts, and the other question goes.
  const one = await context.newPage();
  const two = await context.newPage();
  for (const each of [one, two]) {
    await reopen(each, server, notebook);
    await expect(cellAt(each, 0).locator('.jp-Stdin-prompt')).toHaveText(/Who is there\?/);
  }
  const input = cellAt(one, 0).locator('.jp-Stdin-input');
  await input.focus();
  await one.keyboard.type('<b>Ada</b>');
  await one.keyboard.press('Enter');
  for (const each of [one, two]) {
    await expect(outputAt(each, 0)).toContainText('<<b>Ada</b>>');
    await expect(promptAt(each, 0)).toHaveText('[1]:');
    await expect(cellAt(each, 0).locator('.jp-Stdin')).toHaveCount(0);
    await expect(outputAt(each, 0).locator('b')).toHaveCount(0);
  }
  await one.close();
  await two.close();
});

test('outputs that were cleared stay cleared, an edited cell its source, a moved notebook its outputs', async ({
  page,
  server,
  name
}) => {
  const notebook = `${name}.ipynb`;
  await server.notebook(notebook, ['"first"', '"second"', '"third"']);
  await openNotebook(page, server, notebook);
  await runCell(page, 0);
  await runCell(page, 1);
  // Clear the first; edit the second.
  await cellAt(page, 0).locator('.jp-InputPrompt').click();
  await page.evaluate(() =>
    (window as any).jupyterapp.commands.execute('notebook:clear-cell-output')
  );
  await expect(outputAt(page, 0)).not.toContainText('first');
  await cellAt(page, 1).locator('.cm-content').click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('  # edited');
  await save(page);
  // Renamed, and the third run with nobody there.
  const renamed = `${name}-moved.ipynb`;
  await page.evaluate(
    ([from, to]) => (window as any).jupyterapp.serviceManager.contents.rename(from, to),
    [notebook, renamed]
  );
  await expect(page.locator('.lm-TabBar-tab.jp-mod-current')).toContainText(renamed);
  const session = await sessionOf(server, notebook);
  const before = await lastCell(server, session);
  await save(page);
  await start(page, 2);
  await expect(promptAt(page, 2)).not.toHaveText('[ ]:'); // it was sent
  await page.close({ runBeforeUnload: false });
  await ended(server, session, before + 1);
  page = (await page.context().newPage()) as never;
  await reopen(page, server, renamed);
  await expect(outputAt(page, 2)).toContainText('third');
  await expect(promptAt(page, 0)).toHaveText('[ ]:');
  expect(await outputsOf(page, 0)).toEqual([]);
  await expect(cellAt(page, 1).locator('.cm-content')).toHaveText('"second"  # edited');
  await expect(outputAt(page, 1)).toContainText('second');
  // Looked at only, it has nothing to save.
  await save(page);
  await page.close({ runBeforeUnload: false });
  page = (await page.context().newPage()) as never;
  await reopen(page, server, renamed);
  await kernelIdle(page);
  expect(await isDirty(page)).toBe(false);
});

test('two tabs: both show it, one has something to save, and it stands there once', async ({
  page,
  server,
  name
}) => {
  const notebook = `${name}.ipynb`;
  await server.notebook(notebook, [TICKING]);
  await openNotebook(page, server, notebook);
  await start(page, 0);
  await expect(outputAt(page, 0)).toContainText('tick 1');
  await save(page);
  // Another tab, while the first shows it; then the first goes.
  const other = await page.context().newPage();
  await reopen(other, server, notebook);
  await expect(outputAt(other, 0)).toContainText('tick 6');
  await expect(promptAt(other, 0)).toHaveText('[*]:');
  expect(await isDirty(other)).toBe(false);
  await page.close({ runBeforeUnload: false });
  const at = (await outputsOf(other, 0))[0].text.trimEnd().split('\n').length;
  await expect(outputAt(other, 0)).toContainText(`tick ${at + 4}`);
  await interrupt(server, notebook);
  await expect(promptAt(other, 0)).toHaveText('[1]:');
  expectTicks(await outputsOf(other, 0), 'KeyboardInterrupt');
  await other.close();
});

test('a sandbox that dies with nobody there: the cell says so, and what it had printed stays', async ({
  page,
  server,
  name
}) => {
  const notebook = `${name}.ipynb`;
  await server.notebook(notebook, ['x = 41', TICKING, 'x + 1']);
  await openNotebook(page, server, notebook);
  await runCell(page, 0);
  await start(page, 1);
  await expect(outputAt(page, 1)).toContainText('tick 1');
  await save(page);
  const session = await sessionOf(server, notebook);
  const seq = await lastCell(server, session);
  await page.close({ runBeforeUnload: false });
  await logged(server, session, seq, 'tick 4');
  await server.killSandbox(session);
  await ended(server, session, seq);
  page = (await page.context().newPage()) as never;
  await reopen(page, server, notebook);
  await expect(outputAt(page, 1)).toContainText('tick 4');
  await expect(outputAt(page, 1)).toContainText('SandboxDied');
  await expect(promptAt(page, 1)).not.toHaveText('[*]:');
  expectTicks(await outputsOf(page, 1), 'SandboxDied');
  await kernelIdle(page);
  const cell = await runCell(page, 2);
  await expect(cell.locator('.jp-OutputArea-output')).toHaveText('42');
});
