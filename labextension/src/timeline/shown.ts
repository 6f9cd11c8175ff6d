/** What a step showed, from its recorded messages: as a notebook's outputs, and as plain text. Pure. */

import type * as nbformat from '@jupyterlab/nbformat';
import type { PartialJSONObject } from '@lumino/coreutils';

import { isObject, list, object, text } from './told';

/** A recorded message: its type, content, metadata, and the sha256 of each buffer. */
export type Entry = readonly [string, PartialJSONObject, PartialJSONObject, readonly string[]];

/** Takes what the API gives for an output; null for one that is too large to be told here. */
export function asEntry(value: unknown): Entry | null {
  if (!Array.isArray(value) || typeof value[0] !== 'string' || !isObject(value[1])) {
    return null;
  }
  const metadata: unknown = value[2];
  const buffers: unknown = value[3];
  return [value[0], value[1], object(metadata), list(buffers).map(text)];
}

/**
 * The outputs at the step's end: streams joined, displays updated, what was cleared gone.
 *
 * What is in them is a stranger's: shapes are checked here, content is not made harmless.
 */
export function asOutputs(
  entries: readonly (Entry | null)[],
  count: number | null = null
): nbformat.IOutput[] {
  const outputs: nbformat.IOutput[] = [];
  const displays = new Map<string, nbformat.IOutput[]>();
  let clearing = false;
  const append = (output: nbformat.IOutput): void => {
    if (clearing) {
      outputs.length = 0;
      clearing = false;
    }
    outputs.push(output);
  };
  for (const entry of entries) {
    if (entry === null) {
      continue;
    }
    const [type, content] = entry;
    switch (type) {
      case 'clear_output':
        clearing = content['wait'] === true;
        if (!clearing) {
          outputs.length = 0;
        }
        break;
      case 'stream': {
        const name = content['name'] === 'stderr' ? 'stderr' : 'stdout';
        const said = text(content['text']);
        const last = clearing ? undefined : outputs[outputs.length - 1];
        if (last?.output_type === 'stream' && last['name'] === name) {
          last['text'] = text(last['text']) + said;
        } else {
          append({ output_type: 'stream', name, text: said });
        }
        break;
      }
      case 'display_data':
      case 'execute_result':
      case 'update_display_data': {
        const data = asBundle(content['data']);
        const metadata = object(content['metadata']);
        const display = object(content['transient'])['display_id'];
        if (type === 'update_display_data') {
          for (const output of displays.get(text(display)) ?? []) {
            output['data'] = data;
            output['metadata'] = metadata;
          }
          break;
        }
        const output: nbformat.IOutput = { output_type: type, data, metadata };
        if (type === 'execute_result') {
          output['execution_count'] = count;
        }
        if (typeof display === 'string') {
          displays.set(display, [...(displays.get(display) ?? []), output]);
        }
        append(output);
        break;
      }
      case 'error': {
        append({
          output_type: 'error',
          ename: text(content['ename']),
          evalue: text(content['evalue']),
          traceback: list(content['traceback']).map(text)
        });
        break;
      }
    }
  }
  return outputs;
}

/** The text of one output, for a comparison; null for one that has none. */
export function outputText(output: nbformat.IOutput): string | null {
  if (output.output_type === 'stream') {
    return plain(text(output['text']));
  }
  if (output.output_type === 'error') {
    const lines = list(output['traceback']).map(text).join('\n');
    return plain(lines || `${text(output['ename'])}: ${text(output['evalue'])}`);
  }
  const data = object(output['data']);
  for (const mime of ['text/plain', 'text/markdown', 'text/latex', 'text/html']) {
    if (data[mime] !== undefined) {
      return plain(text(data[mime]));
    }
  }
  const json = Object.entries(data).find(
    ([mime]) => mime === 'application/json' || mime.endsWith('+json')
  );
  return json === undefined ? null : JSON.stringify(json[1], null, 2);
}

/** Pictures that a browser shows without running anything. */
const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const;

/** The address of the picture in an output; null where there is none. */
export function outputPicture(output: nbformat.IOutput): string | null {
  const data = object(output['data']);
  for (const mime of PICTURES) {
    const value = data[mime];
    if (typeof value === 'string' || Array.isArray(value)) {
      const bytes = text(value).replace(/\s/g, '');
      if (/^[A-Za-z0-9+/]+=*$/.test(bytes)) {
        return `data:${mime};base64,${bytes}`;
      }
    }
  }
  return null;
}

/** Text without the sequences that colour it in a terminal. */
export function plain(said: string): string {
  // eslint-disable-next-line no-control-regex -- terminal sequences begin with it
  return said.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, '');
}

/** The first `lines` lines of a text, and how many it has. */
export function firstLines(said: string, lines: number): { text: string; total: number } {
  let total = 1;
  let end = said.length;
  for (let at = said.indexOf('\n'); at >= 0; at = said.indexOf('\n', at + 1)) {
    if (at === said.length - 1) {
      break;
    }
    if (total === lines) {
      end = at;
    }
    total += 1;
  }
  return { text: said.slice(0, end), total };
}

function asBundle(value: unknown): PartialJSONObject {
  const bundle: PartialJSONObject = {};
  for (const [mime, data] of Object.entries(object(value))) {
    const json = mime === 'application/json' || mime.endsWith('+json');
    bundle[mime] = json ? data : text(data);
  }
  return bundle;
}
