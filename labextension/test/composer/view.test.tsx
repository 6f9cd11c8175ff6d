// The input as it is seen: it keeps its node, and so the focus, while its conversation is begun.

import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { act, render } from '@testing-library/react';
import * as React from 'react';
import { expect, it } from 'vitest';

import { Drafts } from '../../src/composer/drafts';
import type { ISources } from '../../src/composer/suggestions';
import type { IComposerHost } from '../../src/composer/tokens';
import { ComposerView } from '../../src/composer/view';
import { Writing } from '../../src/composer/writing';

const none = { find: () => Promise.resolve([]) };
const sources: ISources = { cells: none, variables: none, files: none, skills: none };

const changed = new Signal<IComposerHost, void>({} as IComposerHost);

function hosted(key: string): IComposerHost & { key: string } {
  return {
    key,
    state: 'ready',
    known: true,
    why: '',
    ended: null,
    conversation: null,
    session: null,
    path: null,
    entries: [],
    acts: new Map(),
    changed,
    disposed: new Signal<IComposerHost, void>({} as IComposerHost),
    isDisposed: false,
    send: () => Promise.resolve(),
    stop: () => Promise.resolve(),
    dispose: () => undefined
  };
}

it('keeps the focus when the first words have begun the conversation', () => {
  const trans = nullTranslator.load('reprise');
  const host = hosted('new:a.ipynb');
  const writing = new Writing(host, new Drafts(null, null, ''));
  const input = React.createRef<HTMLTextAreaElement>();
  const view = (of: Writing): React.JSX.Element => (
    <ComposerView
      writing={of}
      sources={sources}
      trans={trans}
      announcer={null}
      limits={null}
      showMoney={false}
      compact={false}
      input={input}
    />
  );
  const drawn = render(view(writing));
  const node = input.current;
  node?.focus();
  host.key = 'c1';
  act(() => changed.emit());
  expect(document.activeElement).toBe(node);
  drawn.rerender(view(new Writing(hosted('c2'), new Drafts(null, null, ''))));
  expect(input.current).not.toBe(node);
});
