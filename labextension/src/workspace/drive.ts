// JupyterLab's contents drive over the workspaces of sessions: `Reprise:SESSION/path`, `SESSION@41/path`.

import { Contents, ServerConnection } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';

import { ApiError } from '../api/tokens';
import { IEntry, WorkspaceFiles } from './files';
import {
  bytesOf,
  folderModel,
  isFolder,
  madeEntry,
  modelOf,
  MOST_SHOWN,
  withContent
} from './models';
import { DRIVE, folderOf, freeName, IPlace, joined, localPathOf, nameOf, placeOf } from './paths';

/** Entries of a folder that are listed at first; a page with more rows than that is slow. */
export const FIRST = 2_000;

/** A refusal as JupyterLab's file browser looks at it: by the status of its response. */
export class DriveError extends Error {
  constructor(
    message: string,
    readonly response: { readonly status: number },
    options?: ErrorOptions
  ) {
    super(message, options);
    this.name = 'DriveError';
  }
}

/** A folder of which not all is listed. */
export interface IPartial {
  readonly listed: number;
  readonly total: number;
}

/** The sessions that are listed at the drive's root. */
export type KnownSessions = () => readonly { readonly id: string; readonly name: string }[];

export class WorkspaceDrive implements Contents.IDrive {
  constructor(
    private readonly _files: WorkspaceFiles,
    readonly serverSettings: ServerConnection.ISettings,
    private readonly _known: KnownSessions
  ) {}

  readonly name = DRIVE;

  get fileChanged(): ISignal<this, Contents.IChangedArgs> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      Signal.clearData(this);
    }
  }

  /** All of a folder. Rejects where it has more than `most`: a part would be taken for the whole. */
  async whole(localPath: string, most: number): Promise<readonly Contents.IModel[]> {
    const place = this._place(localPath);
    const { entries, total, more } = await told(this._files.folder(place, most));
    if (more) {
      const name = place.path === '' ? 'The workspace' : nameOf(place.path);
      throw new DriveError(
        `${name} has ${total.toLocaleString()} entries, and at most ${most.toLocaleString()} are copied at once. Pack it into an archive first.`,
        { status: 413 }
      );
    }
    return entries.map(each => modelOf(place, each));
  }

  /** How much of a folder is listed; null: all of it. */
  partial(localPath: string): IPartial | null {
    return this._partial.get(localPath) ?? null;
  }

  /** List more of a folder from now on. */
  more(localPath: string): void {
    this._limits.set(localPath, (this._limits.get(localPath) ?? FIRST) + FIRST);
  }

  /** The file as it is, of whatever size. */
  bytes(localPath: string): Promise<Blob> {
    return told(this._files.bytes(this._place(localPath)));
  }

  /** Bring a file in. Rejects with an ApiError `exists` where something is there already. */
  async put(localPath: string, bytes: Blob, replace: boolean): Promise<void> {
    const place = this._writable(localPath);
    await this._files.put(place.session, place.path, bytes, replace);
    this._made(place, 'file', bytes.size);
  }

  async get(localPath: string, options: Contents.IFetchOptions = {}): Promise<Contents.IModel> {
    const place = placeOf(localPath);
    if (place === null) {
      return this._root(localPath);
    }
    return told(this._get(place, options));
  }

  getDownloadUrl(localPath: string): Promise<string> {
    return Promise.resolve(this._files.url(this._place(localPath)));
  }

  async newUntitled(options: Contents.ICreateOptions = {}): Promise<Contents.IModel> {
    const place = this._writable(options.path ?? '');
    const { type } = options;
    const name =
      type === 'directory'
        ? 'Untitled Folder'
        : type === 'notebook'
          ? 'Untitled.ipynb'
          : `untitled${ending(options.ext)}`;
    for (let taken: string[] = []; ;) {
      const free = freeName(name, each => taken.includes(each));
      const path = joined(place.path, free);
      try {
        await (type === 'directory'
          ? this._files.change(place.session, { make: [path] })
          : this._files.put(place.session, path, empty(type), false));
      } catch (error) {
        if (error instanceof ApiError && error.code === 'exists' && taken.length < 1_000) {
          taken = [...taken, free];
          continue;
        }
        throw statused(error);
      }
      return this._made({ ...place, path }, type === 'directory' ? 'dir' : 'file', 0);
    }
  }

  async delete(localPath: string): Promise<void> {
    const place = this._writable(localPath);
    await told(this._files.change(place.session, { remove: [place.path] }));
    this._changed.emit({ type: 'delete', oldValue: { path: localPathOf(place) }, newValue: null });
  }

  async rename(oldLocalPath: string, newLocalPath: string): Promise<Contents.IModel> {
    const from = this._writable(oldLocalPath);
    const to = this._writable(newLocalPath);
    if (from.session !== to.session) {
      throw new DriveError(
        'Files are not moved from one session to another. Nothing was changed. Copy them.',
        { status: 400 }
      );
    }
    const move = [{ from: from.path, to: to.path }];
    await told(this._files.change(from.session, { move }));
    const model = await this.get(localPathOf(to));
    this._changed.emit({
      type: 'rename',
      oldValue: { path: localPathOf(from) },
      newValue: model
    });
    return model;
  }

  async save(
    localPath: string,
    options: Partial<Contents.IModel> & Contents.IContentProvisionOptions = {}
  ): Promise<Contents.IModel> {
    const place = this._writable(localPath);
    if (options.type === 'directory') {
      await told(this._files.change(place.session, { make: [place.path] }));
      return this._made(place, 'dir', 0);
    }
    const bytes = this._whole(localPath, options);
    if (bytes !== null) {
      await told(this._files.put(place.session, place.path, bytes, true));
    }
    const model =
      bytes === null
        ? modelOf(place, madeEntry(folderOf(place.path), nameOf(place.path), 'file', 0))
        : await this.get(localPathOf(place));
    this._changed.emit({ type: 'save', oldValue: null, newValue: model });
    return model;
  }

  async copy(localPath: string, toLocalDir: string): Promise<Contents.IModel> {
    const from = this._place(localPath);
    const folder = this._writable(toLocalDir);
    const name = nameOf(from.path);
    const { entries } = await told(this._files.folder(folder, MOST_LISTED));
    const taken = new Set(entries.map(each => each.name));
    const to = joined(
      folder.path,
      freeName(name, each => taken.has(each))
    );
    if (from.session === folder.session && from.at === null) {
      const copy = [{ from: from.path, to }];
      await told(this._files.change(folder.session, { copy }));
    } else {
      // Of another session, or of a past step: its bytes are brought in.
      const bytes = await told(this._files.bytes(from));
      await told(this._files.put(folder.session, to, bytes, false));
    }
    const model = await this.get(localPathOf({ ...folder, path: to }));
    this._changed.emit({ type: 'new', oldValue: null, newValue: model });
    return model;
  }

  // Each step is one: there is nothing to keep beside the log.

  createCheckpoint(): Promise<Contents.ICheckpointModel> {
    return Promise.resolve({ id: 'log', last_modified: new Date().toISOString() });
  }

  listCheckpoints(): Promise<Contents.ICheckpointModel[]> {
    return Promise.resolve([]);
  }

  restoreCheckpoint(): Promise<void> {
    return Promise.reject(
      new DriveError('Earlier files are in the timeline: choose a step there, and its files.', {
        status: 400
      })
    );
  }

  deleteCheckpoint(): Promise<void> {
    return Promise.resolve();
  }

  private async _get(place: IPlace, options: Contents.IFetchOptions): Promise<Contents.IModel> {
    const entry = place.path === '' ? null : await this._files.entry(place);
    if (place.path !== '' && entry === null) {
      throw new DriveError(`There is no ${nameOf(place.path)} in this workspace.`, { status: 404 });
    }
    if (entry === null || isFolder(entry)) {
      return this._folder(place, options.content !== false);
    }
    const model = modelOf(place, entry);
    if (options.content !== true) {
      return options.type === undefined ? model : { ...model, type: options.type };
    }
    if ((entry.size ?? 0) > MOST_SHOWN) {
      throw new DriveError(
        `${entry.name} has ${Math.round((entry.size ?? 0) / 1048576)} MiB, too much to open in a page. Download it.`,
        { status: 413 }
      );
    }
    return withContent(model, await this._files.bytes(place), options);
  }

  private async _folder(place: IPlace, content: boolean): Promise<Contents.IModel> {
    const path = localPathOf(place);
    const name = place.path === '' ? path : nameOf(place.path);
    if (!content) {
      return { ...folderModel(place, name, []), content: null, format: null };
    }
    const limit = this._limits.get(path) ?? FIRST;
    const { entries, total, more } = await this._files.folder(place, limit);
    if (more) {
      this._partial.set(path, { listed: entries.length, total });
    } else {
      this._partial.delete(path);
    }
    return folderModel(
      place,
      name,
      entries.map(each => modelOf(place, each))
    );
  }

  private _root(localPath: string): Contents.IModel {
    if (localPath.replace(/\//g, '') !== '') {
      throw new DriveError('This names no session of Reprise.', { status: 404 });
    }
    const top: IPlace = { session: '', at: null, path: '' };
    const sessions = this._known().map(({ id, name }) => ({
      ...folderModel({ session: id, at: null, path: '' }, name, []),
      content: null,
      format: null
    }));
    return { ...folderModel(top, '', sessions), path: '', writable: false };
  }

  private _place(localPath: string): IPlace {
    const place = placeOf(localPath);
    if (place === null) {
      throw new DriveError('This names no file of a session.', { status: 404 });
    }
    return place;
  }

  private _writable(localPath: string): IPlace {
    const place = this._place(localPath);
    if (place.at !== null) {
      throw new DriveError(
        `Files as of step ${place.at} are read-only. Nothing was changed. Go back to now, or fork there.`,
        { status: 403 }
      );
    }
    return place;
  }

  private _made(place: IPlace, type: 'file' | 'dir', size: number): Contents.IModel {
    const entry: IEntry = madeEntry(folderOf(place.path), nameOf(place.path), type, size);
    const model = modelOf(place, entry);
    this._changed.emit({ type: 'new', oldValue: null, newValue: model });
    return model;
  }

  /** The bytes of a save; of one that comes in chunks, when the last one has come. */
  private _whole(localPath: string, options: Partial<Contents.IModel>): Blob | null {
    const piece = bytesOf(options);
    const { chunk } = options;
    if (chunk === undefined) {
      return piece;
    }
    const before = chunk === 1 ? [] : (this._chunks.get(localPath) ?? []);
    const pieces = [...before, piece];
    if (chunk !== -1) {
      this._chunks.set(localPath, pieces);
      return null;
    }
    this._chunks.delete(localPath);
    return new Blob(pieces);
  }

  private _isDisposed = false;
  private readonly _changed = new Signal<this, Contents.IChangedArgs>(this);
  private readonly _partial = new Map<string, IPartial>();
  private readonly _limits = new Map<string, number>();
  private readonly _chunks = new Map<string, Blob[]>();
}

/** Entries that are looked through for a free name. */
const MOST_LISTED = 20_000;

function ending(ext: string | undefined): string {
  return ext === undefined || ext === '' ? '.txt' : ext.startsWith('.') ? ext : `.${ext}`;
}

function empty(type: string | undefined): Blob {
  return type === 'notebook'
    ? new Blob([
        JSON.stringify({ cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 }, null, 1)
      ])
    : new Blob([]);
}

async function told<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw statused(error);
  }
}

/** With the status where the file browser looks for it; the cause has the code. */
function statused(error: unknown): unknown {
  return error instanceof ApiError
    ? new DriveError(error.message, { status: error.status }, { cause: error })
    : error;
}
