// How the specs run: Chromium as Debian has it, one real lab for each worker.

import { defineConfig } from '@playwright/test';

/** What CI runs last, where its time allows: each is a feature that others do not build on. */
const LONG =
  /\/(approvals-late|chat-rare|compare|edits|edits-together|environments|no-key|notebook7|outputs|outputs-shared|policy|skill-acts|skill-editor|skill-promotion|start|verify)\.spec/;

export default defineConfig({
  testDir: 'specs',
  outputDir: 'results',
  // Starting a kernel takes seconds on a busy machine; nothing here measures time.
  timeout: 180_000,
  expect: {
    timeout: 60_000,
    // Fonts are the machine's; what has moved or lost its colour is more than this.
    toHaveScreenshot: { maxDiffPixelRatio: 0.02, animations: 'disabled' }
  },
  snapshotPathTemplate: '{testDir}/{testFileName}-snapshots/{arg}{ext}',
  projects: [
    { name: 'specs', testIgnore: [/screens\.spec/, LONG] },
    { name: 'long', testMatch: LONG },
    // What docs show is what a spec holds the lab to.
    {
      name: 'docs',
      testMatch: /screens\.spec/,
      snapshotPathTemplate: '{testDir}/../../../docs/images/{arg}{ext}'
    }
  ],
  fullyParallel: false,
  workers: Number(process.env.REPRISE_UI_WORKERS ?? 1),
  // A busy machine can make one fail that waits for something; CI names what needed it.
  retries: process.env.CI ? 1 : 0,
  forbidOnly: Boolean(process.env.CI),
  reporter: process.env.CI ? [['list']] : [['line']],
  use: {
    browserName: 'chromium',
    viewport: { width: 1280, height: 800 },
    actionTimeout: 60_000,
    navigationTimeout: 90_000,
    trace: 'off',
    screenshot: 'only-on-failure',
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking']
    }
  }
});
