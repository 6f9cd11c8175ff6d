// What is written and was not sent, kept for each conversation over reloads of the page.

import type { IStore } from '../parts/storage';
import type { IItem } from './message';

/** A message that waits for the end of a turn. */
export interface IQueued {
  readonly words: string;
  readonly items: readonly IItem[];
}

export interface IDraft extends IQueued {
  readonly queue: readonly IQueued[];
}

export const EMPTY: IDraft = { words: '', items: [], queue: [] };

/** Characters of one draft, and drafts that are kept; the oldest are forgotten. */
const MOST_DRAFT = 400_000;
const MOST_KEPT = 50;

/**
 * Drafts in the browser's storage.
 *
 * lasting: keeps words, for all pages of this browser.  session: keeps the queue, for this tab alone:
 * a message that waits must not be sent by two.  prefix: of this server, which may share its origin.
 */
export class Drafts {
  constructor(
    private readonly _lasting: IStore | null,
    private readonly _session: IStore | null,
    private readonly _prefix: string
  ) {}

  get(key: string): IDraft {
    const known = this._memory.get(key);
    if (known !== undefined) {
      return known;
    }
    const words = parsed(read(this._lasting, this._name(key)));
    const queue = parsed(read(this._session, this._name(key)));
    return {
      words: typeof words['words'] === 'string' ? words['words'] : '',
      items: itemsOf(words['items']),
      queue: Array.isArray(queue['queue']) ? queue['queue'].map(queuedOf) : []
    };
  }

  set(key: string, draft: IDraft): void {
    this._memory.set(key, draft);
    const { words, items, queue } = draft;
    const name = this._name(key);
    write(this._lasting, name, words === '' && items.length === 0 ? null : { words, items });
    write(this._session, name, queue.length === 0 ? null : { queue });
    this._forget(name);
  }

  private _name(key: string): string {
    return `reprise:draft:${this._prefix}:${key}`;
  }

  /** Forget the oldest ones, which nobody came back to. */
  private _forget(newest: string): void {
    const known = parsed(read(this._lasting, this._name('')));
    const names = (Array.isArray(known['names']) ? known['names'] : []).filter(
      each => typeof each === 'string' && each !== newest
    ) as string[];
    const kept = [newest, ...names];
    for (const name of kept.slice(MOST_KEPT)) {
      write(this._lasting, name, null);
    }
    write(this._lasting, this._name(''), { names: kept.slice(0, MOST_KEPT) });
  }

  /** What this page has written: there also where the browser keeps nothing. */
  private readonly _memory = new Map<string, IDraft>();
}

function read(storage: IStore | null, name: string): string | null {
  try {
    return storage?.getItem(name) ?? null;
  } catch {
    return null; // A browser that keeps nothing says so by an error; the page goes on without.
  }
}

function write(storage: IStore | null, name: string, value: object | null): void {
  const text = value === null ? '' : JSON.stringify(value);
  try {
    if (value === null || text.length > MOST_DRAFT) {
      storage?.removeItem(name);
    } else {
      storage?.setItem(name, text);
    }
  } catch (failed) {
    console.warn('Reprise: this browser keeps no draft', failed);
  }
}

function parsed(text: string | null): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text ?? '{}');
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function queuedOf(value: unknown): IQueued {
  const given = (typeof value === 'object' && value !== null ? value : {}) as Partial<IQueued>;
  return { words: typeof given.words === 'string' ? given.words : '', items: itemsOf(given.items) };
}

function itemsOf(value: unknown): IItem[] {
  const kinds = ['cell', 'variable', 'file', 'skill'];
  return (Array.isArray(value) ? value : []).filter(
    (each: Partial<IItem> | null): each is IItem =>
      typeof each?.name === 'string' &&
      typeof each.title === 'string' &&
      typeof each.content === 'string' &&
      typeof each.more === 'string' &&
      kinds.includes(String(each.kind))
  );
}
