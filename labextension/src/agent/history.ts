/** Reads a conversation's stored entries: the newest turns first, then all before them. */

import type { IApi } from '../api/tokens';
import { EMPTY, foldAll } from './fold';
import type { Conversation, Entry } from './model';

/** Entries that are read first: more than what a panel shows at once mostly has. */
const FIRST = 400;
/** Turns that a panel shows at once; these are read before it is shown. */
const TURNS = 3;
const PAGE = 500;
/** `begun` and `session`, which say what model answers and where. */
const HEAD = 2;

export interface Newest {
  /** What is known of the conversation before `entries`. */
  readonly base: Conversation;
  readonly entries: readonly Entry[];
  readonly whole: boolean;
}

export class History {
  constructor(
    private readonly _api: IApi,
    private readonly _conversation: string
  ) {}

  /** The newest entry that was read; -1 before any. */
  newest = -1;

  /** The newest entries, at least as many as a turn or two need. */
  async newestTurns(info: { entries: number; session: string }): Promise<Newest> {
    const head = await this._range(-1, Math.min(HEAD, info.entries));
    let from = Math.max(head.length, info.entries - FIRST);
    let found = await this._range(from - 1, info.entries - from);
    while (from > head.length && found.filter(each => each.kind === 'said').length < TURNS) {
      const before = Math.max(head.length, from - PAGE);
      found = [...(await this._range(before - 1, from - before)), ...found];
      from = before;
    }
    this.newest = found.at(-1)?.seq ?? head.at(-1)?.seq ?? -1;
    this._head = head;
    this._from = from;
    const whole = from <= head.length;
    const begun = foldAll(EMPTY, head);
    return whole
      ? { base: EMPTY, entries: [...head, ...found], whole }
      : { base: { ...begun, session: info.session, seq: from - 1 }, entries: found, whole };
  }

  /** Those before the newest ones, from the first on; none when they were all read. */
  async earlier(): Promise<readonly Entry[]> {
    const first = this._head.length;
    if (first >= this._from) {
      return [];
    }
    return [...this._head, ...(await this._range(first - 1, this._from - first))];
  }

  /** All that followed an entry. */
  async after(seq: number): Promise<readonly Entry[]> {
    return this._range(seq, Number.POSITIVE_INFINITY);
  }

  /** So many entries after one, in pages; fewer where there are no more. */
  private async _range(after: number, most: number): Promise<Entry[]> {
    const found: Entry[] = [];
    let last = after;
    while (found.length < most) {
      const { entries, next } = await this._api.get('/conversations/{conversation}/entries', {
        params: {
          path: { conversation: this._conversation },
          query: { after: last, limit: Math.min(PAGE, most - found.length) }
        }
      });
      found.push(...(entries as Entry[]));
      if (next === null) {
        break;
      }
      last = next;
    }
    return found;
  }

  private _head: readonly Entry[] = [];
  private _from = 0;
}
