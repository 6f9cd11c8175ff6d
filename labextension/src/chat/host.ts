/** A conversation, or the one that the first words begin, as the composer writes to it. */

import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import { CONTINUABLE } from '../agent/fold';
import type { Entry } from '../agent/model';
import type { IAgent, IConversation, IHeld } from '../agent/tokens';
import type { ComposerAct, ComposerState, IComposerHost, IMessage } from '../composer/tokens';
import { firstLine } from '../parts/words';

/** Characters of a title that is made of the first words. */
const TITLE = 80;

const NO_ENTRIES: readonly Entry[] = [];

/** What the panel does for a host beyond its conversation. */
export interface HostActs {
  undo(conversation: IConversation): Promise<void>;
  fresh(): Promise<void>;
  export(conversation: IConversation): Promise<void>;
}

/** Where a first message begins a conversation. */
export interface Where {
  readonly session: string | null;
  readonly path: string | null;
  /** Why none can be begun there; "" where one can. */
  readonly why: string;
}

export class Host implements IComposerHost, IDisposable {
  /**
   * @param _words why nothing can be said in it, in the language of the page; "" where it can
   * @param held the conversation; null: the first message begins it
   */
  constructor(
    private readonly _agent: IAgent,
    private readonly _acts: HostActs,
    private readonly _words: (conversation: IConversation | null, where: Where) => string,
    private _where: Where,
    held: IHeld | null
  ) {
    this._take(held);
  }

  /** What is shown; null until it is begun. */
  get shown(): IConversation | null {
    return this._held?.conversation ?? null;
  }

  get key(): string {
    return this._held?.conversation.id ?? `new:${this._where.path ?? ''}`;
  }

  get state(): ComposerState {
    if (this.why !== '') {
      return 'closed';
    }
    const shown = this.shown;
    if (shown?.stopping === true) {
      return 'stopping';
    }
    return this._beginning || shown?.running === true ? 'running' : 'ready';
  }

  get why(): string {
    return this._words(this.shown, this._where);
  }

  /** Why nothing can be said may be another reason by now. */
  refresh(): void {
    this._changed.emit();
  }

  get ended(): string | null {
    return this.shown?.ended ?? null;
  }

  get conversation(): string | null {
    return this.shown?.id ?? null;
  }

  get session(): string | null {
    const session = this.shown?.model.session ?? '';
    return session === '' ? this._where.session : session;
  }

  get path(): string | null {
    return this.shown?.model.notebook ?? this._where.path;
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

  get acts(): ReadonlyMap<ComposerAct, () => Promise<void>> {
    const acts = new Map<ComposerAct, () => Promise<void>>([['new', () => this._acts.fresh()]]);
    const shown = this.shown;
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
    this._changed.emit();
  }

  /** How many messages were sent from here. */
  get sent(): number {
    return this._sent;
  }

  async send(message: IMessage): Promise<void> {
    this._sent += 1;
    const shown = this.shown;
    if (shown !== null) {
      await shown.say(message.text, message.brought);
      return;
    }
    const { session, path } = this._where;
    if (session === null) {
      throw new Error(this.why);
    }
    this._beginning = true;
    this._changed.emit();
    try {
      const held = await this._agent.begin({
        session,
        title: firstLine(message.text, TITLE),
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
    this.shown?.changed.disconnect(this._onChanged, this);
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
    held?.conversation.changed.connect(this._onChanged, this);
    this._changed.emit();
  }

  private _onChanged(): void {
    this._changed.emit();
  }

  private readonly _changed = new Signal<IComposerHost, void>(this);
  private readonly _disposed = new Signal<IComposerHost, void>(this);
  private _held: IHeld | null = null;
  private _beginning = false;
  private _sent = 0;
  private _isDisposed = false;
}
