// What other parts know of the Reprise session behind a notebook.

import type { NotebookPanel } from '@jupyterlab/notebook';
import type { IDisposable, IObservableDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

import { Token } from '@lumino/coreutils';

/**
 * How a session stands.
 *
 * - `unknown`: the kernel has not said yet (it starts, or the page reconnects to it);
 * - `starting`: a sandbox is being started (`text` says what takes long);
 * - `resuming`: steps are being played again (`resume`);
 * - `waiting`: ready to come back, which takes so long that it waits for the first cell (`plan`);
 * - `stopped`: somebody cancelled coming back (`resume`: how far it came, `plan`: what is left);
 * - `ready`, `running`: the sandbox stands at the head of the log, a step runs or does not;
 * - `held`: another kernel writes the session (`held`);
 * - `failed`: no sandbox can be started, or the log cannot be reached (`text`);
 * - `ended`: the kernel itself is not there (shut down, died, or the server is away).
 */
export type SessionState =
  | 'unknown'
  | 'starting'
  | 'resuming'
  | 'waiting'
  | 'stopped'
  | 'ready'
  | 'running'
  | 'held'
  | 'failed'
  | 'ended';

/** How far a resume has come. Times in seconds. */
export interface IResume {
  readonly done: number;
  readonly total: number;
  readonly estimate: number | null;
  readonly elapsed: number | null;
  /** What is left at the moment `ISessionStatus.heard`. */
  readonly remaining: number | null;
  /** The step it starts from (a kept state); null: from the beginning. */
  readonly from: number | null;
}

/** Why the sandbox last went, until a later step ended well. */
export interface IDeath {
  /** The step that was rolled back; null when none ran. */
  readonly seq: number | null;
  /** `memory`, `signal`, `exit`, `killed`, `vanished`, `timeout`, `shutdown`, … */
  readonly what: string;
  /** In words, of the kernel's own making. */
  readonly text: string;
  /** Bytes, of `memory`. */
  readonly limit: number | null;
}

/** Who else writes the session. */
export interface IHolder {
  /** The session that is held: the kernel that cannot have it has none. */
  readonly session: string | null;
  readonly since: string | null;
  readonly host: string | null;
  readonly notebook: string | null;
}

/** How a session stands at a moment; a new object with each change, so `===` tells. */
export interface ISessionStatus {
  readonly state: SessionState;
  readonly text: string | null;
  readonly backend: {
    readonly name: string;
    readonly isolated: boolean;
    /** What isolates it, in words. */
    readonly isolation: string;
  } | null;
  readonly environment: { readonly name: string; readonly digest: string | null } | null;
  /** Bytes. */
  readonly memory: { readonly used: number | null; readonly limit: number | null };
  /** How many steps the session has; the last one is `steps - 1`. null: not known yet. */
  readonly steps: number | null;
  /** The step that runs. */
  readonly running: number | null;
  /** The last saved state that a resume can start from. */
  readonly snapshot: {
    readonly seq: number;
    readonly at: string | null;
    readonly kind: string;
  } | null;
  readonly resume: IResume | null;
  /** What coming back would take. `seconds`: the planner's estimate. */
  readonly plan: { readonly steps: number; readonly seconds: number } | null;
  readonly death: IDeath | null;
  readonly held: IHolder | null;
  /** Why outputs are static, in words, and from which step on; null: they are live. */
  readonly static: { readonly since: number | null; readonly why: string | null } | null;
  /** What the environment lets out, in words; `open`: whether anything may go out at all. */
  readonly network: {
    readonly open: boolean;
    readonly hosts: readonly string[];
    readonly text: string | null;
  } | null;
  /** Why nothing is connected to the network, whatever the environment allows. */
  readonly shut: string | null;
  /** How coming back last went. */
  readonly back: {
    readonly at: string | null;
    readonly seconds: number;
    readonly steps: number;
    /** Interrupted steps that were not played: what they had done is not here any more. */
    readonly leftOut: readonly number[];
  } | null;
  /** When the page last heard from the kernel. */
  readonly heard: Date | null;
}

/** Something to know that belongs to no cell's output (docs/messages.md, `reprise_notice`). */
export interface INotice {
  readonly code: string;
  readonly text: string;
  readonly seq: number | null;
  readonly at: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

/** The session has more steps, or a step ended: told at most once a frame. */
export interface IStepped {
  readonly session: string;
  /** How many steps there are now, when that is known. */
  readonly steps: number | null;
  /** Whether a step is known to have ended (else one was only accepted). */
  readonly ended: boolean;
}

/** The kernel has gone over to another session (a rewind); the page and the kernel stay. */
export interface IAttached {
  readonly before: string | null;
  readonly session: string;
}

/**
 * The session of one notebook panel, as long as the panel has a Reprise kernel.
 *
 * It outlives restarts, reconnects and renames; a rewind changes `id` and emits `attached`. It is
 * disposed with the panel, or when the panel gets a kernel that is not Reprise's.
 */
export interface INotebookSession extends IObservableDisposable {
  readonly panel: NotebookPanel;
  /** The session's id (UUID); null until the kernel or the server has said it. */
  readonly id: string | null;
  /** The id of the kernel; null while there is none. */
  readonly kernel: string | null;
  /** The notebook's path as the contents API has it. */
  readonly path: string;
  readonly status: ISessionStatus;
  /** `id`, `kernel`, `path` or `status` changed; joined per frame. */
  readonly statusChanged: ISignal<INotebookSession, void>;
  readonly stepped: ISignal<INotebookSession, IStepped>;
  readonly attached: ISignal<INotebookSession, IAttached>;
  /** The newest 200, in the order they were told. */
  readonly notices: readonly INotice[];
  readonly noticed: ISignal<INotebookSession, INotice>;
  /** Ask the kernel how the session stands; resolves when it has said so, or does not answer. */
  refresh(): Promise<void>;
  /** End coming back; the log is whole. A running cell is not touched. */
  cancelResume(): Promise<void>;
  /** Come back now, or go on with it. */
  startNow(): Promise<void>;
  /** Restart the kernel (a `restart` step); the files stay. */
  restart(): Promise<void>;
}

/** A panel got a session, or lost it (`session: null`). */
export interface ISessionOfPanel {
  readonly panel: NotebookPanel;
  readonly session: INotebookSession | null;
}

export interface ISessions {
  /** The session of a notebook; null when its kernel is not Reprise's (or there is none). */
  get(panel: NotebookPanel): INotebookSession | null;
  /** That of the notebook that is current, or was until focus went to another place. */
  readonly current: INotebookSession | null;
  readonly currentChanged: ISignal<ISessions, INotebookSession | null>;
  /** All notebooks with a session, in no order. */
  readonly all: readonly INotebookSession[];
  /** A notebook's session came, went, or is another object now. */
  readonly changed: ISignal<ISessions, ISessionOfPanel>;
  /**
   * Call `act` for each notebook with a session, now and later. What it returns is disposed with
   * that session, and when the returned disposable is.
   */
  each(act: (session: INotebookSession) => IDisposable): IDisposable;
}

/** The sessions of the notebooks that are open in this page. */
export const ISessions = new Token<ISessions>(
  '@jupyter-reprise/lab:ISessions',
  'The Reprise sessions of the notebooks that are open in this page.'
);
