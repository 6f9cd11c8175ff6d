// What a conversation takes: context, tokens, cache, money, by its entries (pure).

import { type Body, count, record, sum, usagesIn } from '../agent/bodies';
import type { IEntry } from './tokens';

/** Tokens and money; what has no price is not in the money. */
export interface IUsed {
  /** Tokens that were read anew, written to the cache, read from it, and written as answers. */
  readonly input: number;
  readonly cacheWritten: number;
  readonly cacheRead: number;
  readonly output: number;
  /** Exact sums by currency. */
  readonly costs: ReadonlyMap<string, string>;
  /** Requests of which no price is known. */
  readonly unpriced: number;
  /** Whether some of it is an estimate: the API did not say. */
  readonly estimated: boolean;
}

export interface IMeter {
  /** Tokens that the newest request sent; null before the first. */
  readonly context: number | null;
  readonly all: IUsed;
  /** Of the newest turn. */
  readonly turn: IUsed;
}

/** Sums that grow with each entry, so that an answer of a long conversation adds only itself. */
export class Meter {
  /** Take the entries in; those that were seen before are passed over. */
  add(entries: readonly IEntry[]): IMeter {
    if ((entries[0]?.seq ?? 0) < this._first) {
      // Older ones came in before those that were summed up.
      this._seen = -1;
      this._all = new Sum();
      this._turn = new Sum();
    }
    this._first = entries[0]?.seq ?? 0;
    let at = entries.length;
    while (at > 0 && (entries[at - 1]?.seq ?? -1) > this._seen) {
      at -= 1;
    }
    for (const entry of entries.slice(at)) {
      this._take(entry);
      this._seen = entry.seq;
    }
    return { context: this._context, all: this._all.value(), turn: this._turn.value() };
  }

  private _take(entry: IEntry): void {
    if (entry.kind === 'said') {
      this._turn = new Sum();
    } else if (entry.kind === 'asked') {
      this._context = number(entry.body['input_estimate']) || this._context;
    } else if (entry.kind === 'answered' || entry.kind === 'compacted') {
      const usage = record(entry.body['usage']);
      this._all.take(usage, entry.body['cost']);
      this._turn.take(usage, entry.body['cost']);
      const sent =
        number(usage['input_tokens']) +
        number(usage['cache_creation_input_tokens']) +
        number(usage['cache_read_input_tokens']);
      if (sent > 0 && entry.kind === 'answered') {
        // What the next request sends at least: this one and its answer.
        this._context = sent + number(usage['output_tokens']);
      } else if (entry.kind === 'compacted') {
        this._context = number(usage['output_tokens']) || null;
      }
    }
  }

  private _first = 0;
  private _seen = -1;
  private _context: number | null = null;
  private _all = new Sum();
  private _turn = new Sum();
}

class Sum {
  take(usage: Body, cost: unknown): void {
    for (const part of usagesIn(usage)) {
      this._input += number(part['input_tokens']);
      this._written += number(part['cache_creation_input_tokens']);
      this._read += number(part['cache_read_input_tokens']);
      this._output += number(part['output_tokens']);
    }
    this._estimated ||= usage['estimated'] === true;
    const { amount, currency } = record(cost);
    if (typeof amount === 'string' && typeof currency === 'string') {
      this._costs.set(currency, sum(this._costs.get(currency) ?? '0', amount));
    } else {
      this._unpriced += 1;
    }
  }

  value(): IUsed {
    return {
      input: this._input,
      cacheWritten: this._written,
      cacheRead: this._read,
      output: this._output,
      costs: new Map(this._costs),
      unpriced: this._unpriced,
      estimated: this._estimated
    };
  }

  private _input = 0;
  private _written = 0;
  private _read = 0;
  private _output = 0;
  private _unpriced = 0;
  private _estimated = false;
  private readonly _costs = new Map<string, string>();
}

/** Money for people: two digits, more where it is less than a cent. */
export function money(amount: string): string {
  const value = Number(amount);
  if (value === 0) {
    return '0';
  }
  return value >= 0.01 ? value.toFixed(2) : value.toPrecision(1);
}

/** Percent of a window, 1 at least where there is something in it. */
export function percent(used: number, window: number): number {
  return used <= 0 ? 0 : Math.max(1, Math.round((100 * used) / window));
}

function number(value: unknown): number {
  return Math.max(0, count(value));
}
