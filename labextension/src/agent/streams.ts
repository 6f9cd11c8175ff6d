/** What comes for eyes only, joined: pieces of an answer, lines of a running call (pure). */

import { record, word } from './bodies';
import type { DraftBlock, LiveOutput } from './tokens';

/** Lines of a running call that are kept: as many as a card shows, and some for a carriage return. */
export const KEPT_LINES = 20;
/** Characters of a line that are kept; a progress bar may write one without end. */
const LINE = 2_000;

/** The answer with one more piece. */
export function withDelta(draft: readonly DraftBlock[], delta: unknown): readonly DraftBlock[] {
  const given = record(delta);
  const kind = given['type'];
  const index = given['index'];
  if (typeof index !== 'number' || (kind !== 'text' && kind !== 'thinking' && kind !== 'tool')) {
    return draft;
  }
  const piece = word(given['text']);
  const last = draft.at(-1);
  // Blocks come one after the other; a reader that is slow may miss the beginning of one.
  if (last?.index === index && last.kind === kind) {
    return [...draft.slice(0, -1), { ...last, text: last.text + piece }];
  }
  return [...draft, { index, kind, name: word(given['name']), text: piece }];
}

export const NO_OUTPUT: LiveOutput = { lines: [''], total: 0 };

/** Output with more text: its newest lines, as a terminal would leave them. */
export function withOutput(before: LiveOutput, text: string): LiveOutput {
  const lines = [...before.lines];
  let total = before.total;
  const pieces = text.split('\n');
  pieces.forEach((piece, place) => {
    if (place > 0) {
      lines.push('');
      total += 1;
    }
    const at = lines.length - 1;
    const line = (lines[at] ?? '') + piece;
    // What a carriage return overwrote is gone; one at the end overwrites with what comes next.
    const ended = line.endsWith('\r');
    const body = ended ? line.slice(0, -1) : line;
    const kept = body.slice(body.lastIndexOf('\r') + 1);
    lines[at] = (kept.length > LINE ? kept.slice(-LINE) : kept) + (ended ? '\r' : '');
  });
  return { lines: lines.slice(-KEPT_LINES - 1), total };
}

/** The lines of live output as they are shown: without the empty one that a line break opened. */
export function linesShown(output: LiveOutput): { lines: readonly string[]; total: number } {
  const open = output.lines.at(-1) ?? '';
  const lines = (open === '' ? output.lines.slice(0, -1) : output.lines).map(line =>
    line.replaceAll('\r', '')
  );
  return { lines: lines.slice(-KEPT_LINES), total: output.total + (open === '' ? 0 : 1) };
}
