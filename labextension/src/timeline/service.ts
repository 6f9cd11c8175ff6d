/** Histories of sessions, kept up to date by whoever hears that something was done. */

import { Signal } from '@lumino/signaling';

import { History } from './history';
import type { IStepSource } from './source';
import type { IHistory, ITimeline } from './tokens';

export class Timeline implements ITimeline {
  constructor(private readonly _source: IStepSource) {}

  readonly forked = new Signal<this, { session: string; fork: string }>(this);

  history(session: string): IHistory {
    for (const each of this._open) {
      if (each.isDisposed) {
        this._open.delete(each);
      }
    }
    const made = new History(session, this._source);
    this._open.add(made);
    return made;
  }

  poke(session: string): void {
    for (const each of this._open) {
      if (!each.isDisposed && each.session === session) {
        void each.refresh();
      }
    }
  }

  /** The server was away: whatever is open may be older than it. */
  pokeAll(): void {
    for (const each of this._open) {
      if (!each.isDisposed) {
        void each.refresh();
        void each.refreshForks();
      }
    }
  }

  /** A fork was made of a session: histories that share its steps show it. */
  tellFork(session: string, fork: string): void {
    for (const each of this._open) {
      if (!each.isDisposed) {
        void each.refreshForks();
      }
    }
    this.forked.emit({ session, fork });
  }

  private readonly _open = new Set<History>();
}
