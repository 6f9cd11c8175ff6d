/** What other parts may use of verifying: its command, and the reports as they come. */

import type { IDisposable } from '@lumino/disposable';
import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';

export const VerifyCommands = {
  /**
   * Opens the verify report of a session in a tab, and begins it unless one is there or on its way.
   * `{session?, from?}`: without a session, that of the current notebook; `from` is the first step
   * to compare.
   */
  open: 'reprise:verify'
} as const;

/** How a step came out, as `reprise verify` says it. */
export type StepVerdict = 'same' | 'volatile' | 'different' | 'could not run' | 'skipped';

/** Where a difference may come from, and what one can do about it. */
export interface ICause {
  readonly what: string;
  readonly text: string;
  readonly mend: string;
  readonly seq: number | null;
  readonly line: number | null;
}

/** A step in the report's table. */
export interface IVerifiedStep {
  readonly seq: number;
  readonly kind: string;
  readonly outcome: string | null;
  readonly verdict: StepVerdict;
  readonly reason: string | null;
  /** The first line of what was asked for. */
  readonly title: string;
  /** Seconds. */
  readonly recorded: number;
  readonly took: number;
  /** How a second replay compares with the record, where there was one. */
  readonly again: StepVerdict | null;
  /** Whether two replays differ from each other. */
  readonly chance: boolean | null;
  readonly causes: readonly ICause[];
}

/** How a verify stands. */
export type VerifyState =
  /** Nothing was asked for yet. */
  | 'none'
  | 'queued'
  | 'running'
  | 'stopping'
  | 'done'
  | 'failed'
  | 'stopped'
  /** The server restarted, or forgot it: what came of it is not there any more. */
  | 'lost';

/** One verify of a session: asked for, followed, its report in parts. Knows no page. */
export interface IVerification extends IDisposable {
  readonly session: string;
  readonly from: number;
  readonly state: VerifyState;
  /** What it does now, and how far it is. */
  readonly progress: { readonly text: string; readonly done: number | null; readonly total: number | null };
  readonly counts: Readonly<Record<StepVerdict, number>>;
  /** Why it failed, or could not be asked for. */
  readonly failure: Error | null;
  readonly changed: ISignal<this, void>;
  /** Begin it, or join the one that is on its way. */
  begin(): Promise<void>;
  /** End it; what was played by then is thrown away. */
  stop(): Promise<void>;
}

export interface IVerify {
  /** The verify of a session from a step on; one object for all who ask. */
  of(session: string, from?: number): IVerification;
}

export const IVerify = new Token<IVerify>(
  '@jupyter-reprise/lab:IVerify',
  'Verifies sessions on the server, and follows how far that is.'
);
