/** What is asked before a fork or a rewind, word for word. Pure. */

import { PathExt } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';

/** A name for a fork: `churn-b`, then `churn-c`, …, then numbers. */
export function forkName(of: string, taken: readonly string[]): string {
  const stem = of.replace(/-[b-z]$/, '').replace(/ \(before rewind\)( \d+)?$/, '');
  const known = new Set(taken);
  for (const letter of 'bcdefghijklmnopqrstuvwxyz') {
    if (!known.has(`${stem}-${letter}`)) {
      return `${stem}-${letter}`;
    }
  }
  for (let number = 2; ; number++) {
    if (!known.has(`${stem}-${number}`)) {
      return `${stem}-${number}`;
    }
  }
}

/** A name as that of a file on any system, without its extension. */
export function fileStem(name: string): string {
  // eslint-disable-next-line no-control-regex -- no system takes them in a name
  const stem = name.replace(/[\\/:*?"<>|\u0000-\u001f]/g, '-').slice(0, 100);
  return stem.replace(/^[.\s]+|[.\s]+$/g, '') || 'fork';
}

/** What the session is called that a rewind leaves: its name, or the one that the server finds. */
export function leftName(
  session: { readonly name?: string | null; readonly notebook: string | null },
  taken: readonly string[]
): string {
  if (session.name) {
    return session.name;
  }
  const of = session.notebook === null ? 'session' : PathExt.basename(session.notebook, '.ipynb');
  const base = `${of} (before rewind)`;
  let name = base;
  for (let number = 2; taken.includes(name); number++) {
    name = `${base} ${number}`;
  }
  return name;
}

/** What went out to the world, by host. */
export interface IOutside {
  readonly hosts: readonly (readonly [string, number])[];
  /** There is more than was read through. */
  readonly more: boolean;
}

/** Requests that were let through, by host, the most asked first. */
export function outside(
  rows: readonly Readonly<Record<string, unknown>>[],
  more: boolean
): IOutside {
  const counts = new Map<string, number>();
  for (const row of rows) {
    if (row['verdict'] === 'allowed' && row['replay'] !== true) {
      const host = String(row['host']);
      counts.set(host, (counts.get(host) ?? 0) + 1);
    }
  }
  return { hosts: [...counts].sort((a, b) => b[1] - a[1]), more };
}

/** Hosts that a dialog names. */
const NAMED = 3;

/** What a rewind takes out of the notebook, where it stays, and what is not undone. */
export function rewindWords(
  trans: TranslationBundle,
  rewind: {
    seq: number;
    last: number;
    /** What the session is called that is left. */
    left: string;
    sent: IOutside;
    running: number | null;
  }
): string {
  const { seq, last, left, sent, running } = rewind;
  const words = [
    last <= seq
      ? trans.__("No step leaves this notebook: it goes on beside '%1'.", left)
      : last - seq === 1
        ? trans.__("Step %1 leaves this notebook and stays in '%2'.", last, left)
        : trans.__("Steps %1–%2 leave this notebook and stay in '%3'.", seq + 1, last, left)
  ];
  if (running !== null) {
    words.push(trans.__('Step %1 runs, and is interrupted for it.', running));
  }
  for (const [host, count] of sent.hosts.slice(0, NAMED)) {
    words.push(
      trans._n('%1 request to %2 is not undone.', '%1 requests to %2 are not undone.', count, host)
    );
  }
  if (sent.hosts.length > NAMED || sent.more) {
    words.push(trans.__('Nor are requests to other hosts.'));
  }
  return words.join(' ');
}
