// What the views of this part are given.

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IApi } from '../api/tokens';
import type { IAnnouncer } from '../parts/tokens';
import type { INotebookSession } from '../sessions/tokens';
import type { IEnvironments } from './tokens';

export interface IContext {
  readonly api: IApi;
  readonly environments: IEnvironments;
  readonly trans: TranslationBundle;
  readonly announcer: IAnnouncer | null;
  /** Shows a step in the timeline; null where that is not there. */
  readonly showStep: ((session: string, step: number) => void) | null;
  /** A notebook in an environment. */
  readonly create: (environment: string) => void;
  /** Opens an environment's tab. */
  readonly open: (environment: string) => void;
  /** The open notebook of a session; null where it is not open. */
  readonly sessionOf: (session: string) => INotebookSession | null;
}

export const Context = React.createContext<IContext | null>(null);

export function useEnvironments(): IContext {
  const context = React.useContext(Context);
  if (context === null) {
    throw new Error('A view of environments stands outside of its context.');
  }
  return context;
}
