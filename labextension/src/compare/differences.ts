/** What differs between two steps: their outputs paired, unified texts in lines, values. Pure. */

import type * as nbformat from '@jupyterlab/nbformat';

import { outputPicture, outputText, plain } from '../timeline/shown';
import { object, text } from '../timeline/told';

/** Two outputs that stand for each other, or one that stands alone. */
export type OutputPair =
  | { readonly is: 'same' }
  | { readonly is: 'pictures'; readonly before: string; readonly after: string }
  | {
      readonly is: 'texts';
      readonly before: string;
      readonly after: string;
      /** What kind of text it is: a MIME type, `stdout`, `stderr` or `error`. */
      readonly type: string;
    }
  | { readonly is: 'alone'; readonly side: 'before' | 'after'; readonly output: nbformat.IOutput };

/**
 * Outputs by their place; equal ones at the beginning and the end are left out of the pairing, so
 * that one that came in between does not make all behind it different.
 */
export function paired(
  before: readonly nbformat.IOutput[],
  after: readonly nbformat.IOutput[]
): OutputPair[] {
  const a = before.map(key);
  const b = after.map(key);
  let first = 0;
  while (first < a.length && first < b.length && a[first] === b[first]) {
    first++;
  }
  let last = 0;
  while (
    last < a.length - first &&
    last < b.length - first &&
    a[a.length - 1 - last] === b[b.length - 1 - last]
  ) {
    last++;
  }
  const pairs: OutputPair[] = Array.from({ length: first }, () => ({ is: 'same' }));
  const olds = before.slice(first, before.length - last);
  const news = after.slice(first, after.length - last);
  for (let index = 0; index < Math.max(olds.length, news.length); index++) {
    const old = olds[index];
    const now = news[index];
    if (old !== undefined && now !== undefined) {
      pairs.push(pair(old, now));
    } else if (old !== undefined) {
      pairs.push({ is: 'alone', side: 'before', output: old });
    } else if (now !== undefined) {
      pairs.push({ is: 'alone', side: 'after', output: now });
    }
  }
  pairs.push(...Array.from({ length: last }, (): OutputPair => ({ is: 'same' })));
  return pairs;
}

function pair(before: nbformat.IOutput, after: nbformat.IOutput): OutputPair {
  if (key(before) === key(after)) {
    return { is: 'same' };
  }
  const pictures = [outputPicture(before), outputPicture(after)] as const;
  if (pictures[0] !== null && pictures[1] !== null && pictures[0] !== pictures[1]) {
    return { is: 'pictures', before: pictures[0], after: pictures[1] };
  }
  const texts = [outputText(before) ?? '', outputText(after) ?? ''] as const;
  if (texts[0] !== texts[1]) {
    return { is: 'texts', before: texts[0], after: texts[1], type: kind(after) };
  }
  // Their words are the same, so what differs stands under another type of theirs.
  const [old, now] = [object(before['data']), object(after['data'])];
  for (const mime of [...new Set([...Object.keys(old), ...Object.keys(now)])].sort()) {
    const [was, is] = [source(old[mime]), source(now[mime])];
    if (was !== is) {
      return { is: 'texts', before: was, after: is, type: mime };
    }
  }
  return { is: 'same' };
}

function source(value: unknown): string {
  return typeof value === 'string' || Array.isArray(value)
    ? plain(text(value))
    : value === undefined
      ? ''
      : JSON.stringify(value, null, 2);
}

function kind(output: nbformat.IOutput): string {
  if (output.output_type === 'stream') {
    return text(output['name']);
  }
  return output.output_type === 'error' ? 'error' : 'text/plain';
}

/** What has to be equal for two outputs to be the same: not when, or under which number. */
function key(output: nbformat.IOutput): string {
  return JSON.stringify(sorted({ ...output, execution_count: null }));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(sorted);
  }
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(
      Object.entries(value)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, each]) => [name, sorted(each)])
    );
  }
  return value;
}

export interface IUnifiedLine {
  readonly is: 'added' | 'removed' | 'same' | 'place';
  readonly text: string;
}

/** The lines of a unified difference, without the names of its files. */
export function unifiedLines(diff: string): IUnifiedLine[] {
  const lines = diff.replace(/\n$/, '').split('\n');
  return lines.flatMap((line, index): IUnifiedLine[] => {
    if (index < 2 && (line.startsWith('--- ') || line.startsWith('+++ '))) {
      return [];
    }
    switch (line[0]) {
      case '+':
        return [{ is: 'added', text: line.slice(1) }];
      case '-':
        return [{ is: 'removed', text: line.slice(1) }];
      case '@':
        return [{ is: 'place', text: line }];
      case '\\':
        return [{ is: 'place', text: line.slice(2) }];
      default:
        return [{ is: 'same', text: line.slice(1) }];
    }
  });
}

/** What became of a file. */
export interface IFileChange {
  readonly path: string;
  readonly kind: 'added' | 'removed' | 'changed';
  readonly before: IFileSide | null;
  readonly after: IFileSide | null;
  readonly diff: string | null;
  readonly cut: boolean;
}

export interface IFileSide {
  readonly type: string;
  readonly size: number | null;
  readonly sha256: string | null;
}

/** What became of a variable. */
export interface IVariableChange {
  readonly name: string;
  readonly change: 'added' | 'removed' | 'changed';
  readonly before: IVariableSide | null;
  readonly after: IVariableSide | null;
}

export interface IVariableSide {
  readonly type: string;
  readonly text: string;
}

/** What differs in files and variables; null where it cannot be said. */
export interface IChanges {
  readonly files: readonly IFileChange[];
  /** How many files were compared, where that is known. */
  readonly compared: number | null;
  readonly variables: readonly IVariableChange[] | null;
}

/** Takes the result of a `changes` job. */
export function asChanges(told: unknown): IChanges {
  const result = object(told);
  const { changes, files, variables } = result;
  return {
    files: Array.isArray(changes) ? (changes as unknown as IFileChange[]) : [],
    compared: typeof files === 'number' ? files : null,
    variables: Array.isArray(variables) ? (variables as unknown as IVariableChange[]) : null
  };
}

/** Files that a browser shows as a picture. */
export function isPicture(path: string): boolean {
  return /\.(png|jpe?g|gif|webp|bmp|avif)$/i.test(path);
}
