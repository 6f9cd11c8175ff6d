// The conversation of a notebook as an input at a cell writes to it; begun with the first words.

import { ISignal, Signal } from '@lumino/signaling';

import type { IAgent, IConversation, IHeld } from '../agent/tokens';
import { firstLine } from '../parts/words';
import type { ComposerAct, ComposerState, IComposerHost, IEntry, IMessage } from './tokens';

/** Where an input at a cell asks. */
export interface IAsking {
  readonly path: string;
  readonly cell: string;
  /** The session of the notebook, while it is known. */
  readonly session: () => string | null;
  /** In words, why nothing can be asked where no session is known. */
  readonly why: string;
}

const NO_ENTRIES: readonly IEntry[] = [];
const NO_ACTS: ReadonlyMap<ComposerAct, () => Promise<void>> = new Map();
/** Characters of a title that is made of the first words. */
const TITLE = 80;

export class InlineHost implements IComposerHost {
  /** held: the conversation at hand; null where the notebook has none. */
  constructor(
    private readonly _agent: IAgent,
    private readonly _asking: IAsking,
    held: IHeld | null
  ) {
    this._take(held);
  }

  /** Of its own at each cell: the chat's draft is another one. */
  get key(): string {
    return `cell:${this._asking.path}:${this._asking.cell}`;
  }

  isDisposed = false;

  get shown(): IConversation | null {
    return this._held?.conversation ?? null;
  }

  /** The message that was sent from here last; null before the first. */
  get sent(): string | null {
    return this._sent;
  }

  get state(): ComposerState {
    const shown = this.shown;
    if (shown === null) {
      return this._begins ? 'running' : this._asking.session() === null ? 'closed' : 'ready';
    }
    if (!shown.yours) {
      return 'closed';
    }
    return shown.stopping ? 'stopping' : shown.running || this._begins ? 'running' : 'ready';
  }

  get why(): string {
    return this._asking.why;
  }

  get ended(): string | null {
    return this.shown?.ended ?? null;
  }

  get conversation(): string | null {
    return this.shown?.id ?? null;
  }

  get session(): string | null {
    const session = this.shown?.model.session ?? '';
    return session === '' ? this._asking.session() : session;
  }

  get path(): string {
    return this._asking.path;
  }

  get entries(): readonly IEntry[] {
    return this.shown?.entries ?? NO_ENTRIES;
  }

  get acts(): ReadonlyMap<ComposerAct, () => Promise<void>> {
    return NO_ACTS;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get disposed(): ISignal<this, void> {
    return this._disposed;
  }

  async send(message: IMessage): Promise<void> {
    const before = this._sent;
    this._sent = message.text;
    try {
      const conversation = this.shown ?? (await this._begin(message.text));
      await conversation.say(message.text, message.brought);
    } catch (failed) {
      this._sent = before;
      throw failed;
    } finally {
      this._changed.emit();
    }
  }

  async stop(): Promise<void> {
    await this.shown?.cancel();
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this._held?.conversation.changed.disconnect(this._told, this);
    this._held?.dispose();
    this._disposed.emit();
    Signal.clearData(this);
  }

  private async _begin(text: string): Promise<IConversation> {
    const session = this._asking.session();
    if (session === null) {
      throw new Error(this._asking.why);
    }
    this._begins = true;
    this._changed.emit();
    try {
      const title = firstLine(text, TITLE);
      const held = await this._agent.begin({ session, notebook: this._asking.path, title });
      this._take(held);
      return held.conversation;
    } finally {
      this._begins = false;
    }
  }

  private _take(held: IHeld | null): void {
    if (held !== null && this.isDisposed) {
      held.dispose();
      return;
    }
    this._held = held;
    held?.conversation.changed.connect(this._told, this);
    this._changed.emit();
  }

  private _told(): void {
    this._changed.emit();
  }

  private _held: IHeld | null = null;
  private _sent: string | null = null;
  private _begins = false;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _disposed = new Signal<this, void>(this);
}
