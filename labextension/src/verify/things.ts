// Files and variables that differ between two states, as rows of a table (pure).

import type { TranslationBundle } from '@jupyterlab/translation';

import { size } from '../parts/words';
import { ReportCause, ReportState } from './tokens';

export interface IThing {
  readonly name: string;
  /** How it differs, in words. */
  readonly what: string;
  readonly before: string;
  readonly after: string;
  readonly volatile: boolean;
  /** The step after which it first differed, where that is known. */
  readonly since: number | null;
  readonly diff: string;
  readonly causes: readonly ReportCause[];
}

type Compared = ReportState['files'];

export function files(found: Compared, trans: TranslationBundle): readonly IThing[] {
  return found.different.map(each => ({
    ...common(each),
    name: text(get(each, 'path')),
    what: fileWord(text(get(each, 'kind')), trans),
    before: entry(get(each, 'before'), trans),
    after: entry(get(each, 'after'), trans),
    diff: text(get(each, 'diff'))
  }));
}

export function variables(found: Compared, trans: TranslationBundle): readonly IThing[] {
  return found.different.map(each => ({
    ...common(each),
    name: text(get(each, 'name')),
    what: variableWord(text(get(each, 'kind')), trans),
    before: variable(get(each, 'before'), trans),
    after: variable(get(each, 'after'), trans),
    diff: ''
  }));
}

function common(each: object): Pick<IThing, 'volatile' | 'since' | 'causes'> {
  const since = get(each, 'since');
  const causes = get(each, 'causes');
  return {
    volatile: get(each, 'volatile') === true,
    since: typeof since === 'number' ? since : null,
    causes: Array.isArray(causes) ? (causes as ReportCause[]) : []
  };
}

function fileWord(kind: string, trans: TranslationBundle): string {
  switch (kind) {
    case 'missing':
      return trans.__('gone');
    case 'extra':
      return trans.__('new');
    case 'content':
      return trans.__('other content');
    case 'mode':
      return trans.__('other mode');
    case 'link':
      return trans.__('leads elsewhere');
    default:
      return trans.__('another kind of thing');
  }
}

function variableWord(kind: string, trans: TranslationBundle): string {
  switch (kind) {
    case 'missing':
      return trans.__('gone');
    case 'extra':
      return trans.__('new');
    case 'type':
      return trans.__('other type');
    default:
      return trans.__('other value');
  }
}

/** [path, type, mode, size, sha256 or target] as `reprise files --json` has it. */
function entry(value: unknown, trans: TranslationBundle): string {
  if (!Array.isArray(value)) {
    return trans.__('not there');
  }
  const [, type, mode, bytes, content] = value as unknown[];
  const bits = typeof mode === 'number' ? mode.toString(8).padStart(4, '0') : '';
  if (type === 'link') {
    return `→ ${text(content)}`;
  }
  return `${type === 'file' && typeof bytes === 'number' ? size(bytes) : text(type)} ${bits}`;
}

function variable(value: unknown, trans: TranslationBundle): string {
  if (typeof value !== 'object' || value === null) {
    return trans.__('no such name');
  }
  const shape = text(get(value, 'shape'));
  const type = `${text(get(value, 'type'))}${shape === '' ? '' : ` (${shape})`}`;
  const preview = text(get(value, 'preview'));
  return preview === '' ? type : `${preview} · ${type}`;
}

function get(value: object, name: string): unknown {
  return (value as Record<string, unknown>)[name];
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
