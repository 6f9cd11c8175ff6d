// A message as the model reads it: a person's words, and what they bring along, exact and bounded (pure).

import { firstLine } from '../parts/words';
import type { IBrought, IMessage, ISaid } from './tokens';

/** Characters of one thing that is brought, and of all of them: a message has 200,000. */
export const MOST_EACH = 20_000;
export const MOST_ALL = 100_000;
/** Characters of a title; of a conversation's, which is made of its first words. */
const MOST_TITLE = 200;
const MOST_NAMED = 80;

/** Something that a message brings along: a chip at the composer. */
export interface IItem extends IBrought {
  /** One line for people and the model: `cell 8 (code)`, `df (DataFrame)`, `data/rentals.csv`. */
  readonly title: string;
  /** What stands for it in the message; empty where its name says all (a skill, a large file). */
  readonly content: string;
  /** What the model can do to see more; said where the content is cut or left out. */
  readonly more: string;
  /** It tells of a moment: it is sent as it is, however the thing is by then. */
  readonly fixed?: boolean;
}

/** Whether two name the same thing. */
export function same(one: IItem, other: IItem): boolean {
  return (
    one.kind === other.kind &&
    one.name === other.name &&
    (one.fixed ?? false) === (other.fixed ?? false)
  );
}

/** What is sent. What does not fit is cut, and said to be. */
export function messageOf(words: string, items: readonly IItem[]): IMessage {
  let room = MOST_ALL;
  const blocks = items.map(item => {
    const content = contentOf(item, room);
    room -= Math.min(item.content.length, MOST_EACH, room);
    const head = `<brought kind="${item.kind}" name="${attribute(item.name)}" title="${attribute(
      item.title.slice(0, MOST_TITLE)
    )}">`;
    return `${head}\n${quoted(content)}</brought>`;
  });
  return {
    text: [words.trim(), ...blocks].filter(each => each !== '').join('\n\n'),
    brought: items.map(({ kind, name }) => ({ kind, name }))
  };
}

/** What the model reads of a thing that is brought. room: characters that a message has left. */
export function contentOf(item: IItem, room = MOST_ALL): string {
  return cut(item.content, Math.min(MOST_EACH, room), item.more);
}

/** A message taken apart again. Only what stands at its end in our own form was brought. */
export function saidOf(text: string): ISaid {
  const brought: ISaid['brought'][number][] = [];
  let rest = text;
  for (;;) {
    const found = BLOCK.exec(rest);
    if (found === null) {
      break;
    }
    const [, kind = '', name = '', title = '', content = ''] = found;
    brought.unshift({
      kind: kind as IBrought['kind'],
      name: plain(name),
      title: plain(title),
      content: content.replace(/^\| ?/gm, '').replace(/\n$/, '')
    });
    rest = rest.slice(0, found.index).replace(/\n+$/, '');
  }
  return { words: rest, brought };
}

/** What a conversation is called that a message begins: by its words, or by what it brings alone. */
export function titleFor(text: string): string {
  const { words, brought } = saidOf(text);
  return firstLine(words.trim() || brought.map(each => each.title).join(', '), MOST_NAMED);
}

/** No line of the content begins like a mark of ours: each stands behind a bar. */
const BLOCK =
  /(?:^|\n)<brought kind="(cell|variable|file|skill)" name="([^"\n]*)" title="([^"\n]*)">\n((?:\|[^\n]*\n)*)<\/brought>$/;

function quoted(content: string): string {
  if (content === '') {
    return '';
  }
  return content
    .replace(/\r\n?/g, '\n')
    .split('\n')
    .map(line => (line === '' ? '|\n' : `| ${line}\n`))
    .join('');
}

function cut(content: string, room: number, more: string): string {
  if (content.length <= room) {
    return content === '' && more !== '' ? `[${more}]` : content;
  }
  // No half of a character that takes two.
  const end = /[\ud800-\udbff]$/.test(content.slice(0, room)) ? room - 1 : room;
  const left = `[${(content.length - end).toLocaleString('en')} of ${content.length.toLocaleString(
    'en'
  )} characters are left out here.${more === '' ? '' : ` ${more}`}]`;
  return end <= 0 ? left : `${content.slice(0, end)}\n${left}`;
}

function attribute(text: string): string {
  return text
    .replace(/&/g, '&amp;')
    .replace(/"/g, '&quot;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/[\r\n\u2028\u2029]+/g, ' ');
}

function plain(text: string): string {
  return text
    .replace(/&gt;/g, '>')
    .replace(/&lt;/g, '<')
    .replace(/&quot;/g, '"')
    .replace(/&amp;/g, '&');
}
