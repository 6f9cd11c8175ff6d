/** The agent's service: conversations, each open one with its line to the server (interfaces only). */

import type { IDisposable } from '@lumino/disposable';
import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

import type { Conversation, Turn, TurnEnd } from './model';

/** A conversation as a list shows it. */
export interface ConversationInfo {
  readonly id: string;
  /** Where it is now. */
  readonly session: string;
  /** The path of its notebook; null without one. */
  readonly notebook: string | null;
  readonly title: string;
  readonly began_at: string;
  readonly last_at: string;
  readonly entries: number;
  readonly turns: number;
}

/**
 * How a conversation's line to the server stands. What was told stays, whatever becomes of it.
 *
 * opening: nothing was told yet.  live.  offline: lost `since`, tried again at `nextTry` (milliseconds
 * since the epoch).  expired: whoever looks is signed out.  refused: it cannot be had, for `why`.
 */
export type LineState =
  | { readonly is: 'opening' }
  | { readonly is: 'live' }
  | { readonly is: 'offline'; readonly since: number; readonly nextTry: number }
  | { readonly is: 'expired' }
  | { readonly is: 'refused'; readonly code: string; readonly why: string }
  | { readonly is: 'closed' };

/** What comes of an answer before it is stored: pieces by the place of their block. */
export interface DraftBlock {
  readonly index: number;
  readonly kind: 'text' | 'thinking' | 'tool';
  readonly text: string;
}

/** What a running call shows: its newest lines, and how many there were. */
export interface LiveOutput {
  readonly lines: readonly string[];
  readonly total: number;
}

/** Where an approval is pressed; both null for whoever may not press it. */
export interface Pressed {
  readonly yours: boolean;
  readonly decision: string | null;
  readonly frame: string | null;
}

/** A message of the server's that the service does not fold: the page's notebook is asked for. */
export type NotebookTold =
  | { readonly type: 'lease'; readonly holds: boolean }
  | {
      readonly type: 'notebook';
      readonly request: number;
      readonly asks: Readonly<Record<string, unknown>>;
    };

/** Words that a person sent while a turn ran: said when it has ended. */
export interface Queued {
  readonly id: number;
  readonly text: string;
}

/** What an undo would do, or did. `others`: steps of somebody else that a fork would leave out. */
export interface UndoPlan {
  readonly turn: number;
  readonly at: number;
  readonly cells: readonly string[];
  readonly kept: readonly string[];
  readonly outside: readonly string[];
  readonly others: readonly number[];
  /** Why the notebook is not put back, if so. */
  readonly notebook?: string;
}

/** An open conversation. Shared by all that open it; each `dispose`s its own. */
export interface IConversation extends IDisposable {
  readonly id: string;
  /** Title, notebook, times; null until they are known. */
  readonly info: ConversationInfo | null;
  /** Folded from entries: a value. Compare objects to see what changed. */
  readonly model: Conversation;
  /** Whether entries before the oldest turn in `model` are still being brought in. */
  readonly earlier: boolean;
  readonly line: LineState;
  /** Whether whoever looks may drive it. MCP conversations are driven by nobody here. */
  readonly yours: boolean;
  /** Who may: its owner; null where nobody is told apart. */
  readonly owner: string | null;
  /** A turn of it runs on this server. */
  readonly running: boolean;
  /** It is being stopped: what runs ends first. */
  readonly stopping: boolean;
  /** How the newest turn ended; null while it is open and before the first. */
  readonly ended: TurnEnd | null;
  /** The answer that comes; none between answers. */
  readonly draft: readonly DraftBlock[];
  /** Newest lines of running calls, by call. */
  output(call: string): LiveOutput | null;
  /** Where a question that waits is pressed; null until it is told. */
  pressed(question: string): Pressed | null;
  /** Notes of the server's about this turn ("The notebook was not stored: …"), newest last. */
  readonly notes: readonly string[];
  readonly queued: readonly Queued[];

  /** Model, line, standing or queue changed. Joined: at most once a frame. */
  readonly changed: ISignal<this, void>;
  /** The draft or a call's output changed. Joined: at most once a frame. */
  readonly streamed: ISignal<this, void>;
  /** The server asks for the notebook of this page, or says whose turn it is. Not joined. */
  readonly notebookTold: ISignal<this, NotebookTold>;

  /** Begin a turn, or queue the words while one runs. Rejects with ApiError; nothing was said then. */
  say(text: string): Promise<void>;
  /** Take queued words back; the text, for the composer. */
  unqueue(id: number): string | null;
  /** Stop the turn; the second time without waiting for what runs. */
  cancel(): Promise<void>;
  /** Go on with the newest turn where it was cut. */
  goOn(): Promise<void>;
  /** Say the newest turn's words again: the turn is undone first, or continued where it was cut. */
  retry(fork?: boolean): Promise<void>;
  /** Go back to before a turn (undoing it and those after it), and say other words there. */
  resend(turn: number, text: string, fork?: boolean): Promise<void>;
  /** What an undo of the newest turn would do. */
  undoPlan(): Promise<UndoPlan>;
  /** Undo the newest turn. Rejects with ApiError `cannot-undo` where steps of others followed. */
  undo(fork?: boolean): Promise<UndoPlan>;
  /** Answer a question of the model's own. */
  answer(question: string, words: string): Promise<void>;
  /** Deny an approval, with a reason for the agent. */
  deny(question: string, reason: string | null): Promise<void>;
  /** Ask for a denied or timed out call again: words to the agent. */
  askAgain(call: string): Promise<void>;
  /** Send a message of the page's about its notebook (docs/agent-notebook.md). */
  tellNotebook(
    message:
      | { readonly type: 'notebook-open' | 'notebook-closed' | 'notebook-take' }
      | { readonly type: 'notebook-answer'; readonly request: number; readonly answer: object }
  ): Promise<void>;
  /** Connect now, instead of at the next try. */
  reconnect(): void;
}

export interface ListAsked {
  readonly session?: string;
  readonly notebook?: string;
  /** Words that the title, or something that was said, holds. */
  readonly words?: string;
}

export interface BeginAsked {
  readonly session: string;
  readonly notebook?: string;
  readonly title?: string;
  readonly model?: string;
}

/** Which model answers here. `why`: why it cannot be asked, in words for people. */
export interface ModelStanding {
  readonly model: string;
  readonly provider: string;
  readonly key: boolean;
  readonly why: string | null;
  readonly context_tokens: number | null;
  readonly scripted: boolean;
}

export interface IAgent {
  list(asked: ListAsked): Promise<readonly ConversationInfo[]>;
  /** Begin one and open it. Rejects with ApiError (503 where the model cannot be asked). */
  begin(asked: BeginAsked): Promise<IConversation>;
  /** Open one; the same object as long as somebody has it open. */
  open(id: string): IConversation;
  rename(id: string, title: string): Promise<void>;
  /** Delete one for good; its steps stay in their session. */
  delete(id: string): Promise<void>;
  /** All of it as a text: Markdown for people, JSON for programs. */
  export(id: string, as: 'markdown' | 'json'): Promise<string>;
  standing(): Promise<ModelStanding | null>;

  /** The one that the chat panel shows; null where none is. */
  readonly current: IConversation | null;
  readonly currentChanged: ISignal<this, IConversation | null>;
  /** The chat panel says which one it shows. */
  show(conversation: IConversation | null): void;

  /** Approvals and questions that wait in the conversations of a session (for the status button). */
  waiting(session: string): number;
  readonly waitingChanged: ISignal<this, void>;
  /** Conversations were begun, renamed or deleted: lists are read anew. */
  readonly listChanged: ISignal<this, void>;
}

export const IAgent = new Token<IAgent>(
  '@jupyter-reprise/lab:IAgent',
  'Conversations with the agent: open, say, stop, answer, undo.'
);

/** What a composer writes to: the conversation at hand, or the one that its first words begin. */
export interface IComposerHost {
  readonly conversation: IConversation | null;
  readonly conversationChanged: ISignal<this, IConversation | null>;
  /** The session and notebook at hand, which a first word begins a conversation in. */
  readonly session: string | null;
  readonly notebook: string | null;
  /** Say it: begins a conversation where there is none, queues while a turn runs. Rejects with
   * ApiError where it was not taken; the words stay in the composer then. */
  send(text: string): Promise<void>;
  stop(): Promise<void>;
}

/** A widget in which words are written; the chat panel stands it at its bottom. */
export interface IComposer extends Widget {
  /** Put the focus where words are typed. */
  focusInput(): void;
  /** Put words there, for the person to send; what stands there already stays before them. */
  insert(text: string): void;
  /** Whether something is written that was not sent. */
  readonly empty: boolean;
}

/** Makes composers (src/composer provides it). */
export interface IComposerFactory {
  create(host: IComposerHost): IComposer;
}

export const IComposerFactory = new Token<IComposerFactory>(
  '@jupyter-reprise/lab:IComposerFactory',
  'Makes the widget in which words to the agent are written.'
);

/** What the chat panel lends to others. */
export interface IChat {
  /** Open the panel beside the notebook at hand, and begin or open its conversation. */
  reveal(): Promise<void>;
  /** The conversation at hand, begun if there is none (for "Ask about this cell"). */
  ensure(): Promise<IConversation>;
  /** Put the focus where words are typed. */
  focus(): void;
  /** Put words into the composer, without sending them. */
  suggest(text: string): void;
}

export const IChat = new Token<IChat>(
  '@jupyter-reprise/lab:IChat',
  'The chat panel: shown, focused, given words.'
);

export type { Conversation, Turn, TurnEnd };
