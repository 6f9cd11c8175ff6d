/** The plugin that holds conversations with the agent. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { IApi } from '../api/tokens';
import { Agent } from './service';
import { IAgent } from './tokens';

const agent: JupyterFrontEndPlugin<IAgent> = {
  id: '@jupyter-reprise/lab:agent',
  description: 'Conversations with the agent: open, say, stop, answer, undo.',
  autoStart: true,
  provides: IAgent,
  requires: [IApi],
  activate: (_: JupyterFrontEnd, api: IApi): IAgent => new Agent(api)
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [agent];
