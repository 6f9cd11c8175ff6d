/** The conversation of the panel, or the one that the first words begin, as its composer writes to it. */

import { CONTINUABLE } from '../agent/fold';
import type { IAgent, IConversation, IHeld } from '../agent/tokens';
import { ConversationHost, type IPlace } from '../composer/host';
import type { ComposerAct, IMessage } from '../composer/tokens';

/** What the panel does for a host beyond its conversation. */
export interface HostActs {
  undo(conversation: IConversation): Promise<void>;
  fresh(): Promise<void>;
  export(conversation: IConversation): Promise<void>;
}

/** Where a first message begins a conversation. */
export interface Where extends IPlace {
  /** Why none can be begun there; "" where one can. */
  readonly why: string;
}

export class Host extends ConversationHost {
  /**
   * @param _words why nothing can be said in it, in the language of the page; "" where it can
   * @param held the conversation; null: the first message begins it
   */
  constructor(
    agent: IAgent,
    private readonly _acts: HostActs,
    private readonly _words: (conversation: IConversation | null, where: Where) => string,
    private _where: Where,
    held: IHeld | null
  ) {
    super(agent, held);
  }

  get key(): string {
    return this.conversation ?? `new:${this._where.path ?? ''}`;
  }

  get why(): string {
    return this._words(this.shown, this._where);
  }

  get acts(): ReadonlyMap<ComposerAct, () => Promise<void>> {
    const acts = new Map<ComposerAct, () => Promise<void>>([['new', () => this._acts.fresh()]]);
    const { shown } = this;
    if (shown === null) {
      return acts;
    }
    acts.set('export', () => this._acts.export(shown));
    const turn = shown.model.turns.at(-1);
    if (shown.yours && !shown.running && turn !== undefined) {
      if (turn.ended !== null && turn.undone === null && CONTINUABLE.has(turn.ended)) {
        acts.set('continue', () => shown.goOn());
      }
      if (shown.model.turns.some(each => each.undone === null)) {
        acts.set('undo', () => this._acts.undo(shown));
      }
    }
    return acts;
  }

  /** The notebook has another session, or another path. */
  set where(where: Where) {
    this._where = where;
    this.refresh();
  }

  /** How many messages were sent from here. */
  get sent(): number {
    return this._sent;
  }

  override async send(message: IMessage): Promise<void> {
    this._sent += 1;
    await super.send(message);
  }

  protected get place(): IPlace {
    return this._where;
  }

  private _sent = 0;
}
