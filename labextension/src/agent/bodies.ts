/** Reads bodies of entries leniently: what a newer server wrote is shown as far as it is understood. */

import type { Act, CellEdit, Decided, Entry, Image, Question, Usage, Verdict } from './model';

export type Body = Readonly<Record<string, unknown>>;

const NONE: Body = {};

export const NO_USAGE: Usage = { input: 0, output: 0, costs: {}, estimated: false };

/** Images that a page may show; the server has looked through them. */
const IMAGES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

export function record(value: unknown): Body {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Body)
    : NONE;
}

export function items(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : [];
}

export function word(value: unknown, otherwise = ''): string {
  return typeof value === 'string' ? value : otherwise;
}

export function wordOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

export function count(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}

export function words(value: unknown): readonly string[] {
  return items(value).filter(each => typeof each === 'string');
}

export function numbers(value: unknown): readonly number[] {
  return items(value).filter(each => typeof each === 'number');
}

export function verdictOf(value: unknown): Verdict | null {
  const given = record(value);
  const decision = given['decision'];
  if (decision !== 'allow' && decision !== 'ask' && decision !== 'deny') {
    return null;
  }
  return {
    decision,
    rule: word(given['rule']),
    why: word(given['why']),
    grant: typeof given['grant'] === 'number' ? given['grant'] : null
  };
}

export function actOf(value: unknown): Act | null {
  const given = record(value);
  if (typeof given['tool'] !== 'string') {
    return null;
  }
  return {
    tool: given['tool'],
    effect: word(given['effect']),
    title: word(given['title'], given['tool']),
    input: record(given['input']),
    code: wordOrNull(given['code']),
    paths: words(given['paths'])
  };
}

export function editsOf(value: unknown): readonly CellEdit[] {
  return items(value).map(each => {
    const given = record(each);
    return {
      cell: word(given['cell']),
      before: wordOrNull(given['before']),
      after: wordOrNull(given['after']),
      moved: given['moved'] === true
    };
  });
}

export function questionOf(entry: Entry, verdict: Verdict | null): Question {
  const { body } = entry;
  return {
    id: word(body['id']),
    seq: entry.seq,
    turn: entry.turn,
    call: word(body['call']),
    text: word(body['text']),
    options: words(body['options']),
    untilUs: count(body['until_us']),
    act: actOf(body['act']),
    sessionRule: body['session_rule'] ?? null,
    pattern: body['pattern'] ?? null,
    verdict
  };
}

export function decidedOf(entry: Entry): Decided {
  const { body } = entry;
  return {
    question: word(body['question']),
    decision: word(body['decision']),
    how: word(body['how']),
    by: wordOrNull(body['by']),
    reason: wordOrNull(body['reason']),
    atUs: entry.at_us
  };
}

/** Text and images of a result's blocks. */
export function shownIn(content: unknown): { text: string; images: readonly Image[] } {
  const texts: string[] = [];
  const images: Image[] = [];
  for (const each of items(content)) {
    const block = record(each);
    if (block['type'] === 'text') {
      texts.push(word(block['text']));
    } else if (block['type'] === 'image') {
      const source = record(block['source']);
      const type = word(source['media_type']);
      if (source['type'] === 'base64' && IMAGES.has(type)) {
        images.push({ type, data: word(source['data']) });
      }
    }
  }
  return { text: texts.join('\n'), images };
}

const READ = ['input_tokens', 'cache_creation_input_tokens', 'cache_read_input_tokens'] as const;

function readBy(usage: Body): number {
  return READ.reduce((sum, name) => sum + count(usage[name]), 0);
}

/** Tokens that one request read and gave: what the context holds after it. */
export function contextAfter(usage: unknown): number {
  const given = record(usage);
  return readBy(given) + count(given['output_tokens']);
}

/** The usages that one says: its own, those of compactions in it, and of attempts that were cut off. */
export function usagesIn(usage: Body): readonly Body[] {
  const compactions = items(usage['iterations'])
    .map(record)
    .filter(each => each['type'] === 'compaction');
  return [usage, ...compactions, ...items(usage['lost']).map(record)];
}

/** What a request took. */
export function usageOf(body: Body): Usage {
  const usage = record(body['usage']);
  const all = usagesIn(usage);
  const cost = record(body['cost']);
  const amount = cost['amount'];
  const currency = cost['currency'];
  const known = typeof amount === 'string' && typeof currency === 'string';
  return {
    input: all.reduce((sum, each) => sum + readBy(each), 0),
    output: all.reduce((sum, each) => sum + count(each['output_tokens']), 0),
    costs: known ? { [currency]: amount } : {},
    estimated: usage['estimated'] === true || !known
  };
}

export function added(one: Usage, other: Usage): Usage {
  const costs: Record<string, string> = { ...one.costs };
  for (const [currency, amount] of Object.entries(other.costs)) {
    costs[currency] = sum(costs[currency] ?? '0', amount);
  }
  return {
    input: one.input + other.input,
    output: one.output + other.output,
    costs,
    estimated: one.estimated || other.estimated
  };
}

const DECIMAL = /^(-?)(\d{1,40})(?:\.(\d{1,40}))?$/;

/** The exact sum of two decimal numbers; the first one, where the second is none. */
export function sum(one: string, other: string): string {
  const left = DECIMAL.exec(one);
  const right = DECIMAL.exec(other);
  if (left === null || right === null) {
    return one;
  }
  const places = Math.max(left[3]?.length ?? 0, right[3]?.length ?? 0);
  const whole = (found: RegExpExecArray): bigint =>
    BigInt(`${found[1] ?? ''}${found[2] ?? ''}${(found[3] ?? '').padEnd(places, '0')}`);
  const total = whole(left) + whole(right);
  const digits = (total < 0n ? -total : total).toString().padStart(places + 1, '0');
  const cut = digits.length - places;
  const fraction = digits.slice(cut).replace(/0+$/, '');
  return `${total < 0n ? '-' : ''}${digits.slice(0, cut)}${fraction === '' ? '' : `.${fraction}`}`;
}
