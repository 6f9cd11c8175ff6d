import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    environment: 'jsdom',
    include: ['test/**/*.test.{ts,tsx}'],
    setupFiles: ['test/setup.ts'],
    testTimeout: 60_000,
    // The first one may have to make the document of the API.
    hookTimeout: 60_000,
    // JupyterLab's packages are ES modules that do not say so, and import their style sheets.
    server: {
      deps: { inline: [/@jupyterlab\//, /@jupyter\//, /@lumino\//, /@rjsf\//, /@microsoft\//] }
    },
    pool: 'threads',
    maxWorkers: 2
  },
  css: { modules: { scopeBehaviour: 'local' } },
  assetsInclude: ['**/*.svg']
});
