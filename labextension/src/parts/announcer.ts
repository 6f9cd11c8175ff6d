// Two hidden regions of the page in which screen readers are told what happened, one at a time.

import { IDisposable } from '@lumino/disposable';

import { IAnnouncer } from './tokens';

/** Milliseconds between messages: a reader has to be able to say one. */
const APART_MS = 3_000;

/** Messages beyond which the oldest polite ones are dropped: they are news no more. */
const MOST_WAITING = 5;

type Manner = 'polite' | 'assertive';

/** Keeps the regions, and what waits to be said. */
export class Announcer implements IAnnouncer, IDisposable {
  constructor(parent: HTMLElement = document.body) {
    for (const manner of ['polite', 'assertive'] as const) {
      const region = document.createElement('div');
      region.className = 'jp-Reprise jp-Reprise-announcer jp-sr-only';
      region.setAttribute('aria-live', manner);
      region.setAttribute('aria-atomic', 'true');
      parent.appendChild(region);
      this._regions[manner] = region;
    }
  }

  /** What a person wants to be told: everything, what waits for them, or nothing. */
  wanted: 'all' | 'questions' | 'none' = 'all';

  polite(text: string): void {
    if (this.wanted !== 'all') {
      return;
    }
    this._waiting.push({ manner: 'polite', text });
    while (this._waiting.length > MOST_WAITING) {
      const oldest = this._waiting.findIndex(each => each.manner === 'polite');
      if (oldest < 0) {
        break;
      }
      this._waiting.splice(oldest, 1);
    }
    this._next();
  }

  assertive(text: string): void {
    if (this.wanted === 'none') {
      return;
    }
    const after = this._waiting.findIndex(each => each.manner === 'polite');
    this._waiting.splice(after < 0 ? this._waiting.length : after, 0, {
      manner: 'assertive',
      text
    });
    this._next();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    clearTimeout(this._timer);
    for (const region of Object.values(this._regions)) {
      region.remove();
    }
  }

  private _next(): void {
    if (this._timer !== undefined || this._isDisposed) {
      return;
    }
    const said = this._waiting.shift();
    if (said === undefined) {
      return;
    }
    const region = this._regions[said.manner];
    if (region !== undefined) {
      // The same words twice are news twice: only a change of the text is read.
      region.textContent = region.textContent === said.text ? `${said.text}\u00a0` : said.text;
    }
    this._timer = setTimeout(() => {
      this._timer = undefined;
      this._next();
    }, APART_MS);
  }

  private readonly _regions: Partial<Record<Manner, HTMLElement>> = {};
  private readonly _waiting: { manner: Manner; text: string }[] = [];
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
}
