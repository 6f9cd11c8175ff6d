// How skills stand in requests and answers: names in paths, pages, files, archives, shown text.

import { ApiError } from '../api/tokens';
import { base64 } from '../parts/base64';
import { nameOf } from './names';
import { ISkills } from './tokens';

/** Of a list; also what the server gives at most. */
export const PAGE = 500;
/** What an archive is sent as, by its first bytes (docs/moving-skills.md, "Archives"). */
const ARCHIVES: readonly (readonly [readonly number[], number, ArchiveType])[] = [
  [[0x50, 0x4b], 0, 'application/zip'],
  [[0x1f, 0x8b], 0, 'application/gzip'],
  [[0x28, 0xb5, 0x2f, 0xfd], 0, 'application/zstd'],
  [[0x75, 0x73, 0x74, 0x61, 0x72], 257, 'application/x-tar']
];

type ArchiveType =
  'application/zip' | 'application/gzip' | 'application/zstd' | 'application/x-tar';

/** A version as a line of a list. */
export function entryOf(version: ISkills.Version): ISkills.IEntry {
  const { name, description, digest, standing } = version;
  return { named: nameOf(version), name, description, digest, standing, version };
}

export function shippedEntry(
  shipped: Pick<ISkills.IEntry, 'name' | 'description' | 'digest'>
): ISkills.IEntry {
  // What comes with Reprise is trusted (docs/skills-security.md, "Standing").
  return { ...shipped, named: { skill: shipped.name }, standing: 'trusted', version: null };
}

export function fitting(entries: readonly ISkills.IEntry[], words = ''): readonly ISkills.IEntry[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return entries.filter(({ name, description }) => {
    const text = `${name} ${description}`.toLowerCase();
    return wanted.every(word => text.includes(word));
  });
}

export function whole(entries: readonly ISkills.IEntry[]): ISkills.IPage {
  return { entries, total: entries.length, next: null };
}

export async function all<T>(
  page: (offset: number) => Promise<readonly [readonly T[], number | null]>
): Promise<readonly T[]> {
  const found: T[] = [];
  let next: number | null = 0;
  while (next !== null) {
    const [some, after]: readonly [readonly T[], number | null] = await page(next);
    found.push(...some);
    next = after;
  }
  return found;
}

export function path(
  named: ISkills.IName,
  offset?: number
): { path: { skill: string }; query: { scope?: string; offset?: number; limit?: number } } {
  const query: { scope?: string; offset?: number; limit?: number } = {};
  if (named.scope !== undefined) {
    query.scope = named.scope;
  }
  if (offset !== undefined) {
    query.offset = offset;
    query.limit = PAGE;
  }
  return { path: { skill: named.skill }, query };
}

export function only<T>(items: readonly T[]): T {
  const [item] = items;
  if (item === undefined) {
    throw new ApiError(0, 'unknown', 'The server said nothing of what was sent. Try again.');
  }
  return item;
}

export function sent(file: ISkills.ISentFile): {
  path: string;
  executable: boolean;
  text?: string;
  base64?: string;
} {
  const { path, executable, content } = file;
  return typeof content === 'string'
    ? { path, executable, text: content }
    : { path, executable, base64: base64(content) };
}

/** An output of a step as text: what it printed, or how it failed; of pictures nothing. */
export function shownText(output: readonly unknown[]): string {
  const [type, content] = output;
  if (typeof content !== 'object' || content === null) {
    return '';
  }
  const { text, data, traceback } = content as {
    text?: unknown;
    data?: { 'text/plain'?: unknown };
    traceback?: unknown;
  };
  if (type === 'stream') {
    return typeof text === 'string' ? text : '';
  }
  if (type === 'error') {
    return Array.isArray(traceback) ? `${traceback.map(String).join('\n')}\n` : '';
  }
  const plain = data?.['text/plain'];
  return typeof plain === 'string' ? `${plain}\n` : '';
}

/** A name that the server takes; it is for people only. */
export function filename(name: string): string {
  // eslint-disable-next-line no-control-regex
  return name.replace(/[/\\\u0000-\u001f\u007f]/g, '_').slice(0, 200) || 'archive';
}

export async function archiveType(archive: Blob, name: string): Promise<ArchiveType> {
  const head = new Uint8Array(await archive.slice(0, 512).arrayBuffer());
  for (const [magic, at, type] of ARCHIVES) {
    if (magic.every((byte, index) => head[at + index] === byte)) {
      return type;
    }
  }
  throw new ApiError(
    0,
    'no-archive',
    `${name} is no archive that can be read here. Nothing was sent. Take zip (also named .skill), tar, tar.gz or tar.zst.`
  );
}
