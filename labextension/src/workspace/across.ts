// Copies between the workspace and the user's own files, which JupyterLab's contents manager refuses.

import { Contents, ServerConnection } from '@jupyterlab/services';
import { DisposableDelegate, IDisposable } from '@lumino/disposable';

import { ApiError } from '../api/tokens';
import { base64 } from '../parts/base64';
import { AskClash, Clash, forBatch } from './clash';
import { WorkspaceDrive } from './drive';
import { DRIVE, freeName, joined, nameOf } from './paths';

/** Bytes that are sent to Jupyter's contents at once, as its own uploads are. */
const CHUNK = 1024 * 1024;

/** Files of one copy: a folder with more is no thing to be moved by hand. */
const MOST_FILES = 5_000;

export class Across {
  constructor(
    private readonly _contents: Contents.IManager,
    private readonly _drive: WorkspaceDrive,
    private readonly _ask: AskClash
  ) {}

  /**
   * Copy files and folders into a folder of the other side.
   *
   * @returns where they are now; those that were cancelled are left out
   */
  async copy(paths: readonly string[], toFolder: string): Promise<string[]> {
    const ask = forBatch(this._ask);
    const copied: string[] = [];
    const budget = { files: MOST_FILES };
    for (const path of paths) {
      const to = await this._copy(path, toFolder, ask, budget);
      if (to !== null) {
        copied.push(to);
      }
    }
    return copied;
  }

  /** Bring files of the person's machine into a folder of the workspace. */
  async bring(file: File, toFolder: string, ask: AskClash): Promise<string | null> {
    return this._put(file.name, file, toFolder, ask);
  }

  /**
   * Have JupyterLab's own copy and drag between the two sides do this, where it throws. A drag would
   * move: what is dragged to the other side stays where it was, since it belongs to a history there.
   */
  install(): IDisposable {
    const contents = this._contents;
    const copy = contents.copy.bind(contents);
    const rename = contents.rename.bind(contents);
    const to = async (path: string, folder: string): Promise<Contents.IModel> => {
      const [copied] = await this.copy([path], folder);
      if (copied === undefined) {
        throw new Error(`${nameOf(path)} was not copied.`);
      }
      return contents.get(copied, { content: false });
    };
    contents.copy = (path, folder) =>
      this._crosses(path, folder) ? to(path, folder) : copy(path, folder);
    contents.rename = (path, newPath) =>
      this._crosses(path, newPath)
        ? to(path, newPath.slice(0, newPath.length - nameOf(newPath).length).replace(/\/$/, ''))
        : rename(path, newPath);
    return new DisposableDelegate(() => {
      contents.copy = copy;
      contents.rename = rename;
    });
  }

  private _crosses(a: string, b: string): boolean {
    const [first, second] = [this._contents.driveName(a), this._contents.driveName(b)];
    return first !== second && (first === DRIVE || second === DRIVE);
  }

  private async _copy(
    path: string,
    toFolder: string,
    ask: AskClash,
    budget: { files: number }
  ): Promise<string | null> {
    const model = await this._contents.get(path, { content: false });
    const name = nameOf(this._contents.localPath(path));
    if (model.type !== 'directory') {
      budget.files -= 1;
      if (budget.files < 0) {
        throw new Error(
          `These are more than ${MOST_FILES.toLocaleString()} files. Those copied so far are there; pack the rest into an archive first.`
        );
      }
      return this._put(name, await this._bytes(path), toFolder, ask);
    }
    const children =
      this._contents.driveName(path) === DRIVE
        ? await this._drive.whole(this._contents.localPath(path), MOST_FILES)
        : await this._children(path);
    const folder = await this._folder(name, toFolder, ask);
    if (folder === null) {
      return null;
    }
    for (const each of children) {
      const child = under(path, nameOf(each.path));
      await this._copy(child, folder, ask, budget);
    }
    return folder;
  }

  /** A folder to copy into: a new one, or the one that is there where it is to be replaced. */
  private async _folder(name: string, toFolder: string, ask: AskClash): Promise<string | null> {
    const taken = await this._names(toFolder);
    let chosen = name;
    if (taken.has(name)) {
      const answer = await ask(name, this._shown(toFolder));
      if (answer === 'cancel') {
        return null;
      }
      if (answer === 'replace') {
        return under(toFolder, name);
      }
      chosen = freeName(name, each => taken.has(each));
    }
    const path = under(toFolder, chosen);
    await this._contents.save(path, { type: 'directory', format: 'json' });
    return path;
  }

  private async _put(
    name: string,
    bytes: Blob,
    toFolder: string,
    ask: AskClash
  ): Promise<string | null> {
    const taken = await this._names(toFolder);
    const inWorkspace = this._contents.driveName(toFolder) === DRIVE;
    let answer: Clash | null = null;
    for (;;) {
      if (taken.has(name)) {
        answer ??= await ask(name, this._shown(toFolder));
        if (answer === 'cancel') {
          return null;
        }
      }
      const replace = answer === 'replace';
      const chosen = replace ? name : freeName(name, each => taken.has(each));
      const path = under(toFolder, chosen);
      if (!inWorkspace) {
        await this._save(path, bytes);
        return path;
      }
      try {
        await this._drive.put(this._contents.localPath(path), bytes, replace);
        return path;
      } catch (error) {
        if (!(error instanceof ApiError) || error.code !== 'exists') {
          throw error;
        }
        // It came meanwhile, or the folder is too large for a whole list.
        taken.add(chosen);
      }
    }
  }

  /** To Jupyter's own contents, in pieces where it is large. */
  private async _save(path: string, bytes: Blob): Promise<void> {
    const pieces = Math.max(1, Math.ceil(bytes.size / CHUNK));
    for (let piece = 1; piece <= pieces; piece += 1) {
      const part = bytes.slice((piece - 1) * CHUNK, piece * CHUNK);
      const content = base64(new Uint8Array(await part.arrayBuffer()));
      await this._contents.save(path, {
        type: 'file',
        format: 'base64',
        content,
        ...(pieces === 1 ? {} : { chunk: piece === pieces ? -1 : piece })
      });
    }
  }

  private async _bytes(path: string): Promise<Blob> {
    if (this._contents.driveName(path) === DRIVE) {
      return this._drive.bytes(this._contents.localPath(path));
    }
    const url = await this._contents.getDownloadUrl(path);
    const { serverSettings } = this._contents;
    const response = await ServerConnection.makeRequest(url, {}, serverSettings);
    if (!response.ok) {
      throw await ServerConnection.ResponseError.create(response);
    }
    return response.blob();
  }

  private async _names(folder: string): Promise<Set<string>> {
    return new Set((await this._children(folder)).map(each => nameOf(each.path)));
  }

  private async _children(folder: string): Promise<readonly Contents.IModel[]> {
    const model = await this._contents.get(folder, { content: true });
    return model.content as Contents.IModel[];
  }

  private _shown(folder: string): string {
    const local = this._contents.localPath(folder);
    return this._contents.driveName(folder) === DRIVE
      ? local.replace(/^[^/]*\/?/, 'workspace/').replace(/\/$/, '')
      : local === ''
        ? '/'
        : local;
  }
}

/** A path in a folder, which may be a drive's root (`Reprise:`). */
function under(folder: string, name: string): string {
  return folder.endsWith(':') ? `${folder}${name}` : joined(folder, name);
}
