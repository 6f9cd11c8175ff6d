// A question that nobody answers ends by itself, and may be asked again.

import { expect, openNotebook, test } from '../fixtures/lab';
import { CHAT, COMMANDS, say, setPolicy, turn } from '../fixtures/asking';

test.use({ serve: { jupyter: ['--RepriseAgent.approval_patience=8'] } });

test.beforeEach(async ({ server }) => {
  await setPolicy(server, COMMANDS);
});

test('a question that is not answered in time is denied, and may be asked again', async ({
  page,
  server,
  name
}) => {
  await server.notebook(`${name}.ipynb`, ['x = 1']);
  await server.script('wait for it', [
    { call: 'run_command', input: { command: 'echo late' } },
    { say: 'Nobody answered.' }
  ]);
  await server.script('I did not answer in time', [{ say: 'I ask again.' }]);
  await openNotebook(page, server, `${name}.ipynb`);
  await say(page, 'Please wait for it.');
  const card = turn(page).locator('.jp-Reprise-card');
  await expect(card).toContainText('Not answered in time, so not run. The agent was told.');
  await expect(turn(page)).toContainText('Nobody answered.');
  await card.getByRole('button', { name: 'Ask me again' }).click();
  await expect(page.locator(`${CHAT} [data-turn="2"]`)).toContainText('I ask again.');
});
