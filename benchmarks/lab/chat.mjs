// One round of benchmarks/lab/chat.py in a real page: typing, first paint, memory.

import { createRequire } from 'node:module';

const require = createRequire(new URL('../../labextension/ui-tests/package.json', import.meta.url));
const { chromium } = require('@playwright/test');

let input = '';
for await (const piece of process.stdin) {
  input += piece;
}
const { url, token, turns, fast, each } = JSON.parse(input);
const PATIENCE = 120_000;
const KEYS = 120;
const APART = 70;

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--enable-precise-memory-info']
});
const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
await context.request.get(`${url}/lab?token=${token}`);
await context.addInitScript(() => {
  // From the key to behind the frame that shows it.
  window.keys = [];
  window.addEventListener(
    'keydown',
    event => {
      const began = event.timeStamp;
      requestAnimationFrame(() => {
        const behind = new MessageChannel();
        behind.port1.onmessage = () => window.keys.push(performance.now() - began);
        behind.port2.postMessage(null);
      });
    },
    true
  );
});
const page = await context.newPage();
page.setDefaultTimeout(PATIENCE);
const cdp = await context.newCDPSession(page);

/** What a command answers may be a widget, which nothing can bring out of the page. */
const execute = (id, args) =>
  page.evaluate(
    ([id, args]) => window.jupyterapp.commands.execute(id, args).then(() => undefined),
    [id, args ?? {}]
  );

async function open(notebook) {
  await page.goto(`${url}/lab/tree/${notebook}?reset`);
  const began = Date.now();
  await page.locator('.jp-NotebookPanel .jp-Cell').first().waitFor();
  await page.waitForFunction(() => window.jupyterapp?.restored !== undefined);
  await page.evaluate(() => window.jupyterapp.restored.then(() => undefined));
  return Date.now() - began;
}

/** Until the page has done nothing long for a second. */
async function rest() {
  await page.waitForTimeout(3_000);
}

async function type(place) {
  await place.click();
  await page.keyboard.press('Control+End');
  await page.evaluate(() => (window.keys.length = 0));
  for (let n = 0; n < KEYS; n += 1) {
    await page.keyboard.press('abcdefgh '[n % 9] === ' ' ? 'Space' : 'abcdefgh'[n % 8]);
    await page.waitForTimeout(APART);
  }
  await page.waitForTimeout(500);
  return page.evaluate(() => window.keys.splice(0));
}

async function memory() {
  await cdp.send('HeapProfiler.collectGarbage');
  await page.waitForTimeout(500);
  await cdp.send('HeapProfiler.collectGarbage');
  const { usedSize } = await cdp.send('Runtime.getHeapUsage');
  const { nodes } = await cdp.send('Memory.getDOMCounters');
  return { heap: usedSize, nodes };
}

const composer = page.locator('.jp-Reprise-chat-composer textarea');
const newest = page.locator('.jp-Reprise-chat [data-turn]').last();

async function say(words) {
  await execute('reprise:open-chat');
  await composer.fill(words);
  await composer.press('Enter');
}

async function done(turn) {
  await page
    .locator(`.jp-Reprise-chat [data-turn="${turn}"]`)
    .getByRole('button', { name: 'Retry' })
    .waitFor();
}

// First paint, of a long conversation and of a long notebook.
const paint = {};
await open('chat.ipynb');
await page.waitForFunction(
  () => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'
);
await rest();
let began = Date.now();
await execute('reprise:open-chat');
await page.locator(`.jp-Reprise-chat [data-turn="${turns}"]`).getByText('Retry').waitFor();
paint.chat = Date.now() - began;
await rest();
began = Date.now();
await execute('docmanager:open', { path: 'long.ipynb' });
await page.locator('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell').nth(3).waitFor();
paint.notebook = Date.now() - began;

// Typing: JupyterLab itself, then beside an answer that comes.
const typing = {};
await open('stream.ipynb');
await page.waitForFunction(
  () => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'
);
await rest();
const before = await memory();
const cell = page.locator('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell .cm-content').first();
typing['cell, JupyterLab itself'] = await type(cell);
await execute('reprise:open-chat');
typing['composer, nothing comes'] = await type(composer);
await composer.fill('');
await say('stream slowly');
await newest.locator('.jp-Reprise-prose table').first().waitFor();
typing['cell, while an answer streams'] = await type(cell);
typing['composer, while an answer streams'] = await type(composer);
await composer.fill('');
await execute('reprise:stop-turn');
await newest.getByText(/Stopped/).waitFor();

// Memory, after as much as comes in an hour.
for (let n = 0; n < fast; n += 1) {
  await say('stream fast');
  await done(n + 2);
}
await rest();
const after = await memory();
await browser.close();
process.stdout.write(
  JSON.stringify({ typing, paint, memory: { before, after, characters: fast * each } })
);
