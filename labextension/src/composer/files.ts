// Files of the session's workspace, and of the notebook's folder while the workspace is not there.

import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';

import { ApiError, IApi } from '../api/tokens';
import { size as sized } from '../parts/words';
import { fitting } from './mentions';
import { IItem, MOST_EACH } from './message';
import type { ISource, ISuggestion } from './suggestions';

/** What a source of files is told of the notebook at hand. */
export interface IPlace {
  /** Null where it is not known. */
  readonly session: string | null;
  /** Of the notebook, as the contents API has it. */
  readonly path: string | null;
}

/** Files of a workspace that are looked through; milliseconds that a list of them is good for. */
const MOST_FILES = 2_000;
const FRESH = 5_000;
/** Bytes of a file whose content is brought; of a larger one only its name. */
const MOST_BYTES = 1 << 20;

interface IFile {
  readonly path: string;
  readonly size: number | null;
  /** Reads it as text; null where it is none. */
  readonly read: () => Promise<string | null>;
}

/** The files that a message may name. */
export class FileSource implements ISource {
  constructor(
    private readonly _api: IApi,
    private readonly _contents: Contents.IManager,
    private readonly _place: () => IPlace,
    private readonly _trans: TranslationBundle,
    private readonly _now: () => number = Date.now
  ) {}

  async find(words: string): Promise<readonly ISuggestion[]> {
    const files = await this._files();
    // By its path alone: nobody looks for a file by its size.
    return fitting(
      files.map(file => ({ file, label: file.path, detail: '' })),
      words
    ).map(({ file }) => ({
      key: `file:${file.path}`,
      group: 'files',
      label: file.path,
      detail: file.size === null ? '' : sized(file.size),
      instead: file.path,
      bring: () => this._item(file)
    }));
  }

  private async _item(file: IFile): Promise<IItem> {
    const trans = this._trans;
    const detail = file.size === null ? '' : sized(file.size);
    const more = `Not shown whole here${detail === '' ? '' : ` (${detail})`}: read_file and search_files look into it.`;
    const small = file.size === null || file.size <= MOST_BYTES;
    const text = small ? await file.read() : null;
    return {
      kind: 'file',
      name: file.path,
      title: detail === '' ? file.path : trans.__('%1 (%2)', file.path, detail),
      content: text === null ? '' : text.slice(0, MOST_EACH + 1_000),
      more
    };
  }

  private async _files(): Promise<readonly IFile[]> {
    const place = this._place();
    const key = JSON.stringify(place);
    if (this._kept === null || this._kept.key !== key || this._now() > this._kept.until) {
      const files = this._list(place);
      this._kept = { key, files, until: this._now() + FRESH };
      files.catch(() => {
        this._kept = null;
      });
    }
    return this._kept.files;
  }

  private async _list(place: IPlace): Promise<readonly IFile[]> {
    if (place.session !== null) {
      try {
        return await this._workspace(place.session);
      } catch (failed) {
        // No kernel holds it, or it has had no step yet: then the notebook's folder is what it gets.
        if (!(failed instanceof ApiError) || failed.status === 0) {
          throw failed;
        }
      }
    }
    return place.path === null ? [] : this._folder(place.path);
  }

  private async _workspace(session: string): Promise<readonly IFile[]> {
    const listed = await this._api.get('/sessions/{session}/files', {
      params: { path: { session }, query: { limit: MOST_FILES } }
    });
    return listed.files
      .filter(each => each.type === 'file')
      .map(each => ({
        path: each.path,
        size: each.size,
        read: async () => {
          const where = `sessions/${session}/files/content?path=${encodeURIComponent(each.path)}`;
          const answer = await this._api.fetch(where);
          return asText(await answer.arrayBuffer());
        }
      }));
  }

  private async _folder(notebook: string): Promise<readonly IFile[]> {
    const folder = notebook.includes('/') ? notebook.slice(0, notebook.lastIndexOf('/')) : '';
    const listed = await this._contents.get(folder, { content: true });
    const found = Array.isArray(listed.content) ? (listed.content as Contents.IModel[]) : [];
    return found
      .filter(each => each.type !== 'directory')
      .map(each => ({
        path: each.name,
        size: each.size ?? null,
        read: async () => {
          const model = await this._contents.get(each.path, { type: 'file', format: 'base64' });
          const bytes = Uint8Array.from(atob(String(model.content)), byte => byte.charCodeAt(0));
          return asText(bytes.buffer);
        }
      }));
  }

  private _kept: {
    readonly key: string;
    readonly until: number;
    readonly files: Promise<readonly IFile[]>;
  } | null = null;
}

/** Text, where the bytes are some: UTF-8 without a NUL. */
export function asText(bytes: ArrayBuffer): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return text.includes('\u0000') ? null : text;
  } catch {
    return null;
  }
}
