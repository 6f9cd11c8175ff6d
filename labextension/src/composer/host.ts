// A conversation, or the one that the first message begins, as a composer writes to it.

import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import type { Entry } from '../agent/model';
import type { IAgent, IConversation, IHeld } from '../agent/tokens';
import { titleFor } from './message';
import type { ComposerAct, ComposerState, IComposerHost, IMessage } from './tokens';

const NO_ENTRIES: readonly Entry[] = [];

/** Where a first message begins a conversation. */
export interface IPlace {
  readonly session: string | null;
  readonly path: string | null;
}

export abstract class ConversationHost implements IComposerHost, IDisposable {
  /** held: the conversation; null: the first message begins it. */
  constructor(
    private readonly _agent: IAgent,
    held: IHeld | null
  ) {
    this._take(held);
  }

  abstract readonly key: string;
  /** Why nothing can be said, in the language of the page; "" where it can. */
  abstract readonly why: string;
  abstract readonly acts: ReadonlyMap<ComposerAct, () => Promise<void>>;

  protected abstract get place(): IPlace;

  /** What is shown; null until it is begun. */
  get shown(): IConversation | null {
    return this._held?.conversation ?? null;
  }

  get known(): boolean {
    return this.shown === null || this.shown.info !== null;
  }

  get state(): ComposerState {
    if (this.why !== '') {
      return 'closed';
    }
    const { shown } = this;
    if (shown?.stopping === true) {
      return 'stopping';
    }
    return this._beginning || shown?.running === true ? 'running' : 'ready';
  }

  get ended(): string | null {
    const { shown } = this;
    // Open, and nobody runs it here: whoever ran it is gone, or another process goes on with it.
    return shown?.model.open === true && !shown.running ? 'interrupted' : (shown?.ended ?? null);
  }

  get conversation(): string | null {
    return this.shown?.id ?? null;
  }

  get session(): string | null {
    const session = this.shown?.model.session ?? '';
    return session === '' ? this.place.session : session;
  }

  get path(): string | null {
    return this.shown?.model.notebook ?? this.place.path;
  }

  get entries(): readonly Entry[] {
    return this.shown?.entries ?? NO_ENTRIES;
  }

  get changed(): ISignal<IComposerHost, void> {
    return this._changed;
  }

  get disposed(): ISignal<IComposerHost, void> {
    return this._disposed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Why nothing can be said may be another reason by now. */
  refresh(): void {
    this._changed.emit();
  }

  async send(message: IMessage): Promise<void> {
    const { shown } = this;
    if (shown !== null) {
      await shown.say(message.text, message.brought);
      return;
    }
    const { session, path } = this.place;
    if (session === null) {
      throw new Error(this.why);
    }
    this._beginning = true;
    this._changed.emit();
    try {
      const held = await this._agent.begin({
        session,
        title: titleFor(message.text),
        ...(path === null ? {} : { notebook: path })
      });
      try {
        await held.conversation.say(message.text, message.brought);
      } finally {
        // Begun it is, whatever became of its first words.
        this._take(held);
      }
    } finally {
      this._beginning = false;
      this._changed.emit();
    }
  }

  async stop(): Promise<void> {
    await this.shown?.cancel();
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this.shown?.changed.disconnect(this.refresh, this);
    this._held?.dispose();
    this._disposed.emit();
    Signal.clearData(this);
  }

  private _take(held: IHeld | null): void {
    if (held !== null && this._isDisposed) {
      held.dispose();
      return;
    }
    this._held = held;
    held?.conversation.changed.connect(this.refresh, this);
    this._changed.emit();
  }

  private readonly _changed = new Signal<IComposerHost, void>(this);
  private readonly _disposed = new Signal<IComposerHost, void>(this);
  private _held: IHeld | null = null;
  private _beginning = false;
  private _isDisposed = false;
}
