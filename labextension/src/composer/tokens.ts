// What the composer offers to the parts that mount it, and what it needs of them (interfaces only).

import type { NotebookPanel } from '@jupyterlab/notebook';
import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

import type { Entry } from '../agent/model';
import type { Brought } from '../agent/tokens';
import type { IItem } from './message';

/** An entry of a conversation, as `docs/agent-api.md` has it. */
export type IEntry = Entry;

/** What a message brings along, told to the server apart from its text: what it holds is as
 * untrusted as the place that it comes from. `name`: a cell's id, a variable's name, a path, a
 * skill's name. */
export type IBrought = Brought;

/** A message as it is sent: `text` is all that the model reads, with what is brought in it. */
export interface IMessage {
  readonly text: string;
  readonly brought: readonly IBrought[];
}

/** How the conversation stands that a composer writes to. */
export type ComposerState =
  /** Nothing runs: Enter sends. */
  | 'ready'
  /** A turn runs: Enter queues, Stop stands in Send's place. */
  | 'running'
  /** It was told to stop and its last process has not ended. */
  | 'stopping'
  /** Somebody else's conversation, no model key, or none can be begun: `IComposerHost.why`. */
  | 'closed';

/** A conversation, or the one that the first message begins, as the composer sees it.
 *
 * The chat panel makes one for each conversation that it shows. It stays of use while it is not
 * shown: what is queued is sent when its turn ends. */
export interface IComposerHost extends IDisposable {
  /** Names the draft: the conversation's id, or `new:PATH` before it is begun. */
  readonly key: string;
  readonly state: ComposerState;
  /** Whether the server has said how the conversation stands: nothing queued is sent before. */
  readonly known: boolean;
  /** Why it is closed, for people. */
  readonly why: string;
  /**
   * How the newest turn ended: done, cancelled, failed…; null while it runs, and before the first.
   * One that stands open and that nobody runs here is interrupted.
   */
  readonly ended: string | null;
  /** The conversation's id once it is begun. */
  readonly conversation: string | null;
  /** The session that it is in, if it is known. */
  readonly session: string | null;
  /** The path of its notebook, as the contents API has it. */
  readonly path: string | null;
  /** The entries so far, in their order; the same array while nothing came. */
  readonly entries: readonly IEntry[];
  /** `key`, `state`, `ended` or `entries` have changed. */
  readonly changed: ISignal<IComposerHost, void>;
  readonly disposed: ISignal<IComposerHost, void>;
  /** Begin a turn. Rejects with an Error in words; the composer then puts the message back. */
  send(message: IMessage): Promise<void>;
  /** Stop the turn; the second time without waiting for what runs to end. */
  stop(): Promise<void>;
  /** Act on `/continue`, `/undo`, `/new`, `/export`. Those that cannot be done now are left out. */
  readonly acts: ReadonlyMap<ComposerAct, () => Promise<void>>;
}

export type ComposerAct = 'continue' | 'undo' | 'new' | 'export';

/** One composer: the input, what it brings, the meter. `widget` belongs to whoever mounts it. */
export interface IComposer {
  readonly widget: Widget;
  /** Which conversation it writes to; null shows it closed. The draft changes with it. */
  host: IComposerHost | null;
  focus(): void;
  /** Put text into the input, in place of what is there (edit and resend), and focus it. */
  write(text: string): void;
  /** Bring a cell of the notebook along, as a chip. */
  bringCell(panel: NotebookPanel, cell: string): void;
}

/** Makes composers. */
export interface IComposerFactory {
  /** compact: one line high and without the meter, as at a cell. */
  create(options?: { readonly compact?: boolean }): IComposer;
  /** Bring something along with the next message of a conversation, whether it is shown or not. */
  bring(conversation: string, item: IItem): void;
}

export const IComposerFactory = new Token<IComposerFactory>(
  '@jupyter-reprise/lab:IComposerFactory',
  'Makes the input of a conversation: drafts, mentions, commands, the meter.'
);

/** A message taken apart again, for whoever shows it: the person's words, and what was brought. */
export interface ISaid {
  readonly words: string;
  readonly brought: readonly (IBrought & { readonly title: string; readonly content: string })[];
}
// `saidOf(text: string): ISaid` is in ./message: pure, of use without this token.

export namespace AskCommands {
  /** Opens the chat with the cell at hand as a chip. */
  export const cell = 'reprise:ask-cell';
  /** Opens an input below the cell at hand; the answer comes there. */
  export const below = 'reprise:ask-below';
}
