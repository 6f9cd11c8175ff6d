// What every view of this part is given: the service, words, safe rendering, and how to open things.

import type { IEditorServices } from '@jupyterlab/codeeditor';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { ApiError, type IApi } from '../api/tokens';
import type { IAnnouncer } from '../parts/tokens';
import type { ISessions } from '../sessions/tokens';
import type { ISkills } from './tokens';

export type View = 'read' | 'files' | 'versions' | 'findings' | 'usage';

/** What a skill's tab is opened with. */
export interface IOpening extends ISkills.IName {
  readonly view?: View;
  /** Of the view Versions: the version that this one is compared with. */
  readonly since?: number;
}

/** Tabs and dialogs of this part, opened from anywhere in it. */
export interface IOpener {
  skill(opening: IOpening): void;
  edit(named: ISkills.IName, at?: { path: string; line: number | null }): void;
  create(): Promise<void>;
  importSkills(files?: DataTransfer): Promise<void>;
  promotion(id: string): void;
  promote(version: ISkills.Version): Promise<void>;
  teams(): void;
  judge(act: Act, version: ISkills.Version): Promise<void>;
  download(named: ISkills.IName, path: string | null): Promise<void>;
  /** Shows a session in the timeline, where that is there; false where it is not. */
  timeline(session: string): boolean;
  /** Shows a step in the timeline, where that is there; false where it is not. */
  step(session: string, seq: number): boolean;
}

/** Acts on a version that are asked about first. */
export type Act =
  | 'trust'
  | 'distrust'
  | 'revoke'
  | 'reinstate'
  | 'release'
  | 'restore'
  | 'deprecate'
  | 'undeprecate';

export interface IContext {
  readonly skills: ISkills;
  readonly api: IApi;
  readonly trans: TranslationBundle;
  readonly rendermime: IRenderMimeRegistry;
  readonly editors: IEditorServices;
  /** Colours texts that are compared; null where an application has none. */
  readonly languages: IEditorLanguageRegistry | null;
  readonly announcer: IAnnouncer;
  readonly sessions: ISessions | null;
  readonly open: IOpener;
}

/** The line's own notice says it already, and what was shown stays. */
export function offline(error: unknown): boolean {
  return error instanceof ApiError && error.code === 'offline';
}

export const Context = React.createContext<IContext | null>(null);

export function useSkills(): IContext {
  const context = React.useContext(Context);
  if (context === null) {
    throw new Error('A view of skills stands outside of its context.');
  }
  return context;
}
