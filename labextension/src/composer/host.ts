// A conversation of the agent's service as a composer writes to it.

import { ISignal, Signal } from '@lumino/signaling';

import type { IConversation } from '../agent/tokens';
import type { ComposerAct, ComposerState, IComposerHost, IEntry, IMessage } from './tokens';

/** Writes to a conversation that is open. Whoever holds it open disposes this. */
export class ConversationHost implements IComposerHost {
  /** suffix: tells two inputs of one conversation apart, as at a cell. acts: commands. */
  constructor(
    private readonly _conversation: IConversation,
    options: {
      readonly suffix?: string;
      readonly acts?: ReadonlyMap<ComposerAct, () => Promise<void>>;
      readonly why?: (conversation: IConversation) => string;
    } = {}
  ) {
    this.key = _conversation.id + (options.suffix ?? '');
    this._acts = options.acts ?? new Map();
    this._why = options.why ?? (() => '');
    _conversation.changed.connect(this._told, this);
  }

  readonly key: string;
  isDisposed = false;

  get state(): ComposerState {
    const { yours, running, stopping } = this._conversation;
    if (!yours) {
      return 'closed';
    }
    return stopping ? 'stopping' : running ? 'running' : 'ready';
  }

  get why(): string {
    return this._why(this._conversation);
  }

  get ended(): string | null {
    return this._conversation.ended;
  }

  get conversation(): string {
    return this._conversation.id;
  }

  get session(): string | null {
    const { session } = this._conversation.model;
    return session === '' ? (this._conversation.info?.session ?? null) : session;
  }

  get path(): string | null {
    return this._conversation.info?.notebook ?? this._conversation.model.notebook;
  }

  get entries(): readonly IEntry[] {
    return this._conversation.entries;
  }

  get acts(): ReadonlyMap<ComposerAct, () => Promise<void>> {
    return this._acts;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get disposed(): ISignal<this, void> {
    return this._disposed;
  }

  send(message: IMessage): Promise<void> {
    return this._conversation.say(message.text, message.brought);
  }

  stop(): Promise<void> {
    return this._conversation.cancel();
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this._conversation.changed.disconnect(this._told, this);
    this._disposed.emit();
    Signal.clearData(this);
  }

  private _told(): void {
    this._changed.emit();
  }

  private readonly _acts: ReadonlyMap<ComposerAct, () => Promise<void>>;
  private readonly _why: (conversation: IConversation) => string;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _disposed = new Signal<this, void>(this);
}
