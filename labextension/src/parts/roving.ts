// Keys of a list in which one row has the focus: arrows, Home and End, pages, back to where it came from.

/** Where the focus goes for a key; null when the key is none of the list's. */
export function moved(key: string, at: number, total: number, page: number): number | null {
  if (total === 0) {
    return null;
  }
  const last = total - 1;
  switch (key) {
    case 'ArrowDown':
      return Math.min(last, at + 1);
    case 'ArrowUp':
      return Math.max(0, at - 1);
    case 'Home':
      return 0;
    case 'End':
      return last;
    case 'PageDown':
      return Math.min(last, at + page);
    case 'PageUp':
      return Math.max(0, at - page);
    default:
      return null;
  }
}

/** Remembers what had the focus before, and gives it back on Escape. */
export class FocusReturn {
  /** Call as the focus comes in. */
  came(event: { relatedTarget: EventTarget | null }, into: HTMLElement): void {
    const from = event.relatedTarget;
    if (from instanceof HTMLElement && !into.contains(from)) {
      this._from = from;
    }
  }

  /** @returns whether there was somewhere to go back to */
  back(): boolean {
    if (this._from?.isConnected) {
      this._from.focus();
      return true;
    }
    return false;
  }

  private _from: HTMLElement | null = null;
}
