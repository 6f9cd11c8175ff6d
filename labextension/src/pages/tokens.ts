// The notebooks that this page has open, as the agent works in them (interfaces only).

import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';

import type { OpenNotebooks } from './open';
import type { Pages } from './service';

/** Where the agent's edits of an open notebook go. */
export type Lease =
  /** Into this page's model. */
  | 'here'
  /** Into another page that has the notebook open. */
  | 'elsewhere'
  /** Into the room of jupyter-collaboration, so into every page. */
  | 'room'
  /** Nowhere: no conversation of the notebook is connected. */
  | 'none';

/** Answers the server about the notebooks that are open here. */
export interface IPages {
  /** Of the notebook with this path, as the contents API has it. */
  lease(path: string): Lease;
  /** The agent is to work in this page from now on. Rejects with words. */
  take(path: string): Promise<void>;
  /** A path's lease changed. */
  readonly changed: ISignal<IPages, string>;
}

export const IPages = new Token<IPages>(
  '@jupyter-reprise/lab:IPages',
  'Answers the server about the notebooks that this page has open.'
);

/** The open notebooks themselves, for the parts that show what the agent does at their cells. */
export interface IOpenNotebooks {
  readonly pages: Pages;
  readonly open: OpenNotebooks;
}

export const IOpenNotebooks = new Token<IOpenNotebooks>(
  '@jupyter-reprise/lab:IOpenNotebooks',
  'The notebooks that are open in this page, and the conversations about them.'
);
