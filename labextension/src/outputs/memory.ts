// What a notebook remembers of its session, and which of its cells have missed something (pure).

import { JSONExt, PartialJSONValue, ReadonlyPartialJSONValue } from '@lumino/coreutils';

import { Schemas } from '../api/tokens';

/** A cell's newest step, as the server tells it. */
export type ICellStep = Schemas['CellFields'];

/** Up to where a notebook shows a session: `metadata.reprise` of the notebook. */
export interface IMemory {
  readonly session: string;
  /** The last step; null: another front end has saved the notebook, which says the session only. */
  readonly step: number | null;
  /** How many batches of outputs were stored by then. */
  readonly outputs: number | null;
}

/** A cell of the notebook, as far as it matters here. */
export interface ICellNow {
  /** Its prompt number. */
  readonly count: number | null;
}

/** What the notebook's metadata say; null where they say nothing usable. */
export function readMemory(said: unknown): IMemory | null {
  if (typeof said !== 'object' || said === null) {
    return null;
  }
  const { session, step, outputs } = said as Record<string, unknown>;
  if (typeof session !== 'string' || session === '') {
    return null;
  }
  return { session, step: whole(step, -1), outputs: whole(outputs, 0) };
}

function whole(value: unknown, least: number): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= least ? value : null;
}

/** The metadata with what is remembered now; what others keep there stays. */
export function withMemory(
  said: unknown,
  memory: { session: string; step: number; outputs: number }
): { [key: string]: PartialJSONValue } {
  const kept = typeof said === 'object' && said !== null && !Array.isArray(said) ? said : {};
  return { ...(kept as { [key: string]: PartialJSONValue }), ...memory };
}

/**
 * Whether a cell has missed its newest step.
 *
 * @param known the last step that the notebook shows, as a step of this session; null: not said.
 * Then it is told by what the cell holds: no prompt number, as while a cell runs, or a lower one
 * than the step's.
 */
export function missed(step: ICellStep, known: number | null, cell: ICellNow): boolean {
  if (known !== null) {
    return step.seq > known;
  }
  if (cell.count === null) {
    return true;
  }
  return step.execution_count !== null && cell.count < step.execution_count;
}

/**
 * Up to where the notebook shows the session, when these steps of its cells are still open.
 *
 * @param steps how many the session has
 * @param open steps whose output is not, or not wholly, in the notebook
 */
export function shownUntil(steps: number, open: Iterable<number>): number {
  let until = steps - 1;
  for (const seq of open) {
    until = Math.min(until, seq - 1);
  }
  return until;
}

type Output = Readonly<Record<string, ReadonlyPartialJSONValue | undefined>>;

/** Whether two lists of outputs are of the same kinds, one by one: so that nobody cleared them. */
export function sameKinds(one: readonly Output[], other: readonly Output[]): boolean {
  return (
    one.length === other.length &&
    one.every((output, at) => output.output_type === other[at]?.output_type)
  );
}

/** Whether outputs are the beginning of others: those came later, and nothing was taken away. */
export function beginningOf(part: readonly Output[], all: readonly Output[]): boolean {
  return (
    part.length > 0 &&
    part.length <= all.length &&
    part.every((output, at) => {
      const other = all[at];
      if (other === undefined) {
        return false;
      }
      if (at === part.length - 1 && output.output_type === 'stream') {
        return (
          other.output_type === 'stream' &&
          output.name === other.name &&
          textOf(other.text).startsWith(textOf(output.text))
        );
      }
      return sameOutput(output, other);
    })
  );
}

/** Whether two lists show the same, however their texts are divided into lines. */
export function sameOutputs(one: readonly Output[], other: readonly Output[]): boolean {
  return (
    one.length === other.length &&
    one.every((output, at) => {
      const same = other[at];
      return same !== undefined && sameOutput(output, same);
    })
  );
}

function sameOutput(one: Output, other: Output): boolean {
  return JSONExt.deepEqual(comparable(one), comparable(other));
}

function comparable(output: Output): ReadonlyPartialJSONValue {
  const { output_type, name, text, data, ename, evalue } = output;
  const kept: Record<string, ReadonlyPartialJSONValue | undefined> = {
    output_type,
    name,
    ename,
    evalue,
    text: text === undefined ? undefined : textOf(text)
  };
  if (typeof data === 'object' && data !== null) {
    kept.data = Object.fromEntries(
      Object.entries(data as Record<string, ReadonlyPartialJSONValue>).map(([mime, value]) => [
        mime,
        Array.isArray(value) && value.every(line => typeof line === 'string')
          ? value.join('')
          : value
      ])
    );
  }
  return kept;
}

function textOf(text: ReadonlyPartialJSONValue | undefined): string {
  return Array.isArray(text) ? text.join('') : typeof text === 'string' ? text : '';
}
