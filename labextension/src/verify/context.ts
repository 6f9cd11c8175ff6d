// What every view of a verify report is given.

import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IApi } from '../api/tokens';
import type { IPreferences } from '../preferences/tokens';
import type { IVerification } from './tokens';

export interface IContext {
  readonly api: IApi;
  readonly verification: IVerification;
  readonly trans: TranslationBundle;
  /** Colours texts that are compared; null where an application has none. */
  readonly languages: IEditorLanguageRegistry | null;
  /** What the person has set; null where an application has no settings. */
  readonly preferences: IPreferences | null;
  /** Shows a step in the timeline; null where that is not there. */
  readonly showStep: ((seq: number) => void) | null;
}

export const Context = React.createContext<IContext | null>(null);

export function useVerify(): IContext {
  const context = React.useContext(Context);
  if (context === null) {
    throw new Error('A view of a verify report stands outside of its context.');
  }
  return context;
}
