/** The plugin that shows the notebook as of a step in a tab. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILabShell } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { IEditorServices } from '@jupyterlab/codeeditor';
import { NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { historyIcon } from '@jupyterlab/ui-components';

import { IApi } from '../api/tokens';
import { ISafeRendering } from '../parts/tokens';
import { sessionName } from '../timeline/known';
import { TimelineCommands } from '../timeline/tokens';
import { PastTab } from './view';

const past: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:past',
  description: 'Shows the notebook as of a step, read-only.',
  autoStart: true,
  requires: [IApi, ISafeRendering, NotebookPanel.IContentFactory, IEditorServices],
  optional: [ITranslator, ILabShell],
  activate: (
    app: JupyterFrontEnd,
    api: IApi,
    rendering: ISafeRendering,
    factory: NotebookPanel.IContentFactory,
    editors: IEditorServices,
    translator: ITranslator | null,
    labShell: ILabShell | null
  ): void => {
    const { commands, shell } = app;
    const trans = (translator ?? nullTranslator).load('reprise');
    const tracker = new WidgetTracker<MainAreaWidget<PastTab>>({ namespace: 'reprise-past' });
    commands.addCommand(TimelineCommands.viewStep, {
      label: args =>
        typeof args['step'] === 'number'
          ? trans.__('View Notebook as of Step %1', args['step'])
          : trans.__('View Notebook as of a Step'),
      caption: trans.__('Open the notebook as it was after this step, read-only'),
      isEnabled: args => typeof args['session'] === 'string' && typeof args['step'] === 'number',
      isVisible: args => typeof args['step'] === 'number',
      execute: async args => {
        const { session, step } = args;
        if (typeof session !== 'string' || typeof step !== 'number') {
          return;
        }
        const id = `jp-reprise-past-${session}-${step}`;
        const there = tracker.find(each => each.id === id);
        if (there !== undefined) {
          shell.activateById(id);
          return;
        }
        const name = await api.get('/sessions/{session}', { params: { path: { session } } }).then(
          sessionName,
          () => session.slice(0, 8) // the tab itself says what is wrong with the session
        );
        const content = new PastTab({
          api,
          commands,
          rendering,
          factory,
          mimeTypes: editors.mimeTypeService,
          trans,
          session,
          step,
          name
        });
        const tab = new MainAreaWidget({ content });
        tab.id = id;
        tab.toolbar.hide();
        tab.title.icon = historyIcon;
        tab.title.closable = true;
        tab.title.label = trans.__('%1 · step %2', name, step);
        tab.title.caption = trans.__('%1 as of step %2, read-only', name, step);
        await tracker.add(tab);
        // Notebook 7 shows one widget in its main area; it has room below.
        shell.add(tab, labShell === null ? 'down' : 'main', { type: 'Reprise' });
        shell.activateById(id);
        void content.load(); // the tab tells what came of it
      }
    });
  }
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [past];
