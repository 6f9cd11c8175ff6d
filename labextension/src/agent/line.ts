/** The line to one conversation: a websocket that is opened again, with `after`, whenever it breaks. */

import { URLExt } from '@jupyterlab/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import { ApiError, type IApi } from '../api/tokens';
import { record, word } from './bodies';
import type { LineState, Told } from './tokens';

/** Milliseconds between tries while the server answers and the websocket does not stand. */
const WAITS = [500, 1_000, 2_000, 4_000, 8_000, 15_000, 30_000];
/** The server closed it since this page was too slow to read: it comes again at once. */
const SLOW = 4008;
/** A timer that is this late in milliseconds ran in a machine that slept: what stood is dead by now. */
const SLEPT = 30_000;
const TICK = 5_000;

/** Messages that the server does not answer. */
const UNANSWERED = new Set(['notebook-answer']);

export type Message = { readonly type: string } & Readonly<Record<string, unknown>>;

interface Pending {
  readonly done: () => void;
  readonly failed: (error: ApiError) => void;
}

export class Line implements IDisposable {
  /**
   * @param after the newest entry that is known, asked at each opening
   */
  constructor(
    private readonly _api: IApi,
    private readonly _conversation: string,
    private readonly _after: () => number
  ) {}

  get state(): LineState {
    return this._state;
  }

  get changed(): ISignal<this, LineState> {
    return this._changed;
  }

  /** All that is told, `done` and `refused` of messages from here apart. */
  get told(): ISignal<this, Told> {
    return this._told;
  }

  get isDisposed(): boolean {
    return this._state.is === 'closed';
  }

  open(): void {
    if (this._begun || this.isDisposed) {
      return;
    }
    this._begun = true;
    this._api.connection.changed.connect(this._onConnection, this);
    if (typeof window !== 'undefined') {
      window.addEventListener('online', this._again);
    }
    this._ticked = Date.now();
    this._ticker = setInterval(this._tick, TICK);
    this._connect();
  }

  /** Open it anew, at once. */
  reconnect(): void {
    if (!this.isDisposed && this._begun) {
      this._connect();
    }
  }

  /** Send a message; settles with the server's answer to it. */
  post(message: Message): Promise<void> {
    const socket = this._socket;
    if (socket?.readyState !== 1) {
      return Promise.reject(
        new ApiError(
          0,
          'offline',
          'The line to this conversation is down, so nothing was sent. It is tried again by itself.'
        )
      );
    }
    if (UNANSWERED.has(message.type)) {
      socket.send(JSON.stringify(message));
      return Promise.resolve();
    }
    this._sent += 1;
    const id = `m${this._sent}`;
    return new Promise((done, failed) => {
      this._pending.set(id, { done, failed });
      socket.send(JSON.stringify({ ...message, id }));
    });
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._set({ is: 'closed' });
    this._api.connection.changed.disconnect(this._onConnection, this);
    if (typeof window !== 'undefined') {
      window.removeEventListener('online', this._again);
    }
    clearInterval(this._ticker);
    this._hangUp();
    Signal.clearData(this);
  }

  private _connect(): void {
    this._hangUp();
    const { settings } = this._api;
    const path = `reprise/api/conversations/${encodeURIComponent(this._conversation)}/socket`;
    const query = new URLSearchParams({ after: String(this._after()) });
    if (settings.appendToken && settings.token !== '') {
      query.set('token', settings.token);
    }
    const url = `${URLExt.join(settings.wsUrl, path)}?${query.toString()}`;
    const socket = new settings.WebSocket(url);
    this._socket = socket;
    socket.onmessage = event => {
      if (socket === this._socket) {
        this._hear(String(event.data));
      }
    };
    socket.onclose = event => {
      if (socket === this._socket) {
        this._socket = null;
        void this._broke(event.code);
      }
    };
    // `close` follows and says all there is.
    socket.onerror = () => undefined;
  }

  private _hear(text: string): void {
    const told = JSON.parse(text) as Told;
    if (told.type === 'hello') {
      this._set({ is: 'live' });
    } else if (told.type === 'told') {
      this._tries = 0;
    } else if (told.type === 'done' || told.type === 'refused') {
      const pending = this._pending.get(word(told['id']));
      if (pending !== undefined) {
        this._pending.delete(word(told['id']));
        if (told.type === 'done') {
          pending.done();
        } else {
          pending.failed(refusal(told['error']));
        }
        return;
      }
    }
    this._told.emit(told);
  }

  private async _broke(code: number): Promise<void> {
    this._letDown();
    if (code === SLOW) {
      this._connect();
      return;
    }
    if (this._state.is === 'live') {
      this._lostAt = Date.now();
    }
    // Why, a websocket does not say; a request does.
    try {
      await this._api.get('/conversations/{conversation}', {
        params: { path: { conversation: this._conversation } }
      });
    } catch (error) {
      this._found(error);
      return;
    }
    if (this.isDisposed || this._socket !== null) {
      return;
    }
    this._waitOwn();
  }

  /** The server answers, but this line does not stand: tried again, less and less often. */
  private _waitOwn(): void {
    const wait = WAITS[Math.min(this._tries, WAITS.length - 1)] ?? 0;
    this._tries += 1;
    this._set({ is: 'offline', since: this._lostAt, nextTry: Date.now() + wait });
    this._timer = setTimeout(this._again, wait);
  }

  private _found(error: unknown): void {
    if (this.isDisposed || this._socket !== null) {
      return;
    }
    if (!(error instanceof ApiError)) {
      throw error;
    }
    if (error.status === 0 || error.status >= 500 || error.status === 429) {
      this._followConnection();
    } else if (error.code === 'not-authenticated') {
      this._set({ is: 'expired' });
    } else {
      this._set({ is: 'refused', code: error.code, why: error.message });
    }
  }

  /** While the server cannot be reached, its own line says when it is tried next. */
  private _followConnection(): void {
    const { line } = this._api.connection;
    if (line.state === 'offline') {
      this._set({ is: 'offline', since: this._lostAt, nextTry: line.next.getTime() });
    } else if (line.state === 'expired') {
      this._set({ is: 'expired' });
    } else {
      this._waitOwn();
    }
  }

  private _onConnection(): void {
    const { line } = this._api.connection;
    if (this._socket !== null || this._state.is === 'refused') {
      return;
    }
    if (line.state === 'online') {
      this._connect();
    } else {
      clearTimeout(this._timer);
      this._followConnection();
    }
  }

  private readonly _again = (): void => {
    this.reconnect();
  };

  private readonly _tick = (): void => {
    const now = Date.now();
    const late = now - this._ticked;
    this._ticked = now;
    if (late > SLEPT) {
      this.reconnect();
    }
  };

  private _hangUp(): void {
    clearTimeout(this._timer);
    const socket = this._socket;
    this._socket = null;
    socket?.close();
    this._letDown();
  }

  private _letDown(): void {
    const pending = [...this._pending.values()];
    this._pending.clear();
    for (const each of pending) {
      each.failed(
        new ApiError(
          0,
          'offline',
          'The line broke before the server answered. What the conversation shows is what was done.'
        )
      );
    }
  }

  private _set(state: LineState): void {
    this._state = state;
    this._changed.emit(state);
  }

  private _state: LineState = { is: 'opening' };
  private readonly _changed = new Signal<this, LineState>(this);
  private readonly _told = new Signal<this, Told>(this);
  private readonly _pending = new Map<string, Pending>();
  private _socket: WebSocket | null = null;
  private _begun = false;
  private _sent = 0;
  private _tries = 0;
  private _lostAt = Date.now();
  private _ticked = 0;
  private _ticker: ReturnType<typeof setInterval> | undefined;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

function refusal(value: unknown): ApiError {
  const { code, message, ...detail } = record(value);
  return new ApiError(409, word(code, 'unknown'), word(message), null, null, detail);
}
