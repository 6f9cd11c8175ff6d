// What other parts may use of verifying: its command, and the reports as they come.

import type { IObservableDisposable } from '@lumino/disposable';
import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';

import type { Schemas } from '../api/tokens';

export const VerifyCommands = {
  /**
   * Opens the verify report of a session in a tab, and begins it unless one that says all there is
   * to say is there or on its way. `{session?, from?}`: without a session, that of the current
   * notebook; `from` is the first step to compare.
   */
  open: 'reprise:verify'
} as const;

/** How a step came out, as `reprise verify` says it. */
export type StepVerdict = Schemas['StepVerdict'];
export type ReportHead = Schemas['ReportHead'];
export type ReportRow = Schemas['ReportRow'];
export type ReportStep = Schemas['ReportStep'];
export type ReportPiece = Schemas['ReportPiece'];
export type ReportState = Schemas['ReportState'];
export type ReportCause = Schemas['ReportCause'];

/** How a verify stands. */
export type VerifyState =
  /** The server is being asked whether there is one. */
  | 'looking'
  /** There is none. */
  | 'none'
  | 'queued'
  | 'running'
  | 'stopping'
  | 'done'
  | 'failed'
  | 'stopped'
  /** There was one; the server has restarted or forgotten it, and what came of it is gone. */
  | 'lost';

export interface IProgress {
  /** What is being done, in the server's words. */
  readonly text: string;
  readonly done: number | null;
  readonly total: number | null;
  /** How many steps came out how so far. */
  readonly counts: Readonly<Record<string, number>>;
}

/** One verify of a session: asked for, followed, its report read in parts. Knows no page. */
export interface IVerification extends IObservableDisposable {
  readonly session: string;
  /** The first step that is compared. */
  readonly from: number;
  readonly state: VerifyState;
  readonly progress: IProgress;
  /** Of one that is done: all but its steps. */
  readonly head: ReportHead | null;
  /** When it ended. */
  readonly endedAt: Date | null;
  /** Steps that the session has got since; null while that is not known. */
  readonly newer: number | null;
  /** Why it failed, or could not be asked for; null when neither is so. */
  readonly failure: Error | null;
  /** Of one that is stopped: whether that was asked for here. */
  readonly stoppedHere: boolean;
  readonly changed: ISignal<this, void>;
  /** Follow the one that is there or on its way, if there is one. Resolves when that is known. */
  look(): Promise<void>;
  /** There was one when this page was last open: where `look` found none, it is lost. */
  forgotten(): void;
  /** Begin one, or join the one that is on its way. */
  begin(): Promise<void>;
  /** End it; what was played by then is thrown away. */
  stop(): Promise<void>;
  /** Rows of the report from `offset` on, what one has to look at first. */
  rows(
    verdicts: readonly StepVerdict[],
    offset: number,
    limit: number
  ): Promise<{
    readonly steps: readonly ReportRow[];
    readonly found: number;
    readonly total: number;
  }>;
  step(seq: number): Promise<ReportStep>;
  stateOf(number: number): Promise<ReportState>;
  /** The whole report as a file. */
  save(form: 'html' | 'json'): Promise<{ readonly name: string; readonly data: Blob }>;
}

export interface IVerify {
  /** A verify of a session from a step on. Whoever asks disposes it. */
  of(session: string, from?: number): IVerification;
}

export const IVerify = new Token<IVerify>(
  '@jupyter-reprise/lab:IVerify',
  'Verifies sessions on the server, and follows how far that is.'
);
