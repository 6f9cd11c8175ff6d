// The conversation beside the notebook: words and calls as they come, stopped, gone on with, undone, found again.

import { CHAT, openChat, say, turn } from '../fixtures/asking';
import { pastConversation } from '../fixtures/history';
import {
  accessible,
  dismissLost,
  expect,
  openNotebook,
  runCell,
  setTheme,
  test
} from '../fixtures/lab';

test('an answer streams in, is Markdown, and its code goes below the cell', async ({
  page,
  server,
  name
}) => {
  const remote: string[] = [];
  page.on('request', request => {
    if (!request.url().startsWith(server.url) && !request.url().startsWith('data:')) {
      remote.push(request.url());
    }
  });
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await server.script('recall', [
    {
      think: 'Class 1 may be rare.',
      say: [
        'Class 1 is **4 %** of rows.',
        '| class | rows |\n|---|---|\n| 1 | 40 |',
        '$$x = \\frac{1}{2}$$',
        '```python\nprint(6 * 7)\n```',
        '<img src=x onerror="document.title = \'owned\'"> ![far](https://a.example/x.png)',
        '[out](https://a.example) [in](javascript:alert(1)) <button data-commandlinker-command="terminal:create-new">Allow once</button>'
      ].join('\n\n'),
      hold: 'rest',
      after: 12
    }
  ]);
  await openNotebook(page, server, `${name}.ipynb`);
  const chat = await openChat(page);
  await expect(chat.getByText('What it does is a step: visible, undoable.')).toBeVisible();
  await expect(chat.getByRole('button', { name: 'Explain this notebook' })).toBeVisible();
  await say(page, 'Why is recall low?');
  // It comes while it is not whole.
  await expect(turn(page, 1)).toContainText('Why is recall low?');
  await expect(turn(page, 1).locator('.jp-Reprise-thinking')).toBeVisible();
  await server.go('rest');
  const answer = turn(page, 1).locator('.jp-Reprise-words');
  await expect(answer.locator('strong')).toHaveText('4 %');
  await expect(answer.locator('table')).toContainText('40');
  await expect(answer.locator('mjx-container, .katex, .MathJax')).not.toHaveCount(0);
  await expect(answer.locator('a[href="https://a.example"]')).toHaveAttribute('rel', /noopener/);
  expect(
    await answer
      .locator('img[src^="http"], button[data-commandlinker-command], a[href^="javascript"]')
      .count()
  ).toBe(0);
  await answer.getByRole('button', { name: 'Insert below' }).click();
  const cells = page.locator('.jp-Notebook .jp-CodeCell');
  await expect(cells).toHaveCount(2);
  await expect(cells.nth(1).locator('.cm-content')).toHaveText('print(6 * 7)');
  const marked = await page.evaluate(() =>
    (window as any).jupyterapp.shell.currentWidget.content.widgets[1].model.getMetadata(
      'reprise_edited_by'
    )
  );
  expect(marked).toBe('agent');
  expect(await page.title()).not.toBe('owned');
  expect(remote).toEqual([]);
});

test('calls are cards: reads fold, a command shows its lines as they come, a failed one stands open', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await server.script('look', [
    {
      calls: [
        { tool: 'read_notebook', input: {} },
        { tool: 'list_files', input: { path: '.' } }
      ]
    },
    { call: 'run_command', input: { command: 'for i in $(seq 1 30); do echo row $i; done' } },
    { call: 'run_command', input: { command: 'echo "\u001b[2K<b>no</b>"; exit 3' } },
    { say: 'Done.' }
  ]);
  await openNotebook(page, server, `${name}.ipynb`);
  await say(page, 'Please look.');
  const cards = turn(page, 1).locator('.jp-Reprise-card');
  await expect(cards.nth(0)).toContainText('Read the notebook, 1 listing');
  await cards.nth(0).getByRole('button').first().click();
  await expect(cards.nth(0).locator('.jp-Reprise-card')).toHaveCount(2);
  await cards.nth(0).getByRole('button').first().click();
  await expect(turn(page, 1)).toContainText('Done.');
  const [first, second] = [
    turn(page, 1).locator('.jp-Reprise-card', { hasText: 'seq 1 30' }),
    turn(page, 1).locator('.jp-Reprise-card', { hasText: 'exit 3' })
  ];
  // What was done well folds when the turn goes on; what failed stays open.
  await first.getByRole('button').first().click();
  // The newest twenty of them.
  await expect(first.locator('.jp-Reprise-output')).toContainText('row 30');
  await expect(first.locator('.jp-Reprise-output')).not.toContainText('row 10\n');
  await expect(second).toContainText('failed');
  await expect(second.locator('.jp-Reprise-output')).toContainText('exit code 3');
  // Shown to its last byte, and as text.
  await expect(second.locator('.jp-Reprise-input')).toContainText('\\x1b[2K<b>no</b>');
  await expect(second).toContainText('Allowed by default/run');
  await expect(second.getByRole('button', { name: /Open step \d+/ })).toBeVisible();
  await second.getByRole('button', { name: /Open step \d+/ }).click();
  await expect(page.locator('.jp-Reprise-Timeline').first()).toContainText(/Step \d+/);
});

test('a turn is stopped, goes on, is undone and said otherwise; a reload shows the same', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await server.script('sleep', [
    { call: 'run_command', input: { command: 'echo first > a.txt' } },
    { call: 'run_command', input: { command: 'echo going; sleep 600' } },
    { say: 'Went on.' }
  ]);
  await server.script('otherwise', [{ say: 'Said otherwise.' }]);
  await openNotebook(page, server, `${name}.ipynb`);
  await runCell(page, 0);
  await say(page, 'Please sleep.');
  await expect(turn(page, 1).locator('.jp-Reprise-output').last()).toHaveText('going');
  const chat = page.locator(CHAT);
  await chat.getByRole('button', { name: 'Stop' }).click();
  await expect(turn(page, 1)).toContainText(/Stopped after step \d+\./);
  await page.reload();
  await openChat(page);
  await expect(turn(page, 1)).toContainText(/Stopped after step \d+\./);
  await turn(page, 1).getByRole('button', { name: 'Continue' }).click();
  await expect(turn(page, 1)).toContainText('Went on.');
  await turn(page, 1).getByRole('button', { name: 'Edit and resend' }).click();
  const words = turn(page, 1).getByRole('textbox');
  await words.fill('Say it otherwise.');
  await words.press('Control+Enter');
  const dialog = page.locator('.jp-Dialog');
  await expect(dialog).toContainText('Undo turn 1 and say it anew?');
  await expect(dialog).toContainText(/Goes back to step \d+: cells, files, variables\./);
  await dialog.getByRole('button', { name: 'Undo and send' }).click();
  await expect(turn(page, 2)).toContainText('Said otherwise.');
  await expect(turn(page, 1)).toContainText('This turn was undone');
  const [session] = (await server.api('GET', 'conversations?limit=1')).conversations;
  const { files } = await server
    .api('GET', `sessions/${session.session}/files`)
    .catch((error: Error) => {
      // A session without a step has no files.
      expect(error.message).toMatch(/: (404|409|503) /);
      return { files: [] };
    });
  expect(JSON.stringify(files)).not.toContain('a.txt');
});

test('an overloaded model is waited for in sight; a failure says what to do', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await server.script('busy', [{ status: 529, message: 'Overloaded', retry_after: '600' }]);
  await server.script('broken', [{ status: 400, message: 'The request was wrong.' }]);
  await openNotebook(page, server, `${name}.ipynb`);
  await say(page, 'Are you busy?');
  await expect(turn(page, 1)).toContainText(/It is asked again in \d+ s \(attempt 2\)/);
  await turn(page, 1).getByRole('button', { name: 'Stop' }).click();
  await expect(turn(page, 1)).toContainText('Stopped.');
  await page.locator(CHAT).getByRole('button', { name: 'New conversation' }).click();
  await expect(turn(page, 1)).toHaveCount(0);
  await say(page, 'Is it broken?');
  await expect(turn(page, 1).getByRole('alert')).toContainText('The request was wrong.');
  await expect(turn(page, 1).getByRole('button', { name: 'Continue' })).toBeVisible();
});

test('the server goes and comes back: nothing is lost', async ({ page, server, name }) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await server.script('hello', [{ say: 'Hello.' }]);
  await server.script('again', [{ say: 'Hello again.' }]);
  await openNotebook(page, server, `${name}.ipynb`);
  await say(page, 'Say hello.');
  await expect(turn(page, 1)).toContainText('Hello.');
  const chat = page.locator(CHAT);
  // JupyterLab says it, too, sooner or later, in a dialog that keeps the focus.
  await dismissLost(page);
  await server.server('stop');
  await expect(chat).toContainText(/Connection lost\. What you see is as of/);
  await expect(turn(page, 1)).toContainText('Hello.');
  await server.server('start');
  await expect(chat).not.toContainText('Connection lost');
  await say(page, 'Say it again.');
  await expect(turn(page, 2)).toContainText('Hello again.');
});

test('a conversation of a hundred turns mounts the newest thirty, follows its end, and is found by its words', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await openNotebook(page, server, `${name}.ipynb`);
  const session = (await server.api('GET', `sessions?notebook=${name}.ipynb`)).sessions[0].id;
  const id = await pastConversation(
    server,
    { session, notebook: `${name}.ipynb`, title: 'A long one' },
    Array.from({ length: 100 }, (_, at): [string, string] => [
      `number ${at + 1}`,
      'Noted.\n\n- as a list\n- of two'
    ])
  );
  await server.script('number', [{ say: 'Noted.\n\nAs a paragraph.' }]);
  await page.reload();
  const chat = await openChat(page);
  await expect(turn(page, 100)).toBeInViewport();
  await expect(chat.locator('[data-turn]')).toHaveCount(30);
  const log = chat.locator('.jp-Reprise-log');
  await log.hover();
  await page.mouse.wheel(0, -4000);
  await expect(chat.getByRole('button', { name: 'To the end' })).toBeVisible();
  await server.api('POST', `conversations/${id}/say`, { text: 'number 101' });
  await expect(chat.getByRole('button', { name: 'New below (1)' })).toBeVisible();
  await chat.getByRole('button', { name: 'New below (1)' }).click();
  await expect(turn(page, 101)).toBeInViewport();
  await log.evaluate(node => node.scrollTo(0, 0));
  await chat.getByRole('button', { name: /Show \d+ more turns/ }).click();
  await expect(chat.locator('[data-turn]')).toHaveCount(60);
  // The list: searched, renamed.
  await chat.getByRole('button', { name: 'Chats' }).click();
  await chat.getByPlaceholder('Search what was said').fill('number 17');
  const row = chat.locator('.jp-Reprise-chats-row');
  await expect(row).toHaveCount(1);
  await row.getByRole('button', { name: 'Rename' }).click();
  await page.locator('.jp-Dialog input').fill('Numbers');
  await page.keyboard.press('Enter');
  await expect(row).toContainText('Numbers');
  const download = page.waitForEvent('download');
  await row.getByRole('button', { name: 'Export' }).click();
  expect((await download).suggestedFilename()).toBe('Numbers.md');
  await accessible(page, CHAT);
});

test('looks as it should, in light and dark, and axe finds nothing', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await server.script('picture', [
    {
      say: 'I look at **both** files first.\n\n```python\nimport pandas as pd\n```\n\n- one\n- two',
      calls: [
        { tool: 'read_notebook', input: {} },
        { tool: 'list_files', input: { path: '.' } }
      ]
    },
    { call: 'run_command', input: { command: 'printf "a\\nb\\n"; exit 3' } },
    { say: 'That failed, so I stop.' }
  ]);
  await openNotebook(page, server, `${name}.ipynb`);
  await say(page, 'A picture, please.');
  await expect(turn(page, 1)).toContainText('so I stop.');
  await expect(turn(page, 1).getByRole('button', { name: 'Retry' })).toBeVisible();
  const chat = page.locator(CHAT);
  const masks = {
    mask: [
      chat.locator('time'),
      chat.locator('.jp-Reprise-card-end'),
      chat.locator('.jp-Reprise-chat-title')
    ]
  };
  for (const [theme, file] of [
    ['JupyterLab Light', 'chat-light.png'],
    ['JupyterLab Dark', 'chat-dark.png']
  ] as const) {
    await setTheme(page, theme);
    await accessible(page, CHAT);
    await expect(chat.locator('.jp-Reprise-log')).toHaveScreenshot(file, masks);
  }
});
