// Which of the agent's edits a person has said to keep: asked about no more, in this browser.

import type { IStore } from '../parts/storage';

/** Keys that are remembered; the oldest are forgotten, when their turns are far away. */
const MOST = 1_000;

export class Kept {
  /** storage: null where the browser keeps nothing.  prefix: of this server. */
  constructor(
    private readonly _storage: IStore | null,
    prefix: string
  ) {
    this._name = `reprise:kept:${prefix}`;
    this._keys = new Set(this._stored());
  }

  get keys(): ReadonlySet<string> {
    return this._keys;
  }

  add(key: string): void {
    // Other tabs have answered meanwhile.
    const known = new Set([...this._stored(), ...this._keys]);
    known.delete(key);
    this._keys = new Set([...[...known].slice(1 - MOST), key]);
    try {
      this._storage?.setItem(this._name, JSON.stringify([...this._keys]));
    } catch (failed) {
      console.warn('Reprise: this browser does not keep what was answered', failed);
    }
  }

  private _stored(): string[] {
    try {
      const known: unknown = JSON.parse(this._storage?.getItem(this._name) ?? '[]');
      const keys: unknown[] = Array.isArray(known) ? known : [];
      return keys.filter(each => typeof each === 'string');
    } catch {
      return [];
    }
  }

  private readonly _name: string;
  private _keys: ReadonlySet<string>;
}
