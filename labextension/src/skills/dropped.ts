// What a person drops or picks: archives as they are, folders and loose files packed for the server.

import { TranslationBundle } from '@jupyterlab/translation';

import { size as sizeWords } from '../parts/words';
import { IPacked, tarOf } from './tar';

/** What the server takes of one upload, and of one file of a skill (docs/writing-skills.md). */
export const MOST_BYTES = 128 * 1024 * 1024;
export const MOST_FILE_BYTES = 16 * 1024 * 1024;
export const MOST_FILES = 50_000;

/** What machines leave behind; the server leaves it out as well (docs/writing-skills.md, "Files"). */
const LEFT_OUT = new Set([
  '.git',
  '.hg',
  '.svn',
  '__pycache__',
  '.pytest_cache',
  '.mypy_cache',
  '.ruff_cache',
  '.ipynb_checkpoints',
  '.ds_store',
  '__macosx',
  'thumbs.db',
  'desktop.ini'
]);

const ARCHIVE = /\.(zip|skill|tar|tar\.gz|tgz|tar\.zst)$/i;

/** A file with the path that it lies at below what was dropped. */
export interface IFound {
  readonly path: string;
  readonly file: File;
}

/** A file that is not sent, and why. */
export interface INotTaken {
  readonly path: string;
  readonly why: string;
}

/** One archive that is sent. */
export interface IUpload {
  readonly filename: string;
  readonly archive: Blob;
  /** Of files that were packed here; archives are looked into by the server. */
  readonly notTaken: readonly INotTaken[];
}

/** What is sent: each archive by itself, all else in one that is packed here. */
export async function uploadsOf(
  found: readonly IFound[],
  trans: TranslationBundle
): Promise<readonly IUpload[]> {
  const archives = found.filter(({ path }) => !path.includes('/') && ARCHIVE.test(path));
  const loose = found.filter(each => !archives.includes(each));
  const uploads: IUpload[] = archives.map(({ path, file }) => ({
    filename: path,
    archive: file,
    notTaken: file.size > MOST_BYTES ? [{ path, why: tooLarge(file.size, MOST_BYTES, trans) }] : []
  }));
  if (loose.length > 0) {
    uploads.push(await packed(loose, trans));
  }
  return uploads;
}

async function packed(found: readonly IFound[], trans: TranslationBundle): Promise<IUpload> {
  const files: IPacked[] = [];
  const notTaken: INotTaken[] = [];
  let bytes = 0;
  for (const { path, file } of found) {
    const machine = path.split('/').find(part => LEFT_OUT.has(part.toLowerCase()));
    if (machine !== undefined) {
      notTaken.push({
        path,
        why: trans.__('%1 is left behind by machines; no skill has it.', machine)
      });
    } else if (file.size > MOST_FILE_BYTES) {
      notTaken.push({ path, why: tooLarge(file.size, MOST_FILE_BYTES, trans) });
    } else if (bytes + file.size > MOST_BYTES || files.length >= MOST_FILES) {
      notTaken.push({
        path,
        why: trans.__(
          'Together they are more than %1 or %2 files.',
          sizeWords(MOST_BYTES),
          MOST_FILES.toLocaleString()
        )
      });
    } else {
      try {
        // Browsers do not tell who may execute a file; its first line does.
        const head = await file.slice(0, 2).text();
        files.push({ path, executable: head === '#!', content: file });
        bytes += file.size;
      } catch (error) {
        notTaken.push({
          path,
          why: trans.__(
            'It could not be read: %1',
            error instanceof Error ? error.message : String(error)
          )
        });
      }
    }
  }
  const tops = new Set(files.map(({ path }) => path.split('/')[0] ?? path));
  const [top] = tops;
  const folder = tops.size === 1 && top !== undefined && files.some(({ path }) => path !== top);
  return { filename: folder ? top : trans.__('dropped files'), archive: tarOf(files), notTaken };
}

export function tooLarge(bytes: number, most: number, trans: TranslationBundle): string {
  return trans.__('It has %1; at most %2 are taken.', sizeWords(bytes), sizeWords(most));
}

/**
 * All files of a drop, folders walked through. To be called while the event is handled: a browser
 * empties its list afterwards.
 */
export async function filesOfDrop(transfer: DataTransfer): Promise<readonly IFound[]> {
  const entries: FileSystemEntry[] = [];
  const files: File[] = [];
  for (const item of transfer.items) {
    const entry = item.webkitGetAsEntry();
    const file = item.getAsFile();
    if (entry !== null) {
      entries.push(entry);
    } else if (file !== null) {
      files.push(file);
    }
  }
  const found: IFound[] = files.map(file => ({ path: file.name, file }));
  for (const entry of entries) {
    await walk(entry, '', found);
  }
  return found;
}

/** Of `<input type="file">`, also of one that picks a folder. */
export function filesOfInput(list: FileList): readonly IFound[] {
  return [...list].map(file => ({ path: file.webkitRelativePath || file.name, file }));
}

async function walk(entry: FileSystemEntry, above: string, found: IFound[]): Promise<void> {
  const path = above === '' ? entry.name : `${above}/${entry.name}`;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) =>
      (entry as FileSystemFileEntry).file(resolve, reject)
    );
    found.push({ path, file });
    return;
  }
  if (LEFT_OUT.has(entry.name.toLowerCase()) || found.length > MOST_FILES) {
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    // A browser gives a hundred at a time, and an empty list at the end.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject)
    );
    if (some.length === 0) {
      return;
    }
    for (const each of some) {
      await walk(each, path, found);
    }
  }
}
