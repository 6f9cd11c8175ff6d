// Policies that are being written: kept in this browser until they are saved or thrown away.

import { IStore } from '../parts/storage';

export interface IDraft {
  readonly text: string;
  /** The version that it was begun from, 0 for none. */
  readonly after: number;
}

export class Drafts {
  /** @param _where apart from other servers in the same browser */
  constructor(
    private readonly _store: IStore,
    private readonly _where: string
  ) {}

  get(scope: string): IDraft | null {
    let text: string | null;
    try {
      text = this._store.getItem(this._key(scope));
      const value: unknown = text === null ? null : JSON.parse(text);
      return isDraft(value) ? value : null;
    } catch {
      // What another version of us kept, or a browser that keeps nothing: there is no draft then.
      return null;
    }
  }

  /** @returns whether it is kept */
  keep(scope: string, draft: IDraft | null): boolean {
    try {
      if (draft === null) {
        this._store.removeItem(this._key(scope));
      } else {
        this._store.setItem(this._key(scope), JSON.stringify(draft));
      }
      return true;
    } catch {
      return false; // full, or forbidden: whoever writes is told
    }
  }

  private _key(scope: string): string {
    return `jupyter-reprise:policy:${this._where}:${scope}`;
  }
}

function isDraft(value: unknown): value is IDraft {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as IDraft).text === 'string' &&
    typeof (value as IDraft).after === 'number'
  );
}
