/** What is done with a step: asked for by a command, a menu, a button or a key, all through here. */

import type { ITranslator, TranslationBundle } from '@jupyterlab/translation';
import { Dialog, InputDialog, showDialog, showErrorMessage } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { Contents } from '@jupyterlab/services';
import type { CommandRegistry } from '@lumino/commands';

import type { IApi } from '../api/tokens';
import { ApiError } from '../api/tokens';
import type { IAnnouncer } from '../parts/tokens';
import type { INotebookSession, ISessions } from '../sessions/tokens';
import { fileStem, forkName, leftName, outside, rewindWords } from './askings';
import { ended, orRefusal } from './jobs';
import type { KnownSessions } from './known';
import { asStep } from './step';

export interface IActsOptions {
  readonly api: IApi;
  readonly commands: CommandRegistry;
  readonly contents: Contents.IManager;
  readonly known: KnownSessions;
  readonly sessions: ISessions | null;
  readonly announcer: IAnnouncer;
  readonly translator: ITranslator;
}

/** The report in a tab: the verify part provides it. */
const VERIFY = 'reprise:verify';

/** Requests that were read through to say what a rewind does not undo. */
const REQUESTS = 1000;

export class Acts {
  constructor(private readonly _options: IActsOptions) {
    this._trans = _options.translator.load('reprise');
  }

  /** The open notebook that is at a session, if there is one. */
  notebookAt(session: string): INotebookSession | undefined {
    return this._options.sessions?.all.find(each => each.id === session);
  }

  /** Asks for a name, forks after a step, and opens the fork's notebook. Resolves with its id. */
  async fork(session: string, seq: number): Promise<string | null> {
    const { api, commands, known } = this._options;
    const trans = this._trans;
    const of = known.get(session) ?? (await known.find(session));
    const taken = known.all.map(each => each.name ?? '');
    const asked = await InputDialog.getText({
      title: trans.__('Fork after step %1', seq),
      label: trans.__('Name of the fork. %1 stays as it is.', known.name(session)),
      text: forkName(known.name(session), taken),
      okLabel: trans.__('Fork'),
      cancelLabel: trans.__('Cancel'),
      required: true
    });
    const name = asked.value?.trim();
    if (!asked.button.accept || name === undefined || name === '') {
      return null;
    }
    const fork = await this.told(trans.__('The fork was not made'), () =>
      api.post('/sessions/{session}/forks', {
        params: { path: { session } },
        body: { at: seq, name }
      })
    );
    if (fork === null) {
      return null;
    }
    await this.told(trans.__("'%1' was made, but its notebook was not opened", name), async () => {
      const folder = this._folder(session, of?.notebook ?? null);
      const path = await this._writeNotebook(fork.session, fork.steps - 1, folder, name);
      await commands.execute('docmanager:open', { path });
    });
    return fork.session;
  }

  /** Says what leaves the notebook and what is not undone, and goes back. Resolves with the fork. */
  async rewind(session: string, seq: number): Promise<string | null> {
    const { api, announcer, known } = this._options;
    const trans = this._trans;
    const before = await this.told(trans.__('Going back could not be prepared'), async () => {
      const now = await api.get('/sessions/{session}', { params: { path: { session } } });
      const told = await api.get('/sessions/{session}/network', {
        params: { path: { session }, query: { from: seq + 1, limit: REQUESTS } }
      });
      const left = leftName(
        now,
        known.all.map(each => each.name ?? '')
      );
      return { steps: now.steps, left, sent: outside(told.network, told.next !== null) };
    });
    if (before === null) {
      return null;
    }
    const running = this.notebookAt(session)?.status.running ?? null;
    const asked = await showDialog({
      title: trans.__('Rewind to step %1?', seq),
      body: rewindWords(trans, {
        seq,
        last: before.steps - 1,
        left: before.left,
        sent: before.sent,
        running
      }),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.okButton({ label: trans.__('Rewind') })
      ]
    });
    if (!asked.button.accept) {
      return null;
    }
    return this.told(trans.__('The notebook stays where it is'), async () => {
      const fork = await api.post('/sessions/{session}/rewind', {
        params: { path: { session } },
        body: { at: seq, interrupt: running !== null }
      });
      // What was left got its name after the notebook had gone on, which was heard of before.
      void known.refresh().catch(() => undefined);
      announcer.polite(trans.__('At step %1.', seq));
      return fork.session;
    });
  }

  /** Runs a recorded cell or command as a new step. Resolves with the number of that step. */
  async runAgain(session: string, seq: number): Promise<number | null> {
    const { api, announcer } = this._options;
    const trans = this._trans;
    const notRun = trans.__('Step %1 was not run again', seq);
    const begun = await this.told(notRun, async () => {
      const told = await api.get('/sessions/{session}/steps/{seq}', {
        params: { path: { session, seq } }
      });
      const { again } = asStep(told);
      if (again === null) {
        throw new ApiError(
          0,
          'not-again',
          trans.__(
            'Only cells and plain commands can be run again from here. Nothing ran; upload or mount anew instead.'
          )
        );
      }
      return api.post('/sessions/{session}/run', {
        params: { path: { session } },
        body: { ...again, key: `again-${seq}-${crypto.randomUUID()}` }
      });
    });
    if (begun === null) {
      return null;
    }
    const at = await this.told(
      trans.__('Step %1 was to run again; the Timeline shows whether it did', seq),
      () => ended(api, begun, () => undefined)
    );
    if (at === null) {
      return null;
    }
    return this.told(notRun, () => {
      const job = orRefusal(at);
      const summary = job.summary as { seq?: unknown; outcome?: unknown } | null;
      const made = typeof summary?.seq === 'number' ? summary.seq : null;
      announcer.polite(
        summary?.outcome === 'ok'
          ? trans.__('Step %1 ran again, as step %2.', seq, made ?? '')
          : trans.__('Step %1 ran again and failed, as step %2.', seq, made ?? '')
      );
      return made;
    });
  }

  async verifyFrom(session: string, seq: number): Promise<void> {
    await this._options.commands.execute(VERIFY, { session, from: seq });
  }

  /** Does something; what went wrong is told in a dialog, with what state things are in. */
  async told<T>(title: string, work: () => T | Promise<T>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof ApiError && error.code === 'cancelled') {
        return null;
      }
      await showErrorMessage(title, error instanceof Error ? error.message : String(error));
      return null;
    }
  }

  /** A file beside the notebook with what the session holds, bound to the session. */
  private async _writeNotebook(
    session: string,
    at: number,
    folder: string,
    name: string
  ): Promise<string> {
    const { api, contents } = this._options;
    const { notebook } = await api.get('/sessions/{session}/notebook', {
      params: { path: { session }, query: { at, attached: true } }
    });
    const stem = fileStem(name);
    for (let number = 1; ; number++) {
      const path = PathExt.join(folder, `${stem}${number === 1 ? '' : `-${number}`}.ipynb`);
      const there = await contents.get(path, { content: false }).then(
        () => true,
        (error: unknown) => {
          // Whatever else is wrong says nothing of the file, and it would be written over.
          if ((error as { response?: { status?: unknown } }).response?.status !== 404) {
            throw error;
          }
          return false;
        }
      );
      if (!there) {
        await contents.save(path, { type: 'notebook', format: 'json', content: notebook });
        return path;
      }
    }
  }

  /** The folder of the session's notebook, as the contents manager has it. */
  private _folder(session: string, notebook: string | null): string {
    const open = this.notebookAt(session) ?? this._options.sessions?.current ?? undefined;
    if (open !== undefined) {
      return PathExt.dirname(open.path);
    }
    // A recorded path is one of the server's machine, which the contents manager may not have.
    return notebook === null || notebook.startsWith('/') ? '' : PathExt.dirname(notebook);
  }

  private readonly _trans: TranslationBundle;
}
