/** The agent's service: conversations, each open one with its line to the server (interfaces only). */

import type { IDisposable } from '@lumino/disposable';
import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';

import type { Conversation, Entry, Turn, TurnEnd } from './model';

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
  /** Of a tool: its name; `text` is its input as far as it came. */
  readonly name: string;
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

/** Any message of the server's, as `x-websockets` of the OpenAPI document says. */
export type Told = { readonly type: string } & Readonly<Record<string, unknown>>;

/** A thing that a person brought into their words: a cell, a variable, a file, a skill. */
export interface Brought {
  readonly kind: 'cell' | 'variable' | 'file' | 'skill';
  readonly name: string;
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
  readonly notebook: string | null;
}

/** Holds a conversation open, with its line; the last one that is disposed closes it. */
export interface IHeld extends IDisposable {
  readonly conversation: IConversation;
}

/** An open conversation, one object for all of the page that hold it open. */
export interface IConversation {
  readonly id: string;
  /** Title, notebook, times; null until they are known. */
  readonly info: ConversationInfo | null;
  /** Folded from entries: a value. Compare objects to see what changed. */
  readonly model: Conversation;
  /** What `model` was folded from, in order. Begins with the newest ones until `whole`. */
  readonly entries: readonly Entry[];
  /** Whether all entries there are have come; until then `model` lacks its oldest turns. */
  readonly whole: boolean;
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

  /** Model, line or standing changed. Joined: at most once a frame. */
  readonly changed: ISignal<this, void>;
  /** The draft or a call's output changed. Joined: at most once a frame. */
  readonly streamed: ISignal<this, void>;
  /** An entry was committed, each once, in order; of those that were there before, none. */
  readonly entered: ISignal<this, Entry>;
  /** Whatever the server tells, as it comes. */
  readonly told: ISignal<this, Told>;

  /** Begin a turn. Rejects with ApiError (409 `turn-runs` while one runs); nothing was said then.
   * brought: what stands in the words that was brought from elsewhere. */
  say(text: string, brought?: readonly Brought[]): Promise<void>;
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
  /** Tell the agent that it may ask once more for a call that nobody answered. */
  askAgain(call: string): Promise<void>;
  /** Send a message, as `x-websockets` has them; it is given an id, and settles with its `done` or
   * `refused` (ApiError). One without an answer of its own (`notebook-answer`) when it is sent. */
  post(message: { readonly type: string } & Readonly<Record<string, unknown>>): Promise<void>;
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
  readonly ready: boolean;
  readonly why: string | null;
  readonly context_tokens: number;
  /** What one conversation may cost. */
  readonly money: { readonly amount: string; readonly currency: string } | null;
  readonly scripted: boolean;
}

export interface IAgent {
  list(asked: ListAsked): Promise<readonly ConversationInfo[]>;
  /** Begin one and open it. Rejects with ApiError (503 where the model cannot be asked). */
  begin(asked: BeginAsked): Promise<IHeld>;
  /** Hold one open: it is connected, and connected again, until all that hold it let go. */
  open(id: string): IHeld;
  /** Those that are held open in this page. */
  readonly opened: readonly IConversation[];
  readonly openedChanged: ISignal<this, void>;
  rename(id: string, title: string): Promise<void>;
  /** Delete one for good; its steps stay in their session. */
  delete(id: string): Promise<void>;
  /** All of it as a text: Markdown for people, JSON for programs. */
  export(id: string, as: 'markdown' | 'json'): Promise<string>;
  /** Which model answers here, and whether it can be asked. */
  standing(): Promise<ModelStanding>;

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

export type { Conversation, Entry, Turn, TurnEnd };
