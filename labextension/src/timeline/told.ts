/** Values of JSON that strangers wrote, taken as the text or the object that they should be. Pure. */

import type { PartialJSONObject } from '@lumino/coreutils';

export function isObject(value: unknown): value is PartialJSONObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The object, or an empty one. */
export function object(value: unknown): PartialJSONObject {
  return isObject(value) ? value : {};
}

/** A text, lines of one joined, a number in digits; of nothing nothing, of the rest its JSON. */
export function text(value: unknown): string {
  if (typeof value === 'string') {
    return value;
  }
  if (value === undefined || value === null) {
    return '';
  }
  if (Array.isArray(value)) {
    return value.map(text).join('');
  }
  return JSON.stringify(value);
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
