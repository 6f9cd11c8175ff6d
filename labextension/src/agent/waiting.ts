/** How many questions wait in the conversations of each session, open in this page or not. */

import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import { ApiError, type IApi, type RepriseEvent } from '../api/tokens';

/** Conversations of a session that are looked at: what waits is in the newest ones. */
const LOOKED_AT = 5;
/** What changes how many wait. */
const CHANGES = new Set([
  'question',
  'decided',
  'turn-ended',
  'turn-continued',
  'undone',
  'deleted'
]);

interface Known {
  readonly session: string;
  readonly count: number;
}

export class Waiting implements IDisposable {
  constructor(private readonly _api: IApi) {
    _api.events.connect(this._onEvent, this);
    _api.connection.restored.connect(this._onRestored, this);
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Looks the session up when it is asked about for the first time. */
  of(session: string): number {
    if (!this._sessions.has(session)) {
      this._sessions.add(session);
      void this._look(session);
    }
    let count = 0;
    for (const known of this._known.values()) {
      count += known.session === session ? known.count : 0;
    }
    return count;
  }

  /** An open conversation says itself what waits in it. */
  set(conversation: string, session: string, count: number): void {
    this._newer(conversation);
    this._set(conversation, session, count);
  }

  private _set(conversation: string, session: string, count: number): void {
    const known = this._known.get(conversation);
    if (known?.session === session && known.count === count) {
      return;
    }
    this._known.set(conversation, { session, count });
    this._changed.emit();
  }

  dispose(): void {
    if (this._disposed) {
      return;
    }
    this._disposed = true;
    this._api.events.disconnect(this._onEvent, this);
    this._api.connection.restored.disconnect(this._onRestored, this);
    Signal.clearData(this);
  }

  private _onRestored(): void {
    for (const session of this._sessions) {
      void this._look(session);
    }
  }

  private _onEvent(_: IApi, event: RepriseEvent): void {
    if (event.about === 'conversation' && CHANGES.has(event.action)) {
      if (event.action === 'deleted') {
        this._newer(event.conversation);
        this._known.delete(event.conversation);
        this._changed.emit();
      } else {
        void this._ask(event.conversation);
      }
    }
  }

  private async _look(session: string): Promise<void> {
    await unlessRefused(async () => {
      const { conversations } = await this._api.get('/conversations', {
        params: { query: { session, limit: LOOKED_AT } }
      });
      await Promise.all(conversations.map(each => this._ask(each.id)));
    });
  }

  private async _ask(conversation: string): Promise<void> {
    const number = this._newer(conversation);
    await unlessRefused(async () => {
      const { session, questions } = await this._api.get('/conversations/{conversation}', {
        params: { path: { conversation } }
      });
      // What was found out since is newer than this.
      if (!this._disposed && number === this._asked.get(conversation)) {
        this._set(conversation, session, questions.length);
      }
    });
  }

  private _newer(conversation: string): number {
    const number = (this._asked.get(conversation) ?? 0) + 1;
    this._asked.set(conversation, number);
    return number;
  }

  private readonly _changed = new Signal<this, void>(this);
  private readonly _known = new Map<string, Known>();
  /** How often each was asked about, or was told of itself: answers may come in another order. */
  private readonly _asked = new Map<string, number>();
  private readonly _sessions = new Set<string>();
  private _disposed = false;
}

/** A count that cannot be had stays as it was; `restored` asks again. */
async function unlessRefused(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof ApiError)) {
      throw error;
    }
  }
}
