// What is written in the editor of a policy is not lost, whatever is saved or set meanwhile.

import { CodeEditor, IEditorServices } from '@jupyterlab/codeeditor';
import { nullTranslator } from '@jupyterlab/translation';
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import * as React from 'react';
import { afterEach, expect, test } from 'vitest';

import { Context, IContext } from '../../src/policy/context';
import { Drafts } from '../../src/policy/drafts';
import { Editor } from '../../src/policy/editor';
import { IPolicies, Policy } from '../../src/policy/tokens';
import { rulesText } from '../../src/policy/yaml';

afterEach(cleanup);

function policy(version: number, name = `rule-${version}`): Policy {
  return {
    at: null,
    by: null,
    digest: 'd',
    level: 'personal',
    note: '',
    rules: [{ name, decision: 'ask' }] as unknown as Policy['rules'],
    version
  };
}

/** An editor whose check finds nothing, and whose saves are answered by the test. */
function shown(binding: Policy) {
  const kept = new Map<string, string>();
  const drafts = new Drafts(
    {
      getItem: key => kept.get(key) ?? null,
      setItem: (key, value) => void kept.set(key, value),
      removeItem: key => void kept.delete(key)
    },
    'here'
  );
  let model: CodeEditor.IModel | null = null;
  let answer: (policy: Policy) => void = () => undefined;
  const context = {
    drafts,
    trans: nullTranslator.load('reprise'),
    announcer: null,
    languages: null,
    editors: {
      factoryService: {
        newDocumentEditor: (options: CodeEditor.IOptions) => {
          model = options.model;
          return { dispose: () => undefined };
        }
      }
    } as unknown as IEditorServices,
    policies: {
      check: () => Promise.resolve({ rules: [], problems: [], advice: [], trial: null }),
      versions: () => Promise.resolve([]),
      tools: () => new Promise(() => undefined),
      try: () => new Promise(() => undefined),
      set: () =>
        new Promise<Policy>(resolve => {
          answer = resolve;
        })
    } as unknown as IPolicies
  } as unknown as IContext;
  const of = (bound: Policy): React.JSX.Element => (
    <Context.Provider value={context}>
      <Editor scope="personal" binding={bound} />
    </Context.Provider>
  );
  const { rerender } = render(of(binding));
  return {
    drafts,
    bind: (bound: Policy) => rerender(of(bound)),
    text: () => model?.sharedModel.getSource(),
    type: (text: string) => act(() => model?.sharedModel.setSource(text)),
    answer: (set: Policy) => act(async () => answer(set))
  };
}

async function save(): Promise<void> {
  const button = screen.getByRole<HTMLButtonElement>('button', { name: 'Save…' });
  await until(() => !button.disabled);
  fireEvent.click(button);
}

async function until(holds: () => boolean): Promise<void> {
  await expect.poll(holds, { timeout: 10_000 }).toBe(true);
}

test('what was saved is no change, before the page has heard that it binds', async () => {
  const editor = shown(policy(1));
  editor.type('rules: []\n');
  await save();
  await editor.answer({ ...policy(2), rules: [] });
  expect(screen.getByText(/Saved as version 2/)).toBeTruthy();
  expect(screen.queryByText(/Somebody has set version/)).toBeNull();
  expect(editor.drafts.get('personal')).toBeNull();
  editor.bind({ ...policy(2), rules: [] });
  expect(editor.text()).toBe('rules: []\n');
  expect(screen.queryByText(/Somebody has set version/)).toBeNull();
});

test('what is written while a version is saved stays, as a change of that version', async () => {
  const editor = shown(policy(1));
  editor.type('rules: []\n');
  await save();
  editor.type('rules: [] # more\n');
  await editor.answer({ ...policy(2), rules: [] });
  expect(editor.text()).toBe('rules: [] # more\n');
  expect(editor.drafts.get('personal')).toEqual({ text: 'rules: [] # more\n', after: 2 });
  expect(screen.queryByText(/Somebody has set version/)).toBeNull();
});

test('a version that somebody sets is shown where nothing was written, else it is told', () => {
  const editor = shown(policy(1));
  editor.bind(policy(2));
  expect(editor.text()).toBe(rulesText(policy(2).rules));
  editor.type('rules: [] # mine\n');
  editor.bind(policy(3));
  expect(editor.text()).toBe('rules: [] # mine\n');
  expect(screen.getByText(/Somebody has set version 3/)).toBeTruthy();
});
