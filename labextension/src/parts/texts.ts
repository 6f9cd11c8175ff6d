// Which lines of two texts differ (pure): for counts and for texts too large for an editor.

import { Chunk } from '@codemirror/merge';
import { Text } from '@codemirror/state';

/** Lines beyond which a difference is shown in a tab, or in parts (ui.md). */
export const LARGE_LINES = 2_000;

/** Milliseconds that finding differences may take; after that they are coarse. */
const PATIENCE_MS = 200;

export interface LineCounts {
  readonly added: number;
  readonly removed: number;
}

/** How many lines came and went. */
export function counted(before: string, after: string): LineCounts {
  const a = Text.of(before.split('\n'));
  const b = Text.of(after.split('\n'));
  let added = 0;
  let removed = 0;
  for (const chunk of Chunk.build(a, b, { scanLimit: 10_000, timeout: PATIENCE_MS })) {
    removed += lines(a, chunk.fromA, chunk.endA);
    added += lines(b, chunk.fromB, chunk.endB);
  }
  return { added, removed };
}

function lines(text: Text, from: number, to: number): number {
  return from >= to
    ? 0
    : text.lineAt(Math.min(to, text.length)).number - text.lineAt(from).number + 1;
}
