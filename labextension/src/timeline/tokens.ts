/** What other parts may use of the timeline: the Session panel, histories, and its commands. */

import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Token } from '@lumino/coreutils';
import type { Widget } from '@lumino/widgets';

/** Commands of the timeline. All may be left without arguments: then they mean what is chosen. */
export const TimelineCommands = {
  /** Shows the Session panel with its Timeline. `{session?}` */
  open: 'reprise:open-timeline',
  /** Shows one step in the Timeline, with its detail. `{session, step}` */
  showStep: 'reprise:show-step',
  /** Shows the newest step of a cell of the current notebook. `{cell?}`: its id. */
  showCellStep: 'reprise:show-cell-step',
  /** Opens the notebook as of a step, read-only. `{session, step}` */
  viewStep: 'reprise:view-step',
  /** Forks after a step, under a name, and opens the fork's notebook. `{session, step}` */
  fork: 'reprise:fork',
  /** Asks, and then takes the notebook back to a step. `{session, step}` */
  rewind: 'reprise:rewind',
  /** Runs a recorded cell or command again, as a new step. `{session, step}` */
  runAgain: 'reprise:run-again',
  /** Verifies from a step on. `{session, step}`; it opens what `reprise:verify` opens. */
  verifyFrom: 'reprise:verify-from',
  /** Shows the files of the workspace as after a step. `{session, step}` */
  filesAt: 'reprise:files-at-step',
  /** Compares two steps. `{session, before, after}` */
  compare: 'reprise:compare'
} as const;

/** The "Session" panel on the left: a column of sections that each open and close. */
export interface ISessionPanel {
  /**
   * Add a section; `widget.title.label` is its heading. Sections stand in the order of `rank`
   * (Timeline has 100). The widget is the caller's: disposing what is returned takes it out.
   */
  addSection(widget: Widget, rank?: number): IDisposable;

  /** Show the panel, and open this section of it. */
  reveal(section?: Widget): void;
}

export const ISessionPanel = new Token<ISessionPanel>(
  '@jupyter-reprise/lab:ISessionPanel',
  'The Session panel on the left, to which sections can be added.'
);

export type StepKind = 'cell' | 'command' | 'upload' | 'mount' | 'comm' | 'restart';
export type ActorKind = 'user' | 'agent' | 'system';
export type Outcome = 'ok' | 'error' | 'interrupted' | 'timeout' | 'died' | 'lost';

/** Who asked for a step. */
export interface IActor {
  kind: ActorKind;
  conversation?: string;
  turn?: number;
}

/** A step as one line of the timeline says it. */
export interface IStepRow {
  /** Its place among the steps that fit the filter, the oldest is 0. Without a filter: `seq`. */
  row: number;
  seq: number;
  kind: StepKind;
  actor: IActor;
  /** When it was accepted (ISO 8601). */
  at: string;
  /** null while it runs. */
  outcome: Outcome | null;
  cause: Readonly<Record<string, unknown>> | null;
  duration_s: number | null;
  execution_count: number | null;
  /** The notebook's id of the cell, where it is known. */
  cell: string | null;
  /** The first line of what was asked for, and how many lines it has. */
  text: string;
  lines: number;
  /** What it showed, in a few words; null: nothing, or too much to tell in a line. */
  shown: string | null;
}

/** Which steps: of these kinds, asked for by these, ended so, whose text holds all the words. */
export interface IStepFilter {
  kinds: readonly StepKind[];
  actors: readonly ActorKind[];
  outcomes: readonly (Outcome | 'running')[];
  words: string;
}

/** A session that leaves this history after one of its steps. */
export interface IFork {
  session: string;
  parent: string;
  /** The last step that it shares. */
  seq: number;
  name: string;
}

/** The steps of one session that fit a filter, by row number; fetched in pages when looked at. */
export interface IHistory extends IDisposable {
  readonly session: string;
  /** Steps of the session, and of these those that fit the filter. */
  readonly total: number;
  readonly found: number;
  /** `found` is a lower bound: there is more than was looked through. */
  readonly atLeast: boolean;
  readonly filter: IStepFilter;
  readonly forks: readonly IFork[];
  /** Why the newest request failed; null when it did not. What was fetched before stays. */
  readonly failure: Error | null;
  /** Whether anything has come yet. */
  readonly ready: boolean;
  /** Counts, rows, forks or the failure are other than before. At most once for each answer. */
  readonly changed: ISignal<this, void>;

  /** A row that has been fetched; undefined when it has not. */
  row(index: number): IStepRow | undefined;
  /** Have the rows from ≤ index < to fetched, unless they are here or on their way. */
  want(from: number, to: number): void;
  /** Resolves with the row once it is here; undefined when there is none. Rejects as the API does. */
  get(index: number): Promise<IStepRow | undefined>;
  /** Ask whether there is more; resolves when that is known. */
  refresh(): Promise<void>;
  /** Ask for the forks again. */
  refreshForks(): Promise<void>;
  setFilter(filter: IStepFilter): Promise<void>;
}

/** Histories of sessions. Knows no page: usable in Node. */
export interface ITimeline {
  /** A history with a filter of its own. Whoever asks disposes it. */
  history(session: string): IHistory;
  /** Something was done to a session: all its open histories ask whether there is more. */
  poke(session: string): void;
  /** The session has other forks than before. */
  readonly forked: ISignal<this, { session: string; fork: string }>;
}

export const ITimeline = new Token<ITimeline>(
  '@jupyter-reprise/lab:ITimeline',
  'Steps of sessions by row number, filtered and live.'
);
