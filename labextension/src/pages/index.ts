// The plugin that answers the server about open notebooks.

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';

import { IAgent } from '../agent/tokens';
import { IApi } from '../api/tokens';
import { LeaseNotice } from './notice';
import { OpenNotebooks } from './open';
import { Pages } from './service';
import { IOpenNotebooks, IPages } from './tokens';

const notebooks: JupyterFrontEndPlugin<IOpenNotebooks> = {
  id: '@jupyter-reprise/lab:notebooks',
  description: 'Holds the notebooks of this page, and answers the server about them.',
  autoStart: true,
  requires: [IAgent, IApi, INotebookTracker],
  optional: [ITranslator],
  provides: IOpenNotebooks,
  activate: (
    _: JupyterFrontEnd,
    agent: IAgent,
    api: IApi,
    tracker: INotebookTracker,
    translator: ITranslator | null
  ): IOpenNotebooks => {
    const trans = (translator ?? nullTranslator).load('reprise');
    const turns = { began: new Signal<object, string>({}) };
    api.events.connect((_sender, event) => {
      if (event.about === 'conversation' && event.action === 'turn-began') {
        turns.began.emit(event.conversation);
      }
    });
    const pages = new Pages(agent, turns);
    const open = new OpenNotebooks(pages, tracker);
    const notice = (_tracker: unknown, panel: NotebookPanel): void => {
      panel.contentHeader.addWidget(new LeaseNotice(pages, open.of(panel), trans));
    };
    tracker.forEach(panel => notice(tracker, panel));
    tracker.widgetAdded.connect(notice);
    return { pages, open };
  }
};

const pages: JupyterFrontEndPlugin<IPages> = {
  id: '@jupyter-reprise/lab:pages',
  description: 'Says where the agent’s edits of an open notebook go.',
  autoStart: true,
  requires: [IOpenNotebooks],
  provides: IPages,
  activate: (_: JupyterFrontEnd, both: IOpenNotebooks): IPages => both.pages
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [notebooks, pages];
