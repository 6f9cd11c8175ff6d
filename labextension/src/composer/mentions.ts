// What is being named in the input: where a query begins, and what fits it best (pure).

/** A query that the caret stands in. `from`..`to`: what a choice replaces. */
export interface IQuery {
  readonly mark: '@' | '/';
  readonly words: string;
  readonly from: number;
  readonly to: number;
}

/** Characters of a query: a longer one is prose with an @ in it. */
const MOST_QUERY = 80;
/** Suggestions of one kind, and of all, that a person looks through. */
export const MOST_OF_KIND = 8;
export const MOST_SHOWN = 24;

/** The commands that do something at once, and those that take words. */
export type CommandName = 'skill' | 'undo' | 'continue' | 'new' | 'export';

/** The query at the caret; null where none is. */
export function queryAt(text: string, caret: number): IQuery | null {
  const before = text.slice(0, caret);
  // A command is the message's first word; `/skill` goes on with a name.
  const command = /^\s*\/((?:skill\s+)?[^\s]*)$/.exec(before);
  if (command !== null) {
    const from = before.indexOf('/');
    return { mark: '/', words: command[1] ?? '', from, to: wordEnd(text, caret) };
  }
  const mention = /(?:^|[\s([{"'])@([^\s@]*)$/.exec(before);
  const words = mention?.[1];
  if (words === undefined || words.length > MOST_QUERY) {
    return null;
  }
  return { mark: '@', words, from: caret - words.length - 1, to: wordEnd(text, caret) };
}

function wordEnd(text: string, caret: number): number {
  const rest = /^[^\s@]*/.exec(text.slice(caret));
  return caret + (rest?.[0].length ?? 0);
}

/** The text without a query, `instead` in its place; where the caret stands then. */
export function replaced(
  text: string,
  query: IQuery,
  instead: string
): { readonly text: string; readonly caret: number } {
  const head = text.slice(0, query.from) + instead;
  const tail = text.slice(query.to);
  const space = instead !== '' && !/^\s/.test(tail) ? ' ' : '';
  return { text: head + space + tail, caret: head.length + 1 };
}

/** What can be found by its name, and by a word about it. */
export interface IFindable {
  readonly label: string;
  readonly detail: string;
}

/**
 * Those that fit, the best first: names that begin with the words, then names that hold them, then
 * what is said about them. In their own order otherwise.
 */
export function fitting<T extends IFindable>(
  all: readonly T[],
  words: string,
  most = MOST_OF_KIND
): T[] {
  const wanted = words.toLowerCase();
  if (wanted === '') {
    return all.slice(0, most);
  }
  const ranks: T[][] = [[], [], []];
  for (const each of all) {
    const label = each.label.toLowerCase();
    const last = label.slice(label.lastIndexOf('/') + 1);
    if (label.startsWith(wanted) || last.startsWith(wanted)) {
      ranks[0]?.push(each);
    } else if (label.includes(wanted)) {
      ranks[1]?.push(each);
    } else if (each.detail.toLowerCase().includes(wanted)) {
      ranks[2]?.push(each);
    }
  }
  return ranks.flat().slice(0, most);
}

/** A message that begins with a command: what it asks for. */
export type Asked =
  | { readonly command: 'skill'; readonly skill: string; readonly words: string }
  | { readonly command: Exclude<CommandName, 'skill'> };

/** The command of a text; null where it is words. */
export function commandOf(text: string): Asked | null {
  const found = /^\s*\/(skill|undo|continue|new|export)(?:\s+([\s\S]*))?$/.exec(text);
  if (found === null) {
    return null;
  }
  const rest = (found[2] ?? '').trim();
  if (found[1] === 'skill') {
    const named = /^(\S+)\s*([\s\S]*)$/.exec(rest);
    return { command: 'skill', skill: named?.[1] ?? '', words: named?.[2] ?? '' };
  }
  return rest === '' ? { command: found[1] as Exclude<CommandName, 'skill'> } : null;
}

/** The words by which a skill is run: a person's own, so that the chat shows what was asked. */
export function skillWords(skill: string, words: string): string {
  const rest = words.trim();
  return rest === '' ? `Use the skill ${skill}.` : `Use the skill ${skill}: ${rest}`;
}
