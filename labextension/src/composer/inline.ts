// The conversation of a notebook as an input at a cell writes to it; begun with the first words.

import type { IAgent, IHeld } from '../agent/tokens';
import { ConversationHost, type IPlace } from './host';
import type { ComposerAct, IMessage } from './tokens';

/** Where an input at a cell asks. */
export interface IAsking {
  readonly path: string;
  readonly cell: string;
  /** The session of the notebook, while it is known. */
  readonly session: () => string | null;
  /** In words, why nothing can be asked: no session is known, or the conversation is another's. */
  readonly unknown: string;
  readonly another: string;
}

const NO_ACTS: ReadonlyMap<ComposerAct, () => Promise<void>> = new Map();

export class InlineHost extends ConversationHost {
  /** held: the conversation at hand; null where the notebook has none. */
  constructor(
    agent: IAgent,
    private readonly _asking: IAsking,
    held: IHeld | null
  ) {
    super(agent, held);
  }

  /** Of its own at each cell: the chat's draft is another one. */
  get key(): string {
    return `cell:${this._asking.path}:${this._asking.cell}`;
  }

  /** The message that was sent from here last; null before the first. */
  get sent(): string | null {
    return this._sent;
  }

  get why(): string {
    const { shown } = this;
    if (shown === null) {
      return this._asking.session() === null ? this._asking.unknown : '';
    }
    return shown.info !== null && !shown.yours ? this._asking.another : '';
  }

  override get path(): string {
    return this._asking.path;
  }

  get acts(): ReadonlyMap<ComposerAct, () => Promise<void>> {
    return NO_ACTS;
  }

  override async send(message: IMessage): Promise<void> {
    const before = this._sent;
    this._sent = message.text;
    try {
      await super.send(message);
    } catch (failed) {
      this._sent = before;
      throw failed;
    } finally {
      this.refresh();
    }
  }

  protected get place(): IPlace {
    return { session: this._asking.session(), path: this._asking.path };
  }

  private _sent: string | null = null;
}
