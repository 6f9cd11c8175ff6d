// What stands at which cell: proposals that wait, and edits that were made; by entries and the live cells (pure).

import type { Question } from '../agent/model';
import type { Schemas } from '../api/tokens';

/** Type and source of a cell. */
export interface IText {
  readonly type: string;
  readonly source: string;
}

/** One exact edit of a call, as its act has it. */
export interface IEdit {
  readonly do: 'insert' | 'replace' | 'delete' | 'move';
  readonly cell: string;
  /** sha256 of type and source as the agent read them; none of an insert. */
  readonly was: string | null;
  /** Of insert and move: the cell that it follows, "" for the top. */
  readonly after: string | null;
  readonly to: IText | null;
}

/** How a part of a question was answered; null while it waits. */
export type Answer = { readonly accepted: boolean; readonly reason: string | null } | null;

/** A cell for which the agent proposes something; nothing of it is made before it is accepted. */
export interface IProposal {
  readonly kind: 'proposal';
  readonly key: string;
  readonly conversation: string;
  readonly question: string;
  readonly cell: string;
  readonly edits: readonly IEdit[];
  /** Its place among the question's cells, from 1, and how many there are. */
  readonly number: number;
  readonly count: number;
}

/** A cell that the agent changed, and that is still as it left it. */
export interface IChanged {
  readonly kind: 'changed';
  readonly key: string;
  readonly conversation: string;
  readonly cell: string;
  readonly edit: Schemas['StandingEdit'];
}

export type Mark = IProposal | IChanged;

/** Where a mark is shown: above or below a cell that is there. */
export interface IAnchor {
  readonly cell: string;
  readonly place: 'header' | 'footer';
}

/** The proposals of a question that waits; none where it is about something else. */
export function proposalsOf(conversation: string, question: Question): IProposal[] {
  if (question.act?.tool !== 'edit_notebook') {
    return [];
  }
  const edits = editsOf(question.act.input['edits']);
  const cells = [...new Set(edits.map(each => each.cell))];
  return cells.map((cell, index) => ({
    kind: 'proposal',
    key: `${conversation}:${question.id}:${cell}`,
    conversation,
    question: question.id,
    cell,
    edits: edits.filter(each => each.cell === cell),
    number: index + 1,
    count: cells.length
  }));
}

/** The edits of a question or a call. */
export function editsOf(given: unknown): IEdit[] {
  if (!Array.isArray(given)) {
    return [];
  }
  return given.flatMap((each: unknown): IEdit[] => {
    const edit = (typeof each === 'object' && each !== null ? each : {}) as Record<string, unknown>;
    const { do: does, cell, was, after, type, source } = edit;
    if (
      typeof cell !== 'string' ||
      (does !== 'insert' && does !== 'replace' && does !== 'delete' && does !== 'move')
    ) {
      return [];
    }
    return [
      {
        do: does,
        cell,
        was: typeof was === 'string' ? was : null,
        after: typeof after === 'string' ? after : null,
        to: typeof source === 'string' && typeof type === 'string' ? { type, source } : null
      }
    ];
  });
}

/** What a cell would be after its edits; null of one that is deleted. `now`: as it is, if it is. */
export function proposed(proposal: IProposal, now: IText | null): IText | null {
  let text = now;
  for (const edit of proposal.edits) {
    text = edit.do === 'delete' ? null : (edit.to ?? text);
  }
  return text;
}

/** The hash as the agent read the cell; null where it inserts it. */
export function readAs(proposal: IProposal): string | null {
  return proposal.edits.find(each => each.do !== 'insert')?.was ?? null;
}

/** Whether the first thing that happens to a cell is that it comes to be. */
export function inserts(proposal: IProposal): boolean {
  return proposal.edits[0]?.do === 'insert';
}

/** sha256 of type and source, as the server has it; null where the browser has no sha256 (HTTP). */
export async function hashOf(text: IText): Promise<string | null> {
  const { subtle } = globalThis.crypto as { subtle?: SubtleCrypto };
  if (subtle === undefined) {
    return null;
  }
  const digest = await subtle.digest('SHA-256', new TextEncoder().encode(canonical(text)));
  return Array.from(new Uint8Array(digest), byte => byte.toString(16).padStart(2, '0')).join('');
}

/** The one form of it: ASCII, as Python's json.dumps writes it. */
export function canonical(text: IText): string {
  return JSON.stringify([text.type, text.source]).replace(
    /[\u007f-\uffff]/g,
    each => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`
  );
}

/**
 * What was done and still stands: the cell is as the agent left it, or is gone as it left it.
 * kept: keys that a person has said to keep.
 */
export function standing(
  conversation: string,
  edits: readonly Schemas['StandingEdit'][],
  cells: ReadonlyMap<string, IText>,
  kept: ReadonlySet<string>
): IChanged[] {
  return edits.flatMap((edit): IChanged[] => {
    const now = cells.get(edit.cell) ?? null;
    const { after } = edit;
    const same =
      after === null
        ? now === null
        : now !== null && now.type === after.type && now.source === after.source;
    const key = `${conversation}:${edit.turn}:${edit.cell}`;
    return same && !kept.has(key)
      ? [{ kind: 'changed', key, conversation, cell: edit.cell, edit }]
      : [];
  });
}

/** Where a mark stands among the cells that are there. */
export function anchorOf(mark: Mark, order: readonly string[], all: readonly Mark[]): IAnchor {
  if (order.includes(mark.cell)) {
    return { cell: mark.cell, place: 'header' };
  }
  const behind = mark.kind === 'changed' ? mark.edit.behind : followed(mark, all);
  const near = behind.find(each => order.includes(each));
  return near === undefined
    ? { cell: order[0] ?? '', place: 'header' }
    : { cell: near, place: 'footer' };
}

/** The cells that a proposed one follows, nearest first: one of them may be proposed itself. */
function followed(mark: IProposal, all: readonly Mark[]): string[] {
  const found: string[] = [];
  let after = mark.edits[0]?.after ?? '';
  while (after !== '' && !found.includes(after)) {
    found.push(after);
    const proposal = all.find(
      each => each.kind === 'proposal' && each.question === mark.question && each.cell === after
    );
    after = proposal?.kind === 'proposal' ? (proposal.edits[0]?.after ?? '') : '';
  }
  return found;
}

/** The changes that put a cell back; each expects it as the agent left it (docs/agent-notebook.md). */
export function puttingBack(
  edit: Schemas['StandingEdit'],
  order: readonly string[]
): readonly object[] {
  const { cell, before, after, moved } = edit;
  const near = edit.behind.find(each => order.includes(each)) ?? '';
  if (before === null) {
    return [{ what: 'delete', cell, expect: after }];
  }
  const put = { ...before, id: cell };
  if (after === null) {
    return [{ what: 'insert', cell, after: near, put }];
  }
  const changes: object[] = [{ what: 'replace', cell, expect: after, put }];
  if (moved) {
    changes.push({ what: 'move', cell, after: near });
  }
  return changes;
}

/** Lines of a text, as people count them. */
export function lines(source: string): number {
  return source === '' ? 0 : source.replace(/\n$/, '').split('\n').length;
}
