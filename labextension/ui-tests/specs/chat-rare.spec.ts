// What a conversation shows now and then: another agent's work, a full context; and the sound of a question.

import { CHAT, COMMANDS, FRAME, openChat, say, setPolicy, turn } from '../fixtures/asking';
import { otherAgent } from '../fixtures/history';
import { accessible, expect, openNotebook, runCell, sessionOf, test } from '../fixtures/lab';

test('another agent’s work shows as it comes, is told apart, and nobody here goes on with it', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 41', 'y']);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  const other = await otherAgent(
    server,
    await sessionOf(server, `${name}.ipynb`),
    'probe<b>\u202e'
  );
  try {
    const begun = await other.call('run_cell', { code: 'y = x + 1\ny' });
    expect(begun.error, begun.text).toBe(false);
    await page.evaluate(() =>
      (window as any).jupyterapp.commands.execute('reprise:list-conversations')
    );
    const chat = page.locator(CHAT);
    await chat.getByRole('button', { name: /^MCP: probe<b>\ufffd/ }).click();
    await expect(chat).toContainText(
      /A conversation of probe<b>\ufffd, which works in this session/
    );
    await expect(turn(page).locator('.jp-Reprise-card')).toHaveCount(1);
    const input = chat.locator('.jp-Reprise-chat-composer textarea');
    await expect(input).toHaveAttribute('placeholder', 'probe<b>\ufffd speaks here. Read only.');
    await accessible(page, CHAT);
    // As it comes.
    await other.call('run_command', { command: 'echo it is live' });
    await expect(turn(page).locator('.jp-Reprise-card')).toHaveCount(2);
    await expect(input).toHaveJSProperty('readOnly', true);
    await expect(chat.getByRole('button', { name: 'Send', exact: true })).toBeDisabled();
  } finally {
    await other.end();
  }
  // Both are of one kernel.
  await expect((await runCell(page, 1)).locator('.jp-OutputArea-output')).toHaveText('42');
});

test('where the context was full, the summary is at hand, also after a reload', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await server.script('Write a summary that will stand in its place', [
    { say: `Sum ${name}: much.` }
  ]);
  await server.script(`Sum ${name}`, [{ say: 'It goes on from there.' }]);
  await server.script(`much ${name}`, [{ say: 'Too long', stop: 'model_context_window_exceeded' }]);
  await openNotebook(page, server, `${name}.ipynb`);
  await say(page, `much ${name}`);
  const chat = page.locator(CHAT);
  await expect(chat.getByText('It goes on from there.')).toBeVisible();
  const mark = chat.getByRole('button', { name: /The context was full/ });
  await expect(mark).toHaveAttribute('aria-expanded', 'false');
  await expect(chat.getByText(`Sum ${name}: much.`)).toHaveCount(0);
  await mark.press('Enter');
  await expect(chat.getByText(`Sum ${name}: much.`)).toBeVisible();
  await accessible(page, CHAT);
  await page.reload();
  await openChat(page);
  await expect(mark).toBeVisible();
  await expect(turn(page)).toContainText(`much ${name}`);
});

test('a question sounds where that was switched on, and nowhere else', async ({
  page,
  server,
  name
}) => {
  const chosen = async (raw: string): Promise<void> => {
    await page.evaluate(async text => {
      const { settings } = (window as any).jupyterapp.serviceManager;
      await settings.save('@jupyter-reprise/lab:plugin', text);
    }, raw);
  };
  await page.addInitScript(() => {
    const heard: string[] = [];
    (window as any).HEARD = heard;
    const { start } = OscillatorNode.prototype;
    OscillatorNode.prototype.start = function (this: OscillatorNode, when?: number) {
      heard.push(this.context.state);
      start.call(this, when);
    };
  });
  const heard = (): Promise<string[]> => page.evaluate(() => (window as any).HEARD);
  await setPolicy(server, COMMANDS);
  await server.script(`ask ${name}`, [
    { call: 'run_command', input: { command: 'true' } },
    { say: 'Done.' }
  ]);
  try {
    for (const sound of [false, true]) {
      await server.notebook(`${name}-${sound}.ipynb`, ['x = 1']);
      await openNotebook(page, server, `${name}-${sound}.ipynb`);
      await chosen(JSON.stringify({ sound }));
      await openNotebook(page, server, `${name}-${sound}.ipynb`);
      await say(page, `ask ${name}`);
      await expect(page.locator(FRAME)).toBeVisible();
      await expect.poll(heard).toEqual(sound ? ['running', 'running'] : []);
    }
  } finally {
    await chosen('{}');
    await setPolicy(server, 'rules: []\n');
  }
});
