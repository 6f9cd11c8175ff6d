/** Joins many changes into one call a frame; where none is drawn, into one call soon. */

import type { IDisposable } from '@lumino/disposable';

/** A hidden page draws no frames: then its listeners hear this late, in milliseconds. */
const HIDDEN = 250;
const WITHOUT = 16;

export class Frames implements IDisposable {
  constructor(private readonly call: () => void) {}

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Something changed: `call` follows once, soon. */
  mark(): void {
    if (this._marked || this._disposed) {
      return;
    }
    this._marked = true;
    const drawn = typeof requestAnimationFrame === 'function';
    if (drawn) {
      this._frame = requestAnimationFrame(this._run);
    }
    this._timer = setTimeout(this._run, drawn ? HIDDEN : WITHOUT);
  }

  /** Call now what is waiting, if anything is. */
  flush(): void {
    if (this._marked) {
      this._run();
    }
  }

  dispose(): void {
    this._disposed = true;
    this._clear();
  }

  private readonly _run = (): void => {
    this._clear();
    if (!this._disposed) {
      this.call();
    }
  };

  private _clear(): void {
    this._marked = false;
    clearTimeout(this._timer);
    if (this._frame !== null) {
      cancelAnimationFrame(this._frame);
      this._frame = null;
    }
  }

  private _marked = false;
  private _disposed = false;
  private _frame: number | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
