// The plugin that gives all other parts the server's API.

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { Api } from './client';
import { IApi } from './tokens';

const api: JupyterFrontEndPlugin<IApi> = {
  id: '@jupyter-reprise/lab:api',
  description: 'Requests to the server of Reprise, its events, and how the line to it stands.',
  autoStart: true,
  provides: IApi,
  activate: (app: JupyterFrontEnd): IApi =>
    new Api({
      settings: app.serviceManager.serverSettings,
      events: app.serviceManager.events
    })
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [api];
