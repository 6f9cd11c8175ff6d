// One round of benchmarks/lab/timeline.py in a real page: tasks over 50 ms, with and without our panel.

import { createRequire } from 'node:module';

const require = createRequire(new URL('../../labextension/ui-tests/package.json', import.meta.url));
const { chromium } = require('@playwright/test');

let input = '';
for await (const piece of process.stdin) {
  input += piece;
}
const { url, token, session, steps } = JSON.parse(input);

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox']
});
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
await context.request.get(`${url}/lab?token=${token}`);
await context.addInitScript(() => {
  window.tasks = [];
  new PerformanceObserver(list => {
    for (const entry of list.getEntries()) {
      window.tasks.push(Math.round(entry.duration));
    }
  }).observe({ type: 'longtask', buffered: true });
});
const page = await context.newPage();

/** What a phase of work costs: the tasks that the browser told of while it ran and came to rest. */
async function phase(name, work) {
  await settled();
  await page.evaluate(() => (window.tasks.length = 0));
  await work();
  await settled();
  return { name, tasks: await page.evaluate(() => window.tasks.splice(0)) };
}

/** Nothing long for a second, so that one phase does not pay for the one before. */
async function settled() {
  let quiet = 0;
  while (quiet < 4) {
    const before = await page.evaluate(() => window.tasks?.length ?? 0);
    await page.waitForTimeout(250);
    quiet = (await page.evaluate(() => window.tasks?.length ?? 0)) === before ? quiet + 1 : 0;
  }
}

async function wheel(selector, times, by) {
  const box = await page.locator(selector).first().boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  for (let n = 0; n < times; n++) {
    await page.mouse.wheel(0, by);
    await page.waitForTimeout(16);
  }
}

const execute = (id, args) =>
  page.evaluate(([id, args]) => window.jupyterapp.commands.execute(id, args), [id, args ?? {}]);

// JupyterLab itself: the file browser on the left, a long notebook in the middle.
const jupyterlab = [];
await page.goto(`${url}/lab/tree/long.ipynb?reset`);
await page.locator('.jp-NotebookPanel .jp-Cell').first().waitFor({ timeout: 60_000 });
await page.waitForFunction(() => window.jupyterapp?.restored !== undefined);
await settled();
jupyterlab.push({ name: 'load', tasks: await page.evaluate(() => window.tasks.splice(0)) });
jupyterlab.push(
  await phase('scroll a notebook', () => wheel('.jp-NotebookPanel .jp-WindowedPanel-outer', 120, 400))
);
jupyterlab.push(
  await phase('open a folder', async () => {
    await execute('filebrowser:activate');
    await execute('filebrowser:open-path', { path: 'files' });
    await page.locator('.jp-DirListing-item').nth(10).waitFor();
  })
);
jupyterlab.push(
  await phase('scroll the folder', () => wheel('.jp-DirListing-content', 120, 400))
);

// The Timeline in its place.
const timeline = [];
const grid = '.jp-Reprise-Timeline-grid';
const rows = `${grid} .jp-Reprise-Timeline-row`;
let first = 0;
let most = 0;
const counted = async () => {
  most = Math.max(most, await page.locator(rows).count());
};
const loaded = () => page.locator(`${rows}:not(.jp-mod-waiting)`).nth(5).waitFor();
timeline.push(
  await phase('open', async () => {
    const began = Date.now();
    await execute('reprise:open-timeline', { session });
    await loaded();
    first = Date.now() - began;
  })
);
const bottom = await page.locator('.jp-Reprise-Timeline-total').innerText();
if (!bottom.startsWith(steps.toLocaleString('en'))) {
  throw new Error(`the panel shows ${bottom}, not ${steps} steps`);
}
timeline.push(
  await phase('scroll', async () => {
    await wheel(grid, 240, 400);
    await counted();
    await loaded();
  })
);
timeline.push(
  await phase('jump', async () => {
    for (let n = 1; n <= 40; n++) {
      await page.evaluate(
        ([selector, part]) => {
          const box = document.querySelector(selector);
          box.scrollTop = part * box.scrollHeight;
        },
        [grid, ((n * 37) % 40) / 40]
      );
      await page.waitForTimeout(50);
      await counted();
    }
    await loaded();
  })
);
timeline.push(
  await phase('keys', async () => {
    await page.locator(rows).nth(12).click();
    for (let n = 0; n < 60; n++) {
      await page.keyboard.press('PageDown');
    }
    for (let n = 0; n < 120; n++) {
      await page.keyboard.press('ArrowUp');
    }
    await page.keyboard.press('End');
    await page.keyboard.press('Home');
    await loaded();
  })
);
timeline.push(
  await phase('search', async () => {
    await page.locator('.jp-Reprise-Timeline-search').pressSequentially('round 4', { delay: 80 });
    await page
      .locator('.jp-Reprise-Timeline-total')
      .filter({ hasText: /of/ })
      .waitFor({ timeout: 60_000 });
    await loaded();
    await wheel(grid, 60, 400);
  })
);
await browser.close();
process.stdout.write(
  JSON.stringify({ jupyterlab, timeline, first_ms: first, frames: { rows: most } })
);
