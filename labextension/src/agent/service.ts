/** The agent's service: lists, begins and holds conversations open; one object for each that is. */

import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import type { IApi, RepriseEvent } from '../api/tokens';
import { OpenConversation } from './conversation';
import type {
  BeginAsked,
  ConversationInfo,
  IAgent,
  IConversation,
  IHeld,
  ListAsked,
  ModelStanding
} from './tokens';
import { Waiting } from './waiting';

/** What changes a list of conversations. */
const LISTED = new Set(['begun', 'renamed', 'deleted', 'turn-began', 'undone']);

/** Characters of a search. */
const WORDS = 200;

interface Shared {
  readonly conversation: OpenConversation;
  holders: number;
}

export class Agent implements IAgent, IDisposable {
  constructor(private readonly _api: IApi) {
    this._waiting = new Waiting(_api);
    this._waiting.changed.connect(() => this._waitingChanged.emit());
    _api.events.connect(this._onEvent, this);
  }

  get current(): IConversation | null {
    return this._current;
  }

  get currentChanged(): ISignal<this, IConversation | null> {
    return this._currentChanged;
  }

  get opened(): readonly IConversation[] {
    return [...this._shared.values()].map(each => each.conversation);
  }

  get openedChanged(): ISignal<this, void> {
    return this._openedChanged;
  }

  get waitingChanged(): ISignal<this, void> {
    return this._waitingChanged;
  }

  get listChanged(): ISignal<this, void> {
    return this._listChanged;
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  async list(asked: ListAsked): Promise<readonly ConversationInfo[]> {
    const q = asked.words?.trim() ?? '';
    const { session, notebook } = asked;
    const { conversations } = await this._api.get('/conversations', {
      params: {
        query: {
          ...(session === undefined ? {} : { session }),
          ...(notebook === undefined ? {} : { notebook }),
          ...(q === '' ? {} : { q: q.slice(0, WORDS) })
        }
      }
    });
    return conversations;
  }

  async begin(asked: BeginAsked): Promise<IHeld> {
    const { id } = await this._api.post('/conversations', { body: { ...asked } });
    this._listChanged.emit();
    return this.open(id);
  }

  open(id: string): IHeld {
    let shared = this._shared.get(id);
    if (shared === undefined) {
      const conversation = new OpenConversation(this._api, id);
      conversation.changed.connect(this._onChanged, this);
      shared = { conversation, holders: 0 };
      this._shared.set(id, shared);
      this._openedChanged.emit();
    }
    const held = shared;
    held.holders += 1;
    const delegate = new DisposableDelegate(() => this._letGo(id, held));
    return Object.assign(delegate, { conversation: held.conversation });
  }

  async rename(id: string, title: string): Promise<void> {
    await this._api.patch('/conversations/{conversation}', {
      params: { path: { conversation: id } },
      body: { title }
    });
    await this._shared.get(id)?.conversation.refreshInfo();
    this._listChanged.emit();
  }

  async delete(id: string): Promise<void> {
    await this._api.delete('/conversations/{conversation}', {
      params: { path: { conversation: id } }
    });
    this._listChanged.emit();
  }

  async export(id: string, as: 'markdown' | 'json'): Promise<string> {
    const path = `conversations/${encodeURIComponent(id)}/export?form=${as}`;
    return (await this._api.fetch(path)).text();
  }

  async standing(): Promise<ModelStanding> {
    return this._api.get('/agent');
  }

  show(conversation: IConversation | null): void {
    if (conversation !== this._current) {
      this._current = conversation;
      this._currentChanged.emit(conversation);
    }
  }

  waiting(session: string): number {
    return this._waiting.of(session);
  }

  dispose(): void {
    if (this._disposed) {
      return;
    }
    this._disposed = true;
    this._api.events.disconnect(this._onEvent, this);
    this._waiting.dispose();
    for (const { conversation } of this._shared.values()) {
      conversation.dispose();
    }
    this._shared.clear();
    Signal.clearData(this);
  }

  private _letGo(id: string, shared: Shared): void {
    shared.holders -= 1;
    if (shared.holders > 0 || this._shared.get(id) !== shared) {
      return;
    }
    this._shared.delete(id);
    shared.conversation.dispose();
    if (this._current === shared.conversation) {
      this.show(null);
    }
    this._openedChanged.emit();
  }

  private _onChanged(conversation: OpenConversation): void {
    const { id, model } = conversation;
    if (model.session !== '') {
      this._waiting.set(id, model.session, model.questions.length);
    }
  }

  private _onEvent(_: IApi, event: RepriseEvent): void {
    if (event.about === 'conversation' && LISTED.has(event.action)) {
      this._listChanged.emit();
    }
  }

  private readonly _waiting: Waiting;
  private readonly _shared = new Map<string, Shared>();
  private readonly _currentChanged = new Signal<this, IConversation | null>(this);
  private readonly _openedChanged = new Signal<this, void>(this);
  private readonly _waitingChanged = new Signal<this, void>(this);
  private readonly _listChanged = new Signal<this, void>(this);
  private _current: IConversation | null = null;
  private _disposed = false;
}
