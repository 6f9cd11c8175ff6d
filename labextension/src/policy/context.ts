// What the views of policies are given.

import type { IEditorServices } from '@jupyterlab/codeeditor';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IApi } from '../api/tokens';
import type { IAnnouncer } from '../parts/tokens';
import type { Drafts } from './drafts';
import type { IPolicies } from './tokens';

export interface IContext {
  readonly api: IApi;
  readonly policies: IPolicies;
  readonly drafts: Drafts;
  readonly trans: TranslationBundle;
  readonly editors: IEditorServices;
  readonly languages: IEditorLanguageRegistry | null;
  readonly announcer: IAnnouncer | null;
}

export const Context = React.createContext<IContext | null>(null);

export function usePolicies(): IContext {
  const context = React.useContext(Context);
  if (context === null) {
    throw new Error('A view of policies stands outside of its context.');
  }
  return context;
}
