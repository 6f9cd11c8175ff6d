// Numbers, times and sizes as people read them (pure).

import { TranslationBundle } from '@jupyterlab/translation';

/** `40 ms`, `0.2 s`, `14 s`, `2 min 5 s`, `1 h 3 min`. */
export function duration(seconds: number, trans: TranslationBundle): string {
  if (seconds < 0.0995) {
    return trans.__('%1 ms', Math.round(seconds * 1000));
  }
  if (seconds < 10) {
    return trans.__('%1 s', seconds.toFixed(1));
  }
  const whole = Math.round(seconds);
  if (whole < 60) {
    return trans.__('%1 s', whole);
  }
  if (whole < 3600) {
    const rest = whole % 60;
    const minutes = Math.floor(whole / 60);
    return rest === 0 ? trans.__('%1 min', minutes) : trans.__('%1 min %2 s', minutes, rest);
  }
  return trans.__('%1 h %2 min', Math.floor(whole / 3600), Math.floor((whole % 3600) / 60));
}

/** `4:12`, of what runs down. */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
}

/** `512 B`, `1.2 kB`, `4.0 GB` (thousands, as disks and browsers say it). */
export function size(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(value < 10 ? 1 : 0)} ${units[unit] ?? ''}`;
}

/** `50,000`. */
export function count(value: number, locale?: string): string {
  return value.toLocaleString(locale);
}

/** `14:02:11` today, else `29 Nov 14:02`. */
export function moment(at: Date, now = new Date(), locale?: string): string {
  if (at.toDateString() === now.toDateString()) {
    return at.toLocaleTimeString(locale, { hour12: false });
  }
  const sameYear = at.getFullYear() === now.getFullYear();
  return at.toLocaleString(locale, {
    day: 'numeric',
    month: 'short',
    ...(sameYear ? {} : { year: 'numeric' }),
    hour: '2-digit',
    minute: '2-digit',
    hour12: false
  });
}

/** The first line, with a mark when there is more. */
export function firstLine(text: string, most = 200): string {
  const trimmed = text.trimStart();
  const end = trimmed.search(/[\r\n]/);
  const line = end < 0 ? trimmed : trimmed.slice(0, end);
  return line.length > most
    ? `${line.slice(0, most)}…`
    : end >= 0 && trimmed.slice(end).trim() !== ''
      ? `${line} …`
      : line;
}

/** Controls, soft hyphens, marks of direction, joiners: all that a reader cannot see. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Text to its last byte: what cannot be seen, or turns the direction of what follows, written out
 * (`\x1b`, `\u202e`). Line feeds and tabs stay.
 */
export function exact(text: string): string {
  return text.replace(UNSEEN, each => {
    const code = each.codePointAt(0) ?? 0;
    if (code === 0x09 || code === 0x0a) {
      return each;
    }
    return code < 0x100
      ? `\\x${code.toString(16).padStart(2, '0')}`
      : code > 0xffff
        ? `\\U${code.toString(16).padStart(8, '0')}`
        : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}
