// Whether the server can be reached: told by each request, found out again by waiting and asking.

import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { IConnection, Line } from './tokens';

/** Milliseconds between tries: at once is no use, and more than half a minute seems dead. */
const WAITS = [1_000, 2_000, 4_000, 8_000, 15_000, 30_000];

/** What a try finds out: it resolves to whether one is signed in, and rejects when nothing answers. */
export type Probe = () => Promise<boolean>;

/** The state of the line, with tries that grow apart. */
export class Connection implements IConnection, IDisposable {
  constructor(private readonly _probe: Probe) {
    if (typeof window !== 'undefined') {
      window.addEventListener('online', this._soon);
      document.addEventListener('visibilitychange', this._seen);
    }
  }

  get line(): Line {
    return this._line;
  }

  get changed(): ISignal<IConnection, Line> {
    return this._changed;
  }

  get restored(): ISignal<IConnection, void> {
    return this._restored;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Something came from the server, and it knows us. */
  heard(): void {
    this._heardAt = new Date();
    if (this._line.state === 'online') {
      return;
    }
    this._stopWaiting();
    this._tries = 0;
    this._set({ state: 'online' });
    this._restored.emit();
  }

  /** Nothing came. */
  lost(): void {
    if (this._line.state === 'online') {
      this._wait();
    }
  }

  /** The server does not know us any more. */
  refused(): void {
    this._stopWaiting();
    if (this._line.state !== 'expired') {
      this._set({ state: 'expired', since: new Date() });
    }
  }

  async tryNow(): Promise<void> {
    this._stopWaiting();
    let known: boolean;
    try {
      known = await this._probe();
    } catch {
      if (!this._isDisposed) {
        this._wait();
      }
      return;
    }
    if (this._isDisposed) {
      return;
    }
    if (known) {
      this.heard();
    } else {
      this.refused();
    }
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._stopWaiting();
    if (typeof window !== 'undefined') {
      window.removeEventListener('online', this._soon);
      document.removeEventListener('visibilitychange', this._seen);
    }
    Signal.clearData(this);
  }

  private _wait(): void {
    const wait = WAITS[Math.min(this._tries, WAITS.length - 1)] ?? 30_000;
    this._tries += 1;
    this._stopWaiting();
    this._timer = setTimeout(() => void this.tryNow(), wait);
    this._set({ state: 'offline', since: this._heardAt, next: new Date(Date.now() + wait) });
  }

  private _stopWaiting(): void {
    clearTimeout(this._timer);
    this._timer = undefined;
  }

  private _set(line: Line): void {
    this._line = line;
    this._changed.emit(line);
  }

  private readonly _soon = (): void => {
    if (this._line.state === 'offline') {
      void this.tryNow();
    }
  };

  // A laptop that slept, a tab that lay behind others: its timers may be minutes late. Signed in
  // again in another tab, this one finds out when it is looked at.
  private readonly _seen = (): void => {
    if (document.visibilityState === 'visible' && this._line.state !== 'online') {
      void this.tryNow();
    }
  };

  private _line: Line = { state: 'online' };
  private _heardAt = new Date();
  private _tries = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
  private readonly _changed = new Signal<IConnection, Line>(this);
  private readonly _restored = new Signal<IConnection, void>(this);
}
