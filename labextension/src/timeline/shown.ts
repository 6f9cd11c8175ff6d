/** What a step showed, from its recorded messages: as a notebook's outputs, and as plain text. Pure. */

import type * as nbformat from '@jupyterlab/nbformat';
import type { PartialJSONObject, PartialJSONValue } from '@lumino/coreutils';

/** A recorded message: its type, content, metadata, and the sha256 of each buffer. */
export type Entry = readonly [string, PartialJSONObject, PartialJSONObject, readonly string[]];

/** Takes what the API gives for an output; null for one that is too large to be told here. */
export function asEntry(value: unknown): Entry | null {
  if (!Array.isArray(value) || typeof value[0] !== 'string' || !isObject(value[1])) {
    return null;
  }
  const metadata: unknown = value[2];
  const buffers: unknown = value[3];
  return [
    value[0],
    value[1],
    isObject(metadata) ? metadata : {},
    Array.isArray(buffers) ? buffers.map(String) : []
  ];
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
        const text = asText(content['text']);
        const last = clearing ? undefined : outputs[outputs.length - 1];
        if (last?.output_type === 'stream' && last['name'] === name) {
          last['text'] = `${String(last['text'])}${text}`;
        } else {
          append({ output_type: 'stream', name, text });
        }
        break;
      }
      case 'display_data':
      case 'execute_result':
      case 'update_display_data': {
        const data = asBundle(content['data']);
        const metadata = isObject(content['metadata']) ? content['metadata'] : {};
        const transient = content['transient'];
        const display = isObject(transient) ? transient['display_id'] : undefined;
        if (type === 'update_display_data') {
          for (const output of displays.get(String(display)) ?? []) {
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
        const lines = content['traceback'];
        append({
          output_type: 'error',
          ename: asText(content['ename']),
          evalue: asText(content['evalue']),
          traceback: Array.isArray(lines) ? lines.map(line => asText(line)) : []
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
    return plain(asText(output['text'] as PartialJSONValue));
  }
  if (output.output_type === 'error') {
    const traceback = output['traceback'] as string[];
    const lines = traceback.length > 0 ? traceback : [`${asText(output['ename'] as string)}: ${asText(output['evalue'] as string)}`];
    return plain(lines.join('\n'));
  }
  const data = output['data'];
  if (!isObject(data)) {
    return null;
  }
  for (const mime of ['text/plain', 'text/markdown', 'text/latex', 'text/html']) {
    if (data[mime] !== undefined) {
      return plain(asText(data[mime]));
    }
  }
  const json = Object.entries(data).find(([mime]) => mime === 'application/json' || mime.endsWith('+json'));
  return json === undefined ? null : JSON.stringify(json[1], null, 2);
}

/** Pictures that a browser shows without running anything. */
const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const;

/** The address of the picture in an output; null where there is none. */
export function outputPicture(output: nbformat.IOutput): string | null {
  const data = output['data'];
  if (!isObject(data)) {
    return null;
  }
  for (const mime of PICTURES) {
    const value = data[mime];
    if (typeof value === 'string' || Array.isArray(value)) {
      const bytes = asText(value).replace(/\s/g, '');
      if (/^[A-Za-z0-9+/]+=*$/.test(bytes)) {
        return `data:${mime};base64,${bytes}`;
      }
    }
  }
  return null;
}

/** Text without the sequences that colour it in a terminal. */
export function plain(text: string): string {
  // eslint-disable-next-line no-control-regex -- terminal sequences begin with it
  return text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, '');
}

/** The first `lines` lines of a text, and how many it has. */
export function firstLines(text: string, lines: number): { text: string; total: number } {
  let total = 1;
  let end = text.length;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) {
    if (at === text.length - 1) {
      break;
    }
    if (total === lines) {
      end = at;
    }
    total += 1;
  }
  return { text: text.slice(0, end), total };
}

function asText(value: PartialJSONValue | undefined): string {
  return Array.isArray(value) ? value.map(String).join('') : value === undefined ? '' : String(value as string);
}

function asBundle(value: PartialJSONValue | undefined): PartialJSONObject {
  const bundle: PartialJSONObject = {};
  if (isObject(value)) {
    for (const [mime, data] of Object.entries(value)) {
      const json = mime === 'application/json' || mime.endsWith('+json');
      bundle[mime] = json ? data : asText(data);
    }
  }
  return bundle;
}

function isObject(value: unknown): value is PartialJSONObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
