// Entries of a workspace as models of Jupyter's contents (pure, but for reading bytes).

import { Contents } from '@jupyterlab/services';

import { base64, bytesOfBase64 } from '../parts/base64';
import { IEntry } from './files';
import { IPlace, joined, localPathOf, nameOf } from './paths';

/** Bytes that a document may have: an editor with more is of no use, and stops the page. */
export const MOST_SHOWN = 32 * 1024 * 1024;

/** Of what has no known time. */
const NEVER = '1970-01-01T00:00:00Z';

export function isFolder(entry: IEntry): boolean {
  return entry.type === 'dir' || (entry.type === 'link' && entry.leads === 'dir');
}

/** A model without content. */
export function modelOf(place: IPlace, entry: IEntry): Contents.IModel {
  const own = { ...place, path: entry.path };
  const modified = entry.modified ?? NEVER;
  return {
    name: nameOf(entry.path),
    path: localPathOf(own),
    type: isFolder(entry) ? 'directory' : typeOf(entry.name),
    writable: place.at === null,
    created: modified,
    last_modified: modified,
    mimetype: '',
    content: null,
    format: null,
    ...(entry.size === null ? {} : { size: entry.size })
  };
}

export function folderModel(
  place: IPlace,
  name: string,
  children: Contents.IModel[]
): Contents.IModel {
  return {
    name,
    path: localPathOf(place),
    type: 'directory',
    writable: place.at === null,
    created: NEVER,
    last_modified: NEVER,
    mimetype: '',
    content: children,
    format: 'json'
  };
}

/** `notebook` where Jupyter shows it as one, else `file`. */
export function typeOf(name: string): 'notebook' | 'file' {
  return name.toLowerCase().endsWith('.ipynb') ? 'notebook' : 'file';
}

/**
 * The content of a file, as it was asked for or as it is: text where the bytes are UTF-8.
 * Throws where a notebook is none, or text was asked for and it is not.
 */
export async function withContent(
  model: Contents.IModel,
  bytes: Blob,
  options: Contents.IFetchOptions
): Promise<Contents.IModel> {
  const type = options.type ?? model.type;
  const data = new Uint8Array(await bytes.arrayBuffer());
  const read = decoded(data);
  if (type === 'notebook') {
    if (read === null) {
      throw new Error(`${model.name} is no notebook: it is not UTF-8 text.`);
    }
    let content: unknown;
    try {
      content = JSON.parse(read);
    } catch (error) {
      throw new Error(`${model.name} is no notebook: ${String(error)}`, { cause: error });
    }
    return { ...model, type, content, format: 'json', mimetype: '' };
  }
  const wanted = options.format ?? (read === null ? 'base64' : 'text');
  if (wanted === 'base64') {
    return {
      ...model,
      type: 'file',
      content: base64(data),
      format: 'base64',
      mimetype: 'application/octet-stream'
    };
  }
  if (read === null) {
    throw new Error(
      `${model.name} is not UTF-8 text. Download it, or open it with another viewer.`
    );
  }
  return { ...model, type: 'file', content: read, format: 'text', mimetype: 'text/plain' };
}

/** What a document is saved with, as bytes. */
export function bytesOf(options: Partial<Contents.IModel>): Blob {
  const { content, format, type } = options as { content: unknown; format?: string; type?: string };
  if (type === 'notebook' || format === 'json') {
    return new Blob([`${JSON.stringify(content, null, 1)}\n`]);
  }
  if (format === 'base64') {
    return new Blob([bytesOfBase64(typeof content === 'string' ? content : '')]);
  }
  return new Blob([typeof content === 'string' ? content : '']);
}

function decoded(data: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return null;
  }
}

/** An entry of a path that was just made, before a listing tells more. */
export function madeEntry(
  folder: string,
  name: string,
  type: 'file' | 'dir',
  size: number
): IEntry {
  return {
    name,
    path: joined(folder, name),
    type,
    size: type === 'file' ? size : null,
    modified: new Date().toISOString(),
    leads: null
  };
}
