/** What others may use of the chat: its commands, and the way to its composer. */

import { Token } from '@lumino/coreutils';

import type { IConversation } from '../agent/tokens';
import type { IComposer } from '../composer/tokens';

export const ChatCommands = {
  /** Shows the chat of the notebook at hand, and puts the focus into its composer. */
  open: 'reprise:open-chat',
  /** Shows what waits for a person. It presses nothing. */
  nextQuestion: 'reprise:next-question',
  /** Stops the turn that runs; asked again, without waiting for what runs to end. */
  stop: 'reprise:stop-turn',
  fresh: 'reprise:new-conversation',
  list: 'reprise:list-conversations',
  continue: 'reprise:continue-turn',
  /** Asks, and then undoes the newest turn. */
  undo: 'reprise:undo-turn',
  rename: 'reprise:rename-conversation',
  exportMarkdown: 'reprise:export-conversation',
  exportJson: 'reprise:export-conversation-json',
  remove: 'reprise:delete-conversation'
} as const;

/** The chat panel, shown and given words. */
export interface IChat {
  /** Show the panel at the conversation of the notebook at hand, or of this one. */
  reveal(path?: string): void;
  /** Show one conversation. */
  show(conversation: string): void;
  /** The composer of the panel, which is shown, at the conversation of the notebook with this path. */
  composer(path: string): Promise<IComposer>;
  /** The conversation that is shown; null where none is begun. */
  readonly conversation: IConversation | null;
}

export const IChat = new Token<IChat>(
  '@jupyter-reprise/lab:IChat',
  'The chat panel: shown, and its composer.'
);
