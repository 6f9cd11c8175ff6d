// The plugin that fills in what cells showed while no page heard it.

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ITranslator } from '@jupyterlab/translation';
import { DisposableDelegate, DisposableSet, IDisposable } from '@lumino/disposable';
import { UUID } from '@lumino/coreutils';

import { IApi } from '../api/tokens';
import { INotebookSession, ISessions } from '../sessions/tokens';
import { IShown, IShownServer } from './contract';
import { IMemory } from './memory';
import { PanelCells } from './notebook';
import { Outputs } from './service';

const outputs: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:outputs',
  description:
    'Fills in what cells showed while no page was there, or while its connection was lost.',
  autoStart: true,
  requires: [ISessions, IApi],
  optional: [ITranslator],
  activate: (
    _: JupyterFrontEnd,
    sessions: ISessions,
    api: IApi,
    translator: ITranslator | null
  ): void => {
    const server = new ApiShown(api);
    sessions.each(session => kept(session, api, server, translator));
  }
};

function kept(
  session: INotebookSession,
  api: IApi,
  server: IShownServer,
  translator: ITranslator | null
): IDisposable {
  const all = new DisposableSet();
  const { panel } = session;
  const cells = new PanelCells(panel, translator);
  const filled = new Outputs(
    () => session.id,
    cells,
    server,
    () => session.status.state === 'ready',
    error => {
      console.error('Reprise: outputs of this notebook could not be looked up.', error);
    }
  );
  const look = (): void => {
    filled.look();
  };
  let known: string | null = null;
  const told = (): void => {
    if (session.id !== known) {
      known = session.id;
      filled.look(0);
    }
  };
  all.add(filled);
  all.add(cells);
  all.add(
    new DisposableDelegate(() => {
      session.statusChanged.disconnect(told);
      session.attached.disconnect(look);
      api.connection.restored.disconnect(look);
    })
  );
  // Not before the notebook is there: a shared one comes from its other pages.
  void panel.context.ready.then(() => {
    if (all.isDisposed) {
      return;
    }
    session.statusChanged.connect(told);
    session.attached.connect(look);
    api.connection.restored.connect(look);
    cells.listen({
      heard: request => {
        filled.heard(request);
      },
      ran: cell => {
        filled.ran(cell);
      },
      ended: step => {
        filled.ended(step);
      },
      connected: look
    });
    told();
  });
  return all;
}

/** The server's API, as the service asks it. */
class ApiShown implements IShownServer {
  constructor(private readonly _api: IApi) {}

  async cells(session: string, has: IMemory | null) {
    const query =
      has?.step == null
        ? {}
        : {
            after: has.step,
            of: has.session,
            ...(has.outputs === null ? {} : { outputs: has.outputs })
          };
    return this._api.get('/sessions/{session}/cells', { params: { path: { session }, query } });
  }

  async shown(session: string, seq: number, after: string | null): Promise<IShown> {
    const told = await this._api.get('/sessions/{session}/steps/{seq}/shown', {
      params: { path: { session, seq }, query: after === null ? {} : { after } }
    });
    return told;
  }

  async answer(session: string, request: string, value: string): Promise<void> {
    await this._api.post('/sessions/{session}/answers', {
      params: { path: { session } },
      body: { msg_id: request, value }
    });
  }

  async paint(session: string, paints: boolean): Promise<{ paints: boolean; seconds: number }> {
    return this._api.post('/sessions/{session}/painter', {
      params: { path: { session } },
      body: { page: this._page, paints }
    });
  }

  /** What this page calls itself. */
  private readonly _page = UUID.uuid4();
}

/** The plugins of this folder. */
export const plugins: JupyterFrontEndPlugin<unknown>[] = [outputs];
