/** Changes the newest turn of a conversation, leaving all that is not touched as it is (pure). */

import type { CallPart, Conversation, Entry, MarkPart, Part, Turn } from './model';

export function mark(entry: Entry, what: MarkPart['mark'], text: string, why: string): MarkPart {
  return { part: 'mark', key: `mark ${entry.seq}`, seq: entry.seq, mark: what, text, why };
}

export function withTurn(now: Conversation, change: (turn: Turn) => Turn): Conversation {
  const last = now.turns.at(-1);
  return last === undefined ? now : { ...now, turns: [...now.turns.slice(0, -1), change(last)] };
}

export function withParts(now: Conversation, parts: readonly Part[]): Conversation {
  return parts.length === 0
    ? now
    : withTurn(now, turn => ({ ...turn, parts: [...turn.parts, ...parts] }));
}

/** Where a call stands among the parts of the newest turn, which is where it happens. */
export function callAt(now: Conversation, id: string): number | null {
  const parts = now.turns.at(-1)?.parts ?? [];
  for (let at = parts.length - 1; at >= 0; at -= 1) {
    const part = parts[at];
    if (part?.part === 'call' && part.id === id) {
      return at;
    }
  }
  return null;
}

export function withCall(
  now: Conversation,
  id: string,
  change: (call: CallPart) => CallPart
): Conversation {
  const at = callAt(now, id);
  return at === null
    ? now
    : withTurn(now, turn => {
        const parts = [...turn.parts];
        parts[at] = change(parts[at] as CallPart);
        return { ...turn, parts };
      });
}
