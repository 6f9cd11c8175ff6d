// What the bytes of a skill's file are: text, a picture, or neither; told by the bytes (pure).

import { base64 } from '../parts/base64';

/** Of a picture that is shown; larger ones are downloaded. */
export const MOST_PICTURE = 4 * 1024 * 1024;

export type Content =
  | { readonly kind: 'text'; readonly text: string }
  /** A data address: opened on its own it has no origin, unlike a blob's. */
  | { readonly kind: 'picture'; readonly address: string; readonly text: string | null }
  | { readonly kind: 'bytes' };

const PICTURES: readonly (readonly [string, readonly number[]])[] = [
  ['image/png', [0x89, 0x50, 0x4e, 0x47]],
  ['image/jpeg', [0xff, 0xd8, 0xff]],
  ['image/gif', [0x47, 0x49, 0x46, 0x38]],
  ['image/webp', [0x52, 0x49, 0x46, 0x46]],
  ['image/bmp', [0x42, 0x4d]]
];
/** An SVG's own text is shown beside it: within `<img>` it runs and loads nothing. */
const SVG = /^(?:\ufeff|\s|<\?xml[^>]*>|<!--[\s\S]*?-->|<!DOCTYPE[^>[]*>)*<svg[\s>]/i;

/** By the bytes alone: a file's name says nothing that counts. */
export function contentOf(bytes: Uint8Array): Content {
  const text = textOf(bytes);
  if (text !== null) {
    return SVG.test(text.slice(0, 4_096)) && bytes.length <= MOST_PICTURE
      ? { kind: 'picture', address: dataAddress('image/svg+xml', bytes), text }
      : { kind: 'text', text };
  }
  const found = PICTURES.find(([, magic]) => magic.every((byte, at) => bytes[at] === byte));
  return found !== undefined && bytes.length <= MOST_PICTURE
    ? { kind: 'picture', address: dataAddress(found[0], bytes), text: null }
    : { kind: 'bytes' };
}

/** Null for what is no UTF-8, or holds a zero byte. */
export function textOf(bytes: Uint8Array): string | null {
  if (bytes.includes(0)) {
    return null;
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

function dataAddress(type: string, bytes: Uint8Array): string {
  return `data:${type};base64,${base64(bytes)}`;
}

/** Which language the editor and the viewer colour a file as; by its name, which is all there is. */
export function mimeOf(path: string): string {
  const name = path.toLowerCase();
  const known: readonly (readonly [RegExp, string])[] = [
    [/\.(md|markdown|mdx)$/, 'text/x-ipythongfm'],
    [/\.py$/, 'text/x-python'],
    [/\.(sh|bash)$/, 'text/x-sh'],
    [/\.(js|mjs|cjs)$/, 'text/javascript'],
    [/\.ts$/, 'text/typescript'],
    [/\.json$/, 'application/json'],
    [/\.ya?ml$/, 'text/x-yaml'],
    [/\.r$/, 'text/x-rsrc'],
    [/\.sql$/, 'text/x-sql'],
    [/\.(html?|svg|xml)$/, 'text/html'],
    [/\.css$/, 'text/css']
  ];
  return known.find(([ending]) => ending.test(name))?.[1] ?? 'text/plain';
}
