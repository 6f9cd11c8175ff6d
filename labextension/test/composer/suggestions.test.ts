// What is offered for a query: by kind, the named before the merely mentioned, and what is missing said.

import { YNotebook } from '@jupyter/ydoc';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import { nullTranslator } from '@jupyterlab/translation';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { ApiError, IApi } from '../../src/api/tokens';
import { cellItem, CellSource } from '../../src/composer/cells';
import { asText, FileSource } from '../../src/composer/files';
import {
  IFound,
  ISource,
  ISources,
  ISuggestion,
  suggestionsFor
} from '../../src/composer/suggestions';
import { givenIn, inspected, namesIn, VariableSource } from '../../src/composer/variables';

const trans = nullTranslator.load('reprise');

function panelOf(...sources: string[]): NotebookPanel {
  const sharedModel = YNotebook.create();
  sources.forEach((source, index) => {
    const cell = { cell_type: 'code', source, id: `id-${index}`, execution_count: 1 };
    sharedModel.addCell(cell);
  });
  return {
    model: { sharedModel },
    content: { activeCell: { model: { id: 'id-1' } } }
  } as unknown as NotebookPanel;
}

const none: ISource = { find: () => Promise.resolve([]) };

function source(group: ISuggestion['group'], ...labels: string[]): ISource {
  return {
    find: () =>
      Promise.resolve(
        labels.map(label => ({
          key: label,
          group,
          label,
          detail: 'speaks of rentals',
          instead: label,
          bring: null
        }))
      )
  };
}

/** A notebook whose kernel answers what it is asked when the test says so. */
function slowKernel() {
  const asked: string[] = [];
  const waiting = new Map<string, (matches: string[]) => void>();
  const kernel = {
    requestComplete: ({ code }: { code: string }) => {
      asked.push(code);
      return new Promise(resolve => {
        waiting.set(code, matches => resolve({ content: { status: 'ok', matches } }));
      });
    }
  };
  const panel = panelOf('rentals = 1');
  Object.assign(panel, { sessionContext: { session: { kernel } } });
  return {
    panel,
    asked,
    answer: (code: string, ...matches: string[]) => waiting.get(code)?.(matches)
  };
}

afterEach(() => {
  vi.useRealTimers();
});

function query(words: string, mark: '@' | '/' = '@'): Parameters<typeof suggestionsFor>[0] {
  return { mark, words, from: 0, to: words.length + 1 };
}

async function labels(sources: Partial<ISources>, words: string, mark: '@' | '/' = '@') {
  const all = { cells: none, variables: none, files: none, skills: none, ...sources };
  const told: IFound[] = [];
  await suggestionsFor(query(words, mark), all, new Set(['undo']), trans, found => {
    told.push(found);
  });
  expect(told.map(each => each.whole)).toEqual([...told.slice(1).map(() => false), true]);
  const found = told[told.length - 1];
  return {
    labels: found?.suggestions.map(each => each.label) ?? [],
    missing: found?.missing ?? []
  };
}

describe('suggestions', () => {
  it('are of the kind that is named first', async () => {
    const sources = {
      cells: source('cells', 'cell 1'),
      variables: source('variables', 'rentals'),
      files: source('files', 'data/rentals.csv')
    };
    expect((await labels(sources, 'renta')).labels).toEqual([
      'rentals',
      'data/rentals.csv',
      'cell 1'
    ]);
    expect((await labels(sources, '1')).labels[0]).toBe('cell 1');
    expect((await labels(sources, '')).labels[0]).toBe('cell 1');
  });

  it('say what could not be asked, and show the rest', async () => {
    const variables: ISource = { find: () => Promise.reject(new Error('The kernel is busy.')) };
    expect(await labels({ variables, cells: source('cells', 'cell 1') }, '')).toEqual({
      labels: ['cell 1'],
      missing: ['The kernel is busy.']
    });
  });

  it('are commands that can be done now, and skills behind /skill', async () => {
    expect((await labels({}, '', '/')).labels).toEqual(['skill', 'undo']);
    const skills = source('skills', 'profile-dataset');
    const all = { cells: none, variables: none, files: none, skills };
    const told: IFound[] = [];
    await suggestionsFor(query('skill prof', '/'), all, new Set(), trans, found => {
      told.push(found);
    });
    expect(told[0]?.suggestions[0]).toMatchObject({
      instead: '/skill profile-dataset',
      bring: null
    });
  });

  it('are told as each kind answers: one that is slow holds nothing up', async () => {
    let answer: (found: readonly ISuggestion[]) => void = () => undefined;
    const slow: ISource = {
      find: () =>
        new Promise(resolve => {
          answer = resolve;
        })
    };
    const told: IFound[] = [];
    const all = { cells: source('cells', 'cell 1'), variables: slow, files: none, skills: none };
    const asked = suggestionsFor(query(''), all, new Set(), trans, found => {
      told.push(found);
    });
    await new Promise(resolve => setTimeout(resolve));
    expect(told[told.length - 1]).toMatchObject({ whole: false });
    expect(told[told.length - 1]?.suggestions).toHaveLength(1);
    answer([]);
    await asked;
    expect(told[told.length - 1]).toMatchObject({ whole: true });
  });
});

describe('cells', () => {
  const panel = panelOf('import os', 'df = load()', '', 'x = 1');
  const cells = new CellSource(() => panel, trans);
  const found = async (words: string): Promise<string[]> =>
    (await cells.find(words)).map(each => each.label);

  it('are found by number and by first line, the one at hand first', async () => {
    expect(await found('')).toEqual(['cell 2', 'cell 1', 'cell 3', 'cell 4']);
    expect(await found('4')).toEqual(['cell 4']);
    expect(await found('cell3')).toEqual(['cell 3']);
    expect(await found('load')).toEqual(['cell 2']);
    expect(await new CellSource(() => null, trans).find('')).toEqual([]);
  });

  it('are brought as they are, and none that is gone', () => {
    expect(cellItem(panel, 'id-1', trans)).toMatchObject({
      kind: 'cell',
      name: 'id-1',
      title: 'cell 2 (code)',
      content: 'df = load()'
    });
    expect(cellItem(panel, 'gone', trans)).toBeNull();
  });
});

describe('variables', () => {
  it('are read from cells, the newest first', () => {
    expect(namesIn(['a = b.c', 'größe = a', 'x.y'])).toEqual(['x', 'größe', 'a', 'b']);
  });

  it('are what sources give values to, the newest first', () => {
    expect(
      givenIn([
        'import pandas as pd\nfrom os import path as p\ndef f(x):\n  y = x',
        'größe = pd.x\nn <- 3\na == b\nprint(größe)'
      ])
    ).toEqual(['größe', 'n', 'pd', 'p', 'f', 'y']);
  });

  it('are told without colours, and without what is said of their type', () => {
    const text =
      '\u001b[31mType:\u001b[39m        list\n\u001b[31mString form:\u001b[39m [1]\nDocstring:  \nBuilt-in.';
    expect(inspected(text)).toEqual({
      type: 'list',
      content: 'Type:        list\nString form: [1]'
    });
    expect(inspected('Signature: f()\nDocstring: does\nType: function').content).toContain('does');
  });

  it('are those of the notebook without a word, and never builtins or magics', async () => {
    const asked: string[] = [];
    const kernel = {
      requestComplete: ({ code }: { code: string }) => {
        asked.push(code);
        const matches =
          code === '__builtins__.'
            ? ['print', 'abs']
            : ['print', 'df', 'dfs', 'other', '%cd', '_hidden', 'exit'].filter(each =>
                each.startsWith(code)
              );
        return Promise.resolve({ content: { status: 'ok', matches } });
      },
      requestInspect: () => Promise.resolve({ content: { status: 'ok', found: false, data: {} } })
    };
    const panel = panelOf('df = 1', 'print(df)');
    Object.assign(panel, { sessionContext: { session: { kernel } } });
    const variables = new VariableSource(() => panel, trans);
    expect((await variables.find('')).map(each => each.label)).toEqual(['df']);
    expect((await variables.find('d')).map(each => each.label)).toEqual(['df', 'dfs']);
    expect(await variables.find('os.system')).toEqual([]);
    expect(asked).toEqual(['__builtins__.', 'd']);
    const [df] = await variables.find('df');
    await expect(df?.bring?.()).rejects.toThrow('knows no df');
  });

  it('are asked for by the newest words alone, one question after the other', async () => {
    const { panel, asked, answer } = slowKernel();
    const variables = new VariableSource(() => panel, trans);
    const first = variables.find('r');
    await expect.poll(() => asked).toEqual(['__builtins__.', 'r']);
    const all = [first, variables.find('re'), variables.find('ren')];
    answer('__builtins__.');
    answer('r', 'rentals');
    await expect.poll(() => asked).toEqual(['__builtins__.', 'r', 'ren']);
    answer('ren', 'rentals');
    expect((await Promise.all(all)).map(found => found.length)).toEqual([1, 0, 1]);
  });

  it('are shown when the kernel answers late, and that it is late is said until then', async () => {
    vi.useFakeTimers();
    const { panel, asked, answer } = slowKernel();
    const variables = new VariableSource(() => panel, trans);
    const told: IFound[] = [];
    const all = { cells: none, variables, files: none, skills: none };
    void suggestionsFor(query('ren'), all, new Set(), trans, found => {
      told.push(found);
    });
    await vi.advanceTimersByTimeAsync(9_000);
    expect(told.at(-1)).toMatchObject({ missing: [], whole: false });
    await vi.advanceTimersByTimeAsync(2_000);
    expect(told.at(-1)?.missing.join()).toContain('has not answered yet');
    expect(told.at(-1)?.whole).toBe(true);
    // Nor does it hold up what is asked next.
    void variables.find('rentals').catch(() => undefined);
    await vi.advanceTimersByTimeAsync(1);
    expect(asked).toEqual(['__builtins__.', 'ren', 'rentals']);
    answer('__builtins__.');
    answer('ren', 'rentals');
    await vi.advanceTimersByTimeAsync(1);
    expect(told.at(-1)).toMatchObject({ missing: [], whole: true });
    expect(told.at(-1)?.suggestions.map(each => each.label)).toEqual(['rentals']);
  });
});

describe('files', () => {
  const entry = (path: string, size: number, type = 'file'): object => ({ path, size, type });
  const bytes = (text: string): Response => new Response(text);

  function files(api: Partial<Record<'get' | 'fetch', unknown>>, session: string | null = 's') {
    const contents = {
      get: (path: string) =>
        Promise.resolve(
          path === 'a'
            ? { content: [{ name: 'own.csv', path: 'a/own.csv', type: 'file', size: 3 }] }
            : { content: btoa('x,y') }
        )
    };
    return new FileSource(
      api as unknown as IApi,
      contents as unknown as Contents.IManager,
      () => ({ session, path: 'a/n.ipynb' }),
      trans
    );
  }

  it('are those of the workspace, whose text is brought', async () => {
    const found = files({
      get: () =>
        Promise.resolve({ files: [entry('d', 0, 'dir'), entry('sum.csv', 4), entry('b.bin', 2)] }),
      fetch: (where: string) => Promise.resolve(bytes(where.endsWith('b.bin') ? '\u0000' : 'a,b'))
    });
    const all = await found.find('');
    expect(all.map(each => each.label)).toEqual(['sum.csv', 'b.bin']);
    expect(await all[0]?.bring?.()).toMatchObject({
      kind: 'file',
      name: 'sum.csv',
      title: 'sum.csv (4 B)',
      content: 'a,b'
    });
    expect((await all[1]?.bring?.())?.content).toBe('');
    expect(await found.find('4')).toEqual([]);
  });

  it('are named alone where they are large', async () => {
    const found = files({
      get: () => Promise.resolve({ files: [entry('big.csv', 3_000_000)] }),
      fetch: () => Promise.reject(new Error('not read'))
    });
    const [big] = await found.find('big');
    expect(await big?.bring?.()).toMatchObject({ content: '', title: 'big.csv (3.0 MB)' });
  });

  it('are those of the folder while there is no workspace, and an error is one', async () => {
    const unbuilt = files({ get: () => Promise.reject(new ApiError(409, 'not-built', 'No.')) });
    expect((await unbuilt.find('')).map(each => each.label)).toEqual(['own.csv']);
    expect((await (await unbuilt.find(''))[0]?.bring?.())?.content).toBe('x,y');
    expect((await files({}, null).find('')).map(each => each.label)).toEqual(['own.csv']);
    const offline = files({ get: () => Promise.reject(new ApiError(0, 'offline', 'Away.')) });
    await expect(offline.find('')).rejects.toThrow('Away.');
  });

  it('are text or none', () => {
    expect(asText(new TextEncoder().encode('ü').buffer)).toBe('ü');
    expect(asText(new Uint8Array([0xff, 0xfe]).buffer)).toBeNull();
  });
});
