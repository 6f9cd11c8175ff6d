/** Folds what is recorded of calls, and of the questions about them, into the newest turn (pure). */

import {
  actOf,
  decidedOf,
  editsOf,
  items,
  numbers,
  questionOf,
  record,
  shownIn,
  verdictOf,
  word,
  wordOrNull,
  words
} from './bodies';
import { withCall, callAt, withParts, withTurn } from './fold_turns';
import type { CallPart, CallStanding, Conversation, Entry } from './model';

/** What a person may answer to an approval that lets the call run. */
const APPROVALS = new Set(['once', 'session', 'pattern']);
const CALL_ENDS = new Set(['ok', 'error', 'denied', 'lost', 'cancelled']);

export function callOf(
  entry: Entry,
  id: string,
  tool: string,
  input: unknown,
  session: string
): CallPart {
  return {
    part: 'call',
    key: `call ${id}`,
    seq: entry.seq,
    id,
    tool,
    input: record(input),
    act: null,
    verdict: null,
    problem: null,
    standing: 'judged-next',
    decided: null,
    askedUs: null,
    beganUs: null,
    endedUs: null,
    text: '',
    images: [],
    steps: [],
    edits: [],
    outside: [],
    session
  };
}

export function called(now: Conversation, entry: Entry): Conversation {
  const { body } = entry;
  const id = word(body['id']);
  // Other agents' calls (MCP) come without an answer of a model's.
  const known = callAt(now, id) !== null;
  const ready = known
    ? now
    : withParts(now, [callOf(entry, id, word(body['tool']), body['input'], now.session)]);
  const verdict = verdictOf(body['verdict']);
  const standing: Record<string, CallStanding> = { allow: 'allowed', ask: 'asked', deny: 'denied' };
  return withCall(ready, id, call => ({
    ...call,
    tool: word(body['tool'], call.tool),
    input: Object.keys(record(body['input'])).length > 0 ? record(body['input']) : call.input,
    act: actOf(body['act']),
    verdict,
    problem: wordOrNull(body['problem']),
    standing: standing[verdict?.decision ?? ''] ?? call.standing
  }));
}

export function asked(now: Conversation, entry: Entry): Conversation {
  const place = callAt(now, word(entry.body['call']));
  const call = place === null ? null : (now.turns.at(-1)?.parts[place] as CallPart);
  const question = questionOf(entry, call?.verdict ?? null);
  // One whose time ran out while nobody was there is put anew.
  const others = now.questions.filter(each => each.call !== question.call);
  const waits = { ...now, questions: [...others, question] };
  if (question.act !== null) {
    return withCall(waits, question.call, each => ({
      ...each,
      standing: 'asked',
      decided: null,
      askedUs: entry.at_us
    }));
  }
  const key = `asked ${question.id}`;
  return withParts(waits, [{ part: 'asked', key, seq: entry.seq, question, decided: null }]);
}

export function decided(now: Conversation, entry: Entry): Conversation {
  const found = decidedOf(entry);
  const question = now.questions.find(each => each.id === found.question);
  const rest = now.questions.filter(each => each.id !== found.question);
  const settled = { ...now, questions: rest };
  if (question === undefined) {
    return settled;
  }
  if (question.act !== null) {
    const standing: CallStanding = APPROVALS.has(found.decision) ? 'allowed' : 'denied';
    return withCall(settled, question.call, call => ({ ...call, standing, decided: found }));
  }
  return withTurn(settled, turn => ({
    ...turn,
    parts: turn.parts.map(part =>
      part.part === 'asked' && part.question.id === found.question
        ? { ...part, decided: found }
        : part
    )
  }));
}

export function resulted(now: Conversation, entry: Entry): Conversation {
  const { body } = entry;
  const id = word(body['id']);
  const status = word(body['status'], 'error');
  const standing = (CALL_ENDS.has(status) ? status : 'error') as CallStanding;
  const { text, images } = shownIn(body['content']);
  const steps = numbers(body['steps']);
  const edits = editsOf(body['edits']);
  const outside = words(body['outside']);
  const there = withCall(now, id, call => ({
    ...call,
    standing,
    endedUs: entry.at_us,
    text,
    images,
    steps,
    edits,
    outside
  }));
  const brought = taintsOf(body['taints']);
  const known = new Set(now.taints.map(each => `${each.kind} ${each.source}`));
  return withTurn(
    {
      ...there,
      questions: now.questions.filter(each => each.call !== id),
      taints: [...now.taints, ...brought.filter(each => !known.has(`${each.kind} ${each.source}`))]
    },
    turn => ({
      ...turn,
      firstStep: turn.firstStep ?? steps[0] ?? null,
      lastStep: steps.at(-1) ?? turn.lastStep,
      edits: edits.length > 0 ? [...turn.edits, ...edits] : turn.edits,
      outside: outside.length > 0 ? [...turn.outside, ...outside] : turn.outside
    })
  );
}

export function taintsOf(value: unknown): Conversation['taints'] {
  return items(value).map(each => ({
    kind: word(record(each)['kind']),
    source: word(record(each)['source'])
  }));
}
