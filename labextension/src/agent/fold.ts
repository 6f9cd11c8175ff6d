/** Folds a conversation's entries, one after the other, into what a page shows of it (pure). */

import {
  NO_USAGE,
  added,
  contextAfter,
  count,
  items,
  record,
  shownIn,
  usageOf,
  word,
  wordOrNull,
  words
} from './bodies';
import { asked, callOf, called, decided, resulted, taintsOf } from './fold_calls';
import { mark, withCall, withParts, withTurn } from './fold_turns';
import type { Conversation, Entry, Part, Question, Turn, TurnEnd, Undone } from './model';

/** A conversation before its first entry. */
export const EMPTY: Conversation = {
  seq: -1,
  model: '',
  provider: '',
  scripted: false,
  notebook: null,
  by: null,
  client: null,
  session: '',
  turns: [],
  questions: [],
  cut: [],
  open: false,
  askedUs: null,
  context: 0,
  usage: NO_USAGE,
  taints: []
};

const ENDS = new Set(['done', 'cancelled', 'refused', 'failed', 'budget', 'interrupted']);

/** Ends after which a turn can go on where it was. */
export const CONTINUABLE: ReadonlySet<TurnEnd> = new Set<TurnEnd>([
  'cancelled',
  'failed',
  'budget',
  'interrupted'
]);

/** The conversation after these entries, which follow those that it was made of. */
export function foldAll(from: Conversation, entries: Iterable<Entry>): Conversation {
  let found = from;
  for (const entry of entries) {
    found = fold(found, entry);
  }
  return found;
}

/**
 * The conversation after one more entry. Turns and parts that it does not touch stay the very same
 * objects; an entry that is known already changes nothing.
 */
export function fold(before: Conversation, entry: Entry): Conversation {
  if (entry.seq <= before.seq) {
    return before;
  }
  const now: Conversation = { ...waited(before, entry), seq: entry.seq };
  const { body } = entry;
  switch (entry.kind) {
    case 'begun':
      return begun(now, entry);
    case 'session':
      return moved(now, entry);
    case 'said':
      return { ...now, turns: [...now.turns, turnOf(entry)], open: true, questions: [], cut: [] };
    case 'state':
      return { ...now, taints: taintsOf(body['taints']) };
    case 'asked':
      return { ...now, askedUs: entry.at_us };
    case 'waiting':
      return withParts(now, [
        {
          part: 'wait',
          key: `wait ${entry.seq}`,
          seq: entry.seq,
          why: word(body['why']),
          seconds: count(body['seconds']),
          attempt: count(body['attempt']),
          status: typeof body['status'] === 'number' ? body['status'] : null,
          atUs: entry.at_us,
          overUs: null
        }
      ]);
    case 'answered':
      return answered(now, entry);
    case 'called':
      return called(now, entry);
    case 'question':
      return asked(now, entry);
    case 'decided':
      return decided(now, entry);
    case 'running':
      return withCall(now, word(body['id']), call => ({
        ...call,
        standing: 'running',
        beganUs: entry.at_us
      }));
    case 'result':
      return resulted(now, entry);
    case 'compacted':
      return compacted(now, entry);
    case 'ended':
      return ended(now, entry);
    case 'continued':
      return continued(now, entry);
    case 'undone':
      return undone(now, entry);
    default:
      return now;
  }
}

/** A wait is over with whatever follows it. */
function waited(now: Conversation, entry: Entry): Conversation {
  const last = now.turns.at(-1)?.parts.at(-1);
  if (last?.part !== 'wait' || last.overUs !== null) {
    return now;
  }
  const over = { ...last, overUs: entry.at_us };
  return withTurn(now, turn => ({ ...turn, parts: [...turn.parts.slice(0, -1), over] }));
}

// The conversation itself ----------------------------------------------------------------------------

function begun(now: Conversation, { body }: Entry): Conversation {
  const model = word(body['model']);
  const provider = word(body['provider']);
  return {
    ...now,
    model,
    provider,
    scripted: body['scripted'] === true,
    notebook: wordOrNull(body['notebook']),
    by: wordOrNull(body['by']),
    client: provider === 'mcp' ? model : null
  };
}

function moved(now: Conversation, entry: Entry): Conversation {
  const session = word(entry.body['session'], now.session);
  const why = word(entry.body['why']);
  const there = { ...now, session };
  // That an undo leads to another one, its own entry says.
  if (why === 'begun' || why === 'undo' || now.turns.length === 0) {
    return there;
  }
  return withParts(there, [mark(entry, 'session', session, why)]);
}

function turnOf(entry: Entry): Turn {
  return {
    turn: entry.turn,
    seq: entry.seq,
    said: word(entry.body['text']),
    by: wordOrNull(entry.body['by']),
    atUs: entry.at_us,
    parts: [],
    answers: 0,
    ended: null,
    why: null,
    endedUs: null,
    undone: null,
    firstStep: null,
    lastStep: null,
    edits: [],
    outside: [],
    usage: NO_USAGE
  };
}

function ended(now: Conversation, entry: Entry): Conversation {
  const status = word(entry.body['status'], 'interrupted');
  const end = (ENDS.has(status) ? status : 'interrupted') as TurnEnd;
  const over = withTurn(now, turn => ({
    ...turn,
    ended: end,
    why: wordOrNull(entry.body['why']),
    endedUs: entry.at_us
  }));
  return { ...over, open: false, askedUs: null, questions: [], cut: now.questions };
}

function continued(now: Conversation, entry: Entry): Conversation {
  const last = now.turns.at(-1);
  const marked = withParts(now, [
    mark(entry, 'continued', last?.ended ?? 'interrupted', last?.why ?? '')
  ]);
  const goes = withTurn(marked, turn => ({ ...turn, ended: null, why: null, endedUs: null }));
  return { ...goes, open: true, cut: [], questions: now.cut.filter(each => each.act !== null) };
}

function undone(now: Conversation, entry: Entry): Conversation {
  const { body } = entry;
  const of = count(body['turn']);
  const found: Undone = {
    session: word(body['session']),
    at: count(body['at']),
    cells: words(body['cells']),
    kept: words(body['kept']),
    outside: words(body['outside'])
  };
  return {
    ...now,
    session: found.session === '' ? now.session : found.session,
    turns: now.turns.map(turn => (turn.turn === of ? { ...turn, undone: found } : turn))
  };
}

// The model ------------------------------------------------------------------------------------------

/** The key of a block of a turn's n-th answer: the same while it comes and once it is stored. */
export function partKey(answer: number, place: number): string {
  return `answer ${answer} ${place}`;
}

function answered(now: Conversation, entry: Entry): Conversation {
  const { body } = entry;
  const partial = body['partial'] === true;
  const calling = !partial && body['stop_reason'] === 'tool_use';
  const parts: Part[] = [];
  const answer = now.turns.at(-1)?.answers ?? 0;
  items(body['content']).forEach((each, place) => {
    const block = record(each);
    const key = partKey(answer, place);
    const text = word(block['text']) || word(block['thinking']);
    if ((block['type'] === 'text' || block['type'] === 'thinking') && text.trim() !== '') {
      parts.push({ part: block['type'], key, seq: entry.seq, text, partial });
    } else if (block['type'] === 'tool_use' && calling) {
      parts.push(
        callOf(entry, word(block['id']), word(block['name']), block['input'], now.session)
      );
    }
  });
  const usage = usageOf(body);
  const heard = withTurn(withParts(now, parts), turn => ({
    ...turn,
    answers: turn.answers + 1,
    usage: added(turn.usage, usage)
  }));
  return {
    ...heard,
    askedUs: null,
    usage: added(now.usage, usage),
    context: partial ? now.context : contextAfter(body['usage'])
  };
}

function compacted(now: Conversation, entry: Entry): Conversation {
  const usage = usageOf(entry.body);
  const { text } = shownIn(entry.body['content']);
  const marked = withParts(now, [mark(entry, 'compacted', text, '')]);
  const paid = withTurn(marked, turn => ({ ...turn, usage: added(turn.usage, usage) }));
  return {
    ...paid,
    askedUs: null,
    usage: added(now.usage, usage),
    context: count(record(entry.body['usage'])['output_tokens'])
  };
}

/** The turns that are not undone, oldest first. */
export function standing(conversation: Conversation): readonly Turn[] {
  return conversation.turns.filter(turn => turn.undone === null);
}

/** The questions that wait for an approval. */
export function approvals(conversation: Conversation): readonly Question[] {
  return conversation.questions.filter(each => each.act !== null);
}
