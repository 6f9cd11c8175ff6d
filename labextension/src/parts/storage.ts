// The browser's store for pages; where it is shut, one that keeps nothing and says so when written to.

/** What of `localStorage` is used; a map in tests. */
export interface IStore {
  getItem(key: string): string | null;
  /** Throws where nothing more is kept: whoever writes is told. */
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

const SHUT: IStore = {
  getItem: () => null,
  setItem: () => {
    throw new Error('This browser keeps nothing for pages.');
  },
  removeItem: () => undefined
};

/** which: `localStorage` for all pages of this browser, `sessionStorage` for this tab alone. */
export function browserStore(which: 'localStorage' | 'sessionStorage' = 'localStorage'): IStore {
  try {
    return window[which];
  } catch {
    return SHUT;
  }
}
