// A new notebook that runs in an environment: its session is begun first, and its file names it.

import { PathExt } from '@jupyterlab/coreutils';
import type { Contents } from '@jupyterlab/services';

import { IEnvironments } from './tokens';

/** What of Jupyter's contents is used. */
export type Files = Pick<Contents.IManager, 'newUntitled' | 'save' | 'delete' | 'localPath'>;

const KERNEL = { name: 'reprise', display_name: 'Python 3 (Reprise)', language: 'python' };

/**
 * Write a new notebook into a folder; resolves with its path. Its kernel finds its session, and by
 * it the environment, in the file's metadata before its sandbox starts.
 */
export async function createNotebook(
  environments: Pick<IEnvironments, 'begin'>,
  files: Files,
  environment: string,
  folder: string
): Promise<string> {
  const session = await environments.begin(environment);
  const { path } = await files.newUntitled({ path: folder, type: 'notebook' });
  try {
    await files.save(path, {
      type: 'notebook',
      format: 'json',
      name: PathExt.basename(path),
      path: files.localPath(path),
      content: {
        cells: [],
        metadata: { kernelspec: KERNEL, reprise: { session } },
        nbformat: 4,
        nbformat_minor: 5
      }
    });
  } catch (error) {
    // Without the session in it, it would run somewhere else than was asked for.
    await files.delete(path).catch(() => undefined); // why it was not written is what counts
    throw error;
  }
  return path;
}
