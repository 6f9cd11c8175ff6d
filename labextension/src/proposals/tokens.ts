// What the agent proposes for, and did to, the cells of open notebooks (interfaces only).

import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';

/** The agent's edits at cells, and the way to them. */
export interface IProposals {
  /** How many cells of this notebook wait for an answer, or for Keep. */
  count(path: string): number;
  /** Show the next one of this notebook; of this question, if it is given. Moves no focus into a frame. */
  next(path: string, question?: string): Promise<boolean>;
  /** The count of a path changed. */
  readonly changed: ISignal<IProposals, string>;
}

export const IProposals = new Token<IProposals>(
  '@jupyter-reprise/lab:IProposals',
  'Shows the agent’s edits at the cells that they touch.'
);

export namespace ProposalCommands {
  /** Leads to the next cell that the agent changed, or proposes to; it accepts nothing. */
  export const next = 'reprise:next-edit';
}
