// Joins what happens within a frame into one call.

import type { IDisposable } from '@lumino/disposable';

/** Milliseconds of a frame at 60 Hz. A timer, since hidden pages get no animation frames. */
const FRAME = 16;

export class PerFrame implements IDisposable {
  /** @param act - called once for all that was asked within a frame */
  constructor(private readonly act: () => void) {}

  ask(): void {
    if (this.isDisposed || this.timer !== null) {
      return;
    }
    this.timer = setTimeout(() => {
      this.timer = null;
      this.act();
    }, FRAME);
  }

  dispose(): void {
    this.isDisposed = true;
    if (this.timer !== null) {
      clearTimeout(this.timer);
      this.timer = null;
    }
  }

  isDisposed = false;
  private timer: ReturnType<typeof setTimeout> | null = null;
}
