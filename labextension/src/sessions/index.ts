// The plugin that follows the sessions of open notebooks.

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';

import { IApi } from '../api/tokens';
import { ServerSays } from './server';
import { Sessions } from './service';
import { ISessions } from './tokens';

const sessions: JupyterFrontEndPlugin<ISessions> = {
  id: '@jupyter-reprise/lab:sessions',
  description: 'Follows the Reprise sessions of the notebooks that are open in this page.',
  autoStart: true,
  requires: [IApi, INotebookTracker],
  provides: ISessions,
  activate: (_: JupyterFrontEnd, api: IApi, tracker: INotebookTracker): ISessions => {
    const service = new Sessions(tracker, new ServerSays(api));
    api.events.connect((_, event) => {
      if (event.about === 'session' && event.action !== 'begun') {
        service.happened(event.session);
      }
    });
    api.connection.restored.connect(() => service.reconnected());
    return service;
  }
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [sessions];
