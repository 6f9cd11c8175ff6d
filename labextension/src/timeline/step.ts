/** One step whole, as the detail and the comparison need it, from the server's answer. Pure. */

import type * as nbformat from '@jupyterlab/nbformat';
import type { PartialJSONObject } from '@lumino/coreutils';

import type { Schemas } from '../api/tokens';
import { asEntry, asOutputs } from './shown';
import { isObject, list, object, text } from './told';
import type { ActorKind, IActor, Outcome, StepKind } from './tokens';

/** A file that a step brought in. */
export interface IBrought {
  readonly path: string;
  readonly size: number | null;
  readonly removed: boolean;
}

/** A fact by its kind; `name` is that of a variable of the environment. */
export interface IFact {
  readonly what: 'target' | 'skill' | 'tree' | 'emptied' | 'kept' | 'folder' | 'variable' | 'stdin';
  readonly name?: string;
  readonly value: string;
}

/** A step with what was asked for and what it showed. */
export interface IStep {
  readonly seq: number;
  readonly kind: StepKind;
  readonly actor: IActor;
  readonly at: string;
  readonly outcome: Outcome | null;
  readonly cause: PartialJSONObject | null;
  readonly duration_s: number | null;
  readonly execution_count: number | null;
  readonly environment: string;
  readonly digest: string;
  readonly chain: string | null;
  /** What was asked for, as text, and the language of it for an editor. */
  readonly input: string;
  readonly language: 'python' | 'shell' | 'text';
  /** Facts about what was asked for that are not in its text. */
  readonly facts: readonly IFact[];
  readonly brought: readonly IBrought[];
  readonly outputs: readonly nbformat.IOutput[];
  /** Sizes of outputs that are too large for one answer, bytes; and whether there are more. */
  readonly leftOut: readonly number[];
  readonly more: boolean;
  /** What to ask for to run it again; null for what cannot be. */
  readonly again: Again | null;
}

export type Again = Schemas['CellWanted'] | Schemas['CommandWanted'];

/** What the server says of a step. */
export interface ITold {
  readonly seq: number;
  readonly kind: string;
  readonly actor: Readonly<Record<string, unknown>>;
  readonly at: string;
  readonly payload: unknown;
  readonly environment: string;
  readonly digest: string;
  readonly chain: string | null;
  readonly outcome: Outcome | null;
  readonly cause: unknown;
  readonly duration_s: number | null;
  readonly execution_count: number | null;
  readonly outputs: readonly unknown[];
  readonly outputs_left_out: readonly { readonly bytes: number }[];
  readonly outputs_next: number | null;
  readonly late_outputs: readonly unknown[];
  readonly late_outputs_next: number | null;
}

export function asStep(told: ITold): IStep {
  const kind = told.kind as StepKind;
  const payload = object(told.payload);
  return {
    seq: told.seq,
    kind,
    actor: asActor(told.actor),
    at: told.at,
    outcome: told.outcome,
    cause: isObject(told.cause) ? told.cause : null,
    duration_s: told.duration_s,
    execution_count: told.execution_count,
    environment: told.environment,
    digest: told.digest,
    chain: told.chain,
    ...asked(kind, payload),
    outputs: asOutputs([...told.outputs, ...told.late_outputs].map(asEntry), told.execution_count),
    leftOut: told.outputs_left_out.map(each => each.bytes),
    more: told.outputs_next !== null || told.late_outputs_next !== null
  };
}

export function asActor(told: Readonly<Record<string, unknown>>): IActor {
  const { kind, conversation, turn } = told;
  return {
    kind: kind === 'agent' || kind === 'system' ? kind : ('user' satisfies ActorKind),
    ...(typeof conversation === 'string' ? { conversation } : {}),
    ...(typeof turn === 'number' ? { turn } : {})
  };
}

type Asked = Pick<IStep, 'input' | 'language' | 'facts' | 'brought' | 'again'>;

function asked(kind: StepKind, payload: PartialJSONObject): Asked {
  const nothing: Asked = { input: '', language: 'text', facts: [], brought: [], again: null };
  switch (kind) {
    case 'cell': {
      const content = object(payload['content']);
      const code = text(content['code']);
      const metadata = object(payload['metadata']);
      const cell = metadata['cellId'];
      return {
        ...nothing,
        input: code,
        language: 'python',
        again: {
          kind: 'cell',
          code,
          silent: false,
          store_history: true,
          start: true,
          ...(typeof cell === 'string' ? { cell_id: cell } : {})
        }
      };
    }
    case 'command':
      return { ...nothing, ...command(payload) };
    case 'upload':
      return { ...nothing, brought: brought(payload) };
    case 'mount': {
      const skill = object(payload['skill']);
      const facts: IFact[] = [{ what: 'target', value: text(payload['target']) }];
      if (skill['name'] !== undefined) {
        facts.push({ what: 'skill', value: text(skill['name']) });
      }
      facts.push({ what: 'tree', value: text(payload['tree']) });
      return { ...nothing, input: text(payload['target']), facts };
    }
    case 'comm': {
      const content = object(payload['content']);
      return { ...nothing, input: JSON.stringify(content['data'] ?? content, null, 2) };
    }
    case 'restart':
      return {
        ...nothing,
        facts: [{ what: payload['emptied'] === true ? 'emptied' : 'kept', value: '' }]
      };
  }
}

function command(payload: PartialJSONObject): Partial<Asked> {
  const { argv, shell, cwd, env, stdin, background } = payload;
  const words = Array.isArray(argv) ? argv.map(text) : null;
  const input = words === null ? text(shell) : words.map(quoted).join(' ');
  const facts: IFact[] = [];
  if (typeof cwd === 'string') {
    facts.push({ what: 'folder', value: cwd });
  }
  for (const [name, value] of Object.entries(object(env))) {
    facts.push({ what: 'variable', name, value: text(value) });
  }
  if (typeof stdin === 'string') {
    facts.push({ what: 'stdin', value: stdin });
  }
  // What runs beside the cells, ends another command, or reads stored bytes, is not asked for here.
  const again: Again | null =
    typeof stdin === 'string' ||
    background === true ||
    (words === null && typeof shell !== 'string')
      ? null
      : {
          kind: 'command',
          ...(words === null ? { shell: text(shell) } : { argv: words }),
          ...(typeof cwd === 'string' ? { cwd } : {}),
          ...(isObject(env) ? { env: strings(env) } : {}),
          start: true
        };
  return { input, language: 'shell', facts, again };
}

function brought(payload: PartialJSONObject): IBrought[] {
  const entries = list(payload['entries']);
  const removed = list(payload['removed']);
  return [
    ...entries.flatMap(entry =>
      Array.isArray(entry)
        ? [
            {
              path: text(entry[0]),
              size: entry[1] === 'file' && typeof entry[3] === 'number' ? entry[3] : null,
              removed: false
            }
          ]
        : []
    ),
    ...removed.map(path => ({ path: text(path), size: null, removed: true }))
  ];
}

/** A word as a shell would take it whole. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'"'"'`)}'`;
}

function strings(value: PartialJSONObject): Record<string, string> {
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, text(each)]));
}
