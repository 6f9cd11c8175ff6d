/** The plugin that compares two steps in a tab. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILabShell } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IApi } from '../api/tokens';
import { timelineIcon } from '../parts/icons';
import { ISafeRendering } from '../parts/tokens';
import { IPreferences } from '../preferences/tokens';
import { ISessions } from '../sessions/tokens';
import { TimelineCommands } from '../timeline/tokens';
import { Comparison } from './comparison';
import { CompareTab } from './view';

const compare: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:compare',
  description: 'Compares two steps: input, outputs, files, variables.',
  autoStart: true,
  requires: [IApi, ISafeRendering],
  optional: [
    ISessions,
    IPreferences,
    ITranslator,
    IEditorLanguageRegistry,
    ILabShell,
    ICommandPalette
  ],
  activate: (
    app: JupyterFrontEnd,
    api: IApi,
    rendering: ISafeRendering,
    sessions: ISessions | null,
    preferences: IPreferences | null,
    translator: ITranslator | null,
    languages: IEditorLanguageRegistry | null,
    labShell: ILabShell | null,
    palette: ICommandPalette | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('reprise');
    const tracker = new WidgetTracker<MainAreaWidget<CompareTab>>({ namespace: 'reprise-compare' });
    app.commands.addCommand(TimelineCommands.compare, {
      label: args =>
        typeof args['before'] === 'number' && typeof args['after'] === 'number'
          ? trans.__('Compare %1 and %2', args['before'], args['after'])
          : trans.__('Compare Steps'),
      caption: trans.__('Compare input, outputs, files and variables of two steps'),
      isEnabled: args => typeof args['session'] === 'string' || sessions?.current?.id != null,
      execute: async args => {
        const session =
          typeof args['session'] === 'string' ? args['session'] : sessions?.current?.id;
        if (session == null) {
          return;
        }
        let { before, after } = args;
        if (typeof before !== 'number' || typeof after !== 'number') {
          // Nothing was chosen: the last two, to be changed in the tab.
          const { steps } = await api.get('/sessions/{session}', { params: { path: { session } } });
          after = Math.max(0, steps - 1);
          before = Math.max(0, steps - 2);
        }
        const id = `jp-reprise-compare-${session}`;
        const there = tracker.find(each => each.id === id);
        if (there !== undefined) {
          there.content.comparison.choose(before, after);
          app.shell.activateById(id);
          return;
        }
        const comparison = new Comparison(api, session, before, after);
        const content = new CompareTab({
          comparison,
          rendering,
          languages,
          trans,
          diffView: () => preferences?.now.diffView ?? 'auto'
        });
        const tab = new MainAreaWidget({ content });
        tab.id = id;
        tab.toolbar.hide();
        tab.title.icon = timelineIcon;
        tab.title.closable = true;
        const title = (): void => {
          tab.title.label = trans.__('Compare %1 and %2', comparison.before, comparison.after);
        };
        comparison.changed.connect(title);
        title();
        await tracker.add(tab);
        // Notebook 7 shows one widget in its main area; it has room below.
        app.shell.add(tab, labShell === null ? 'down' : 'main', { type: 'Reprise' });
        app.shell.activateById(id);
        void comparison.load(); // the tab tells what came of it
      }
    });
    palette?.addItem({ command: TimelineCommands.compare, category: trans.__('Reprise') });
  }
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [compare];
