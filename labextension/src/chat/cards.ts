/** What a card says of a call: its verb, its first line, its verdict; which cards fold (pure). */

import type { TranslationBundle } from '@jupyterlab/translation';

import { record, word, wordOrNull } from '../agent/bodies';
import type { CallPart, Part } from '../agent/model';
import { count, firstLine } from '../parts/words';

/** What a person reads first of a call. Its exact input stands in the card. */
export interface Headline {
  readonly verb: string;
  /** The first line of what runs, or what it is about; "" where the verb says all. */
  readonly line: string;
}

/** The input of a call as it is shown: code as it is, with its language; else values by their names. */
export type Input =
  | { readonly as: 'code'; readonly code: string; readonly prompt: '$' | '' }
  | { readonly as: 'fields'; readonly fields: readonly (readonly [string, string])[] };

/** One edit of a call's: what it does to which cell. */
export interface CellChange {
  readonly what: string;
  /** The cell's id. */
  readonly cell: string;
  readonly type: string;
  /** What it will hold; null where the edit says nothing of it. */
  readonly source: string | null;
}

/** What a call changes in cells, exactly as it was judged; none for other calls. */
export function changesOf(call: CallPart): readonly CellChange[] {
  const edits = call.tool === 'edit_notebook' ? call.act?.input['edits'] : undefined;
  if (!Array.isArray(edits)) {
    return [];
  }
  return edits.map((each: unknown) => {
    const edit = record(each);
    return {
      what: word(edit['do']),
      cell: word(edit['cell']),
      type: word(edit['type']),
      source: wordOrNull(edit['source'])
    };
  });
}

/** Output lines that a card shows; the true total stands beside them. */
export const LINES = 20;

export function headline(call: CallPart, trans: TranslationBundle): Headline {
  const input = call.act?.input ?? call.input;
  const path = text(input['path']);
  const cells = size(input['cells']);
  switch (call.tool) {
    case 'read_notebook':
      return cells === null
        ? { verb: trans.__('Read the notebook'), line: '' }
        : { verb: trans._n('Read 1 cell', 'Read %1 cells', cells), line: '' };
    case 'edit_notebook': {
      const edits = size(input['edits']) ?? 0;
      return { verb: trans._n('Change 1 cell', 'Change %1 cells', edits), line: '' };
    }
    case 'run_cells':
      return {
        verb: trans._n('Run 1 cell', 'Run %1 cells', cells ?? 0),
        line: firstLine(call.act?.code ?? '')
      };
    case 'run_command':
      return { verb: trans.__('Run command'), line: firstLine(text(input['command'])) };
    case 'read_file':
      return { verb: trans.__('Read file'), line: path };
    case 'write_file':
      return { verb: trans.__('Write file'), line: path };
    case 'list_files':
      return { verb: trans.__('List files'), line: path };
    case 'search_files':
      return { verb: trans.__('Search files'), line: firstLine(text(input['pattern'])) };
    case 'search_skills':
      return { verb: trans.__('Search skills'), line: firstLine(text(input['query'])) };
    case 'load_skill':
      return { verb: trans.__('Load skill'), line: text(input['skill']) };
    case 'read_skill_file':
      return { verb: trans.__('Read a file of a skill'), line: joined(input['skill'], path) };
    case 'run_skill':
      return {
        verb: trans.__('Run skill'),
        line: joined(input['skill'], text(input['script']), argumentsOf(input['args']))
      };
    case 'save_artifact':
      return { verb: trans.__('Save artifact'), line: path };
    case 'ask_user':
      return { verb: trans.__('Ask you'), line: firstLine(text(input['question'])) };
    case 'fork_session':
      return { verb: trans.__('Fork the session'), line: '' };
    case 'rewind_session':
      return { verb: trans.__('Rewind to step %1', text(input['at'])), line: '' };
    default:
      return {
        verb: capital(call.act?.title ?? call.tool),
        line: firstLine(Object.values(input).map(text).join(' '))
      };
  }
}

/** A call's input to its last byte. */
export function inputOf(call: CallPart): Input {
  const input = call.act?.input ?? call.input;
  if (call.tool === 'run_command' && Object.keys(input).every(name => name === 'command')) {
    return { as: 'code', code: text(input['command']), prompt: '$' };
  }
  if (call.tool === 'run_cells' && call.act?.code != null) {
    return { as: 'code', code: call.act.code, prompt: '' };
  }
  return {
    as: 'fields',
    fields: Object.entries(input).flatMap(([name, each]) => fields(name, each))
  };
}

/** Values by the names of their places; texts as the lines that they have, not as JSON writes them. */
function fields(name: string, value: unknown): [string, string][] {
  if (typeof value === 'string') {
    return [[name, value]];
  }
  if (Array.isArray(value) && value.some(each => typeof each === 'object')) {
    return value.flatMap((each, place) => fields(`${name} ${place + 1}`, each));
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return Object.entries(value).flatMap(([inner, each]) => fields(`${name} ${inner}`, each));
  }
  return [[name, JSON.stringify(value)]];
}

/** How a call stands, in a word or two; `tone` chooses the icon beside the words. */
export function standingOf(
  call: CallPart,
  trans: TranslationBundle
): { readonly words: string; readonly tone: 'busy' | 'asks' | 'ok' | 'warning' | 'error' } {
  switch (call.standing) {
    case 'judged-next':
      return { words: trans.__('next'), tone: 'busy' };
    case 'asked':
      return { words: trans.__('waits for you'), tone: 'asks' };
    case 'allowed':
      return { words: trans.__('waits its turn'), tone: 'busy' };
    case 'running':
      return { words: trans.__('running'), tone: 'busy' };
    case 'ok':
      return { words: trans.__('ok'), tone: 'ok' };
    case 'error':
      return { words: trans.__('failed'), tone: 'error' };
    case 'denied':
      return { words: trans.__('denied'), tone: 'warning' };
    case 'lost':
      return { words: trans.__('lost: it may have run'), tone: 'error' };
    case 'cancelled':
      return { words: trans.__('stopped'), tone: 'warning' };
  }
}

/** By what right it ran, or did not: a few words for the head of a card. */
export function verdictOf(call: CallPart, trans: TranslationBundle): string {
  const { decided, verdict } = call;
  if (call.problem !== null) {
    return trans.__('cannot be made');
  }
  if (decided !== null) {
    if (decided.how === 'timeout') {
      return trans.__('not answered');
    }
    if (decided.how === 'cancelled') {
      return trans.__('not asked any more');
    }
    const words: Readonly<Record<string, string>> = {
      once: trans.__('allowed once'),
      session: trans.__('allowed for this session'),
      pattern: trans.__('allowed for a pattern'),
      deny: trans.__('by you')
    };
    return words[decided.decision] ?? '';
  }
  if (verdict === null) {
    return '';
  }
  if (verdict.grant !== null) {
    return trans.__('allowed before by you');
  }
  return { allow: trans.__('allowed'), ask: '', deny: trans.__('by %1', verdict.rule) }[
    verdict.decision
  ];
}

/** Seconds that a call took; null while it has not ended, or never ran. */
export function seconds(call: CallPart): number | null {
  return call.beganUs === null || call.endedUs === null
    ? null
    : Math.max(0, (call.endedUs - call.beganUs) / 1e6);
}

/** The line in front of a result that tells the model how its step ended: the card says it itself. */
const STEP_LINE = /^(?:step \d+ · [^\n]*(?:\n|$))(?:exit code 0(?:\n|$))?/;

/** What a call showed, as people read it. */
export function shownOf(call: CallPart): string {
  return call.steps.length > 0 ? call.text.replace(STEP_LINE, '') : call.text;
}

/** The newest lines of a text, and how many it has. */
export function tail(shown: string, most = LINES): { lines: readonly string[]; total: number } {
  const whole = shown.endsWith('\n') ? shown.slice(0, -1) : shown;
  if (whole === '') {
    return { lines: [], total: 0 };
  }
  const lines = whole.split('\n');
  return { lines: lines.slice(-most), total: lines.length };
}

// Folding ------------------------------------------------------------------------------------------

/** Parts as they are drawn: reads in a row are one. */
export type Drawn =
  | { readonly drawn: 'part'; readonly part: Part }
  | { readonly drawn: 'reads'; readonly key: string; readonly calls: readonly CallPart[] };

/** Whether a call may fold: what asked, failed, was denied or waits stands for itself. */
export function foldable(call: CallPart): boolean {
  return (
    call.standing === 'ok' &&
    call.act?.effect === 'read' &&
    call.verdict?.decision === 'allow' &&
    call.verdict.grant === null &&
    call.decided === null &&
    call.images.length === 0
  );
}

export function drawn(parts: readonly Part[], fold: boolean): readonly Drawn[] {
  const found: Drawn[] = [];
  let reads: CallPart[] = [];
  const close = (): void => {
    const [first] = reads;
    if (first !== undefined) {
      found.push(
        reads.length === 1
          ? { drawn: 'part', part: first }
          : { drawn: 'reads', key: `reads ${first.id}`, calls: reads }
      );
    }
    reads = [];
  };
  for (const part of parts) {
    if (fold && part.part === 'call' && foldable(part)) {
      reads.push(part);
    } else if (part.part === 'call' && part.tool === 'ask_user' && part.standing === 'ok') {
      // Its question and the answer stand there themselves.
    } else {
      close();
      found.push({ drawn: 'part', part });
    }
  }
  close();
  return found;
}

/** "Read 3 cells, 2 files, the notebook" of folded reads. */
export function readsLine(calls: readonly CallPart[], trans: TranslationBundle): string {
  const kinds = new Map<string, number>();
  for (const call of calls) {
    kinds.set(call.tool, (kinds.get(call.tool) ?? 0) + 1);
  }
  const words = [...kinds].map(([tool, many]) => {
    switch (tool) {
      case 'read_notebook':
        return trans._n('the notebook', 'the notebook %1 times', many);
      case 'read_file':
        return trans._n('1 file', '%1 files', many);
      case 'list_files':
        return trans._n('1 listing', '%1 listings', many);
      case 'search_files':
        return trans._n('1 search', '%1 searches', many);
      default:
        return `${tool} ×${count(many)}`;
    }
  });
  return trans.__('Read %1', words.join(', '));
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : value == null ? '' : JSON.stringify(value);
}

function size(value: unknown): number | null {
  return Array.isArray(value) ? value.length : null;
}

function joined(...pieces: unknown[]): string {
  return pieces
    .map(text)
    .filter(each => each !== '')
    .join(' ');
}

function argumentsOf(value: unknown): string {
  return Array.isArray(value) ? value.map(text).join(' ') : '';
}

function capital(words: string): string {
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}
