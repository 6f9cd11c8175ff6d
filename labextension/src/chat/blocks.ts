/** Cuts Markdown that is still coming into top-level blocks, of which only the last one can change (pure). */

/** markdown: as it is.  code: one fenced block, whose fence is closed unless it is the last one. */
export interface Block {
  readonly kind: 'markdown' | 'code';
  /** All of it, fences and line ends included. */
  readonly text: string;
  /** Of code: what stands behind the fence, and what is in it. */
  readonly language: string;
  readonly code: string;
  /** More of it may come. */
  readonly open: boolean;
}

const FENCE = /^( *)(`{3,}|~{3,})(.*)$/;
const ITEM = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,}\s*$/;
const DEFINITION = /^ {0,3}\[([^\]\n]+)\]:\s*\S+.*$/;
/** HTML that goes on over blank lines until its end; other HTML is cut with the blank line. */
const HTML = /^ {0,3}<(pre|script|style|textarea|details|div|table|section)\b/i;
/** Characters from which on a list is cut between two of its items: a long one is rendered in parts. */
const LONG_LIST = 4_000;
/** Closed blocks that are kept together, so that a long text is few things to compare. */
export const GROUP = 32;

type What = 'none' | 'text' | 'fence' | 'list' | 'indented' | 'html';

/** A text that grows at its end, cut. What is before the open block is never looked at again. */
export class Cut {
  /** Closed blocks in groups of GROUP; a full group stays the very same array. */
  groups: readonly (readonly Block[])[] = [];
  /** The block at the end; null before any text. */
  last: Block | null = null;
  /** Reference definitions anywhere in the text, by their labels in small letters. */
  definitions: ReadonlyMap<string, string> = new Map();

  /** Take the text as it is now: it begins with all that was given before, or it is cut anew. */
  take(text: string, open: boolean): this {
    if (text === this._text && this.last?.open === open) {
      return this;
    }
    if (!text.startsWith(this._text.slice(0, this._at))) {
      this._at = 0;
      this.groups = [];
      this.definitions = new Map();
    }
    this._text = text;
    const found = blocksFrom(text, this._at);
    this.last = null;
    for (const [place, each] of found.entries()) {
      if (place === found.length - 1) {
        this.last = { ...each, open };
      } else {
        this._at += each.text.length;
        this._close(each);
      }
    }
    return this;
  }

  get blocks(): readonly Block[] {
    return [...this.groups.flat(), ...(this.last === null ? [] : [this.last])];
  }

  private _close(block: Block): void {
    const newest = this.groups.at(-1);
    this.groups =
      newest === undefined || newest.length >= GROUP
        ? [...this.groups, [block]]
        : [...this.groups.slice(0, -1), [...newest, block]];
    if (block.kind === 'markdown' && block.text.includes(']:')) {
      const found = definitionsIn(block.text);
      if (found.length > 0) {
        this.definitions = new Map([...this.definitions, ...found]);
      }
    }
  }

  private _text = '';
  /** Where the open block begins. */
  private _at = 0;
}

function definitionsIn(text: string): [string, string][] {
  return text.split('\n').flatMap((line): [string, string][] => {
    const found = DEFINITION.exec(line);
    return found === null ? [] : [[(found[1] ?? '').toLowerCase(), line.trim()]];
  });
}

/** A block with the definitions that it refers to and does not hold itself. */
export function withDefinitions(text: string, definitions: ReadonlyMap<string, string>): string {
  if (definitions.size === 0 || !text.includes('[')) {
    return text;
  }
  const needed = [...text.matchAll(/\[([^\]\n]+)\]/g)]
    .map(found => definitions.get((found[1] ?? '').toLowerCase()))
    .filter(each => each !== undefined && !text.includes(each));
  return needed.length === 0 ? text : `${text}\n\n${[...new Set(needed)].join('\n')}\n`;
}

/** The blocks of a text from a place on which one begins; joined they are that text. */
function blocksFrom(text: string, from: number): Block[] {
  const found: Block[] = [];
  const cutter = new Cutter();
  let start = from;
  let at = from;
  while (at < text.length) {
    const end = text.indexOf('\n', at);
    const next = end < 0 ? text.length : end + 1;
    const line = text.slice(at, end < 0 ? text.length : end);
    if (cutter.begins(line) && at > start) {
      found.push(blockOf(text.slice(start, at)));
      start = at;
    }
    cutter.take(line, at - start);
    at = next;
  }
  if (start < text.length) {
    found.push(blockOf(text.slice(start)));
  }
  return found;
}

/** Line by line: whether a line begins another block than the one at hand. */
class Cutter {
  begins(line: string): boolean {
    if (this._fence !== null) {
      return false;
    }
    if (this._ended) {
      return true;
    }
    const blank = line.trim() === '';
    switch (this._what) {
      case 'none':
        return false;
      case 'fence':
        return true;
      case 'html':
        return false;
      case 'list':
        return this._leavesList(line, blank);
      case 'indented':
        return this._blank && !blank && !/^(?: {4}|\t)/.test(line);
      case 'text':
        return (this._blank && !blank) || opensFence(line);
    }
  }

  /** size: characters of the block before this line. */
  take(line: string, size: number): void {
    const blank = line.trim() === '';
    if (size === 0) {
      this._begin(line, blank);
    } else if (this._fence !== null) {
      this._inFence(line);
    } else if (this._what === 'list' && !blank) {
      this._openFence(line, 99);
    } else if (this._what === 'none' && !blank) {
      this._begin(line, blank);
    }
    if (this._what === 'html' && this._closing?.test(line) === true) {
      this._ended = true;
    }
    this._blank = blank;
    this._long = size > LONG_LIST;
  }

  private _begin(line: string, blank: boolean): void {
    this._ended = false;
    this._closing = null;
    this._fence = null;
    const html = HTML.exec(line);
    if (blank) {
      this._what = 'none';
    } else if (this._openFence(line, 3)) {
      this._what = 'fence';
    } else if (html !== null) {
      this._what = 'html';
      this._closing = new RegExp(`</${html[1] ?? ''}>`, 'i');
    } else if (line.trimStart().startsWith('<!--')) {
      this._what = 'html';
      this._closing = /-->/;
    } else if (ITEM.test(line) && !RULE.test(line)) {
      this._what = 'list';
      this._openFence(line.replace(ITEM, ''), 99);
    } else if (/^(?: {4}|\t)/.test(line)) {
      this._what = 'indented';
    } else {
      this._what = 'text';
    }
  }

  private _leavesList(line: string, blank: boolean): boolean {
    if (blank) {
      return false;
    }
    const item = ITEM.test(line) && !RULE.test(line);
    if (item) {
      return this._long && /^\S/.test(line);
    }
    // What is not indented goes on with the paragraph of an item only if no line was left out.
    return this._blank ? !/^(?: {2}|\t)/.test(line) : opensFence(line) || RULE.test(line);
  }

  private _openFence(line: string, indent: number): boolean {
    const found = FENCE.exec(line);
    const mark = found?.[2] ?? '';
    if (found === null || (found[1] ?? '').length > indent) {
      return false;
    }
    if (mark.startsWith('`') && (found[3] ?? '').includes('`')) {
      return false;
    }
    this._fence = mark;
    return true;
  }

  private _inFence(line: string): void {
    const mark = this._fence ?? '';
    const found = /^ *(`{3,}|~{3,})\s*$/.exec(line);
    const closing = found?.[1] ?? '';
    if (closing.length >= mark.length && closing[0] === mark[0]) {
      this._fence = null;
      this._ended = this._what === 'fence';
    }
  }

  private _what: What = 'none';
  private _blank = false;
  private _long = false;
  private _ended = false;
  private _fence: string | null = null;
  private _closing: RegExp | null = null;
}

function opensFence(line: string): boolean {
  const found = FENCE.exec(line);
  return (
    found !== null &&
    (found[1] ?? '').length <= 3 &&
    !((found[2] ?? '').startsWith('`') && (found[3] ?? '').includes('`'))
  );
}

function blockOf(text: string): Block {
  const first = text.trimStart();
  const found = FENCE.exec(
    first.slice(0, first.indexOf('\n') < 0 ? undefined : first.indexOf('\n'))
  );
  if (!opensFence(firstLine(text)) || found === null) {
    return { kind: 'markdown', text, language: '', code: '', open: false };
  }
  const lines = text.replace(/^\s*\n/, '').split('\n');
  const mark = found[2] ?? '';
  let ends = lines.length - 1;
  while (ends > 0 && !isClosing(lines[ends] ?? '', mark)) {
    ends -= 1;
  }
  const code = lines.slice(1, ends > 0 ? ends : undefined).join('\n');
  const language = (found[3] ?? '').trim().split(/\s/)[0] ?? '';
  return { kind: 'code', text, language, code, open: false };
}

function firstLine(text: string): string {
  return text.split('\n').find(line => line.trim() !== '') ?? '';
}

function isClosing(line: string, mark: string): boolean {
  const closing = /^ *(`{3,}|~{3,})\s*$/.exec(line)?.[1] ?? '';
  return closing.length >= mark.length && closing[0] === mark[0];
}
