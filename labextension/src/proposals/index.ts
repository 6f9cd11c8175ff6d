// The plugin that shows the agent's edits at cells, and the commands that lead to them.

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IThemeManager, MainAreaWidget, ReactWidget } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { PageConfig } from '@jupyterlab/coreutils';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IApi } from '../api/tokens';
import { ICellPlaces } from '../cellplaces/tokens';
import { numberOf } from '../composer/cells';
import { IComposerFactory } from '../composer/tokens';
import { IOpenNotebooks } from '../pages/tokens';
import { browserStore } from '../parts/storage';
import { IPreferences } from '../preferences/tokens';
import { Kept } from './kept';
import { Proposals } from './proposals';
import { IProposals, ProposalCommands } from './tokens';

const proposals: JupyterFrontEndPlugin<IProposals> = {
  id: '@jupyter-reprise/lab:proposals',
  description: 'Shows the agent’s edits at the cells that they touch.',
  autoStart: true,
  requires: [IOpenNotebooks, ICellPlaces, IApi, INotebookTracker],
  optional: [IComposerFactory, IThemeManager, IEditorLanguageRegistry, IPreferences, ITranslator],
  provides: IProposals,
  activate: (
    app: JupyterFrontEnd,
    notebooks: IOpenNotebooks,
    places: ICellPlaces,
    api: IApi,
    tracker: INotebookTracker,
    factory: IComposerFactory | null,
    themes: IThemeManager | null,
    languages: IEditorLanguageRegistry | null,
    preferences: IPreferences | null,
    translator: ITranslator | null
  ): IProposals => {
    const trans = (translator ?? nullTranslator).load('reprise');
    const made = new Proposals({
      notebooks,
      places,
      api,
      themes,
      languages,
      preferences,
      telling: factory,
      kept: new Kept(browserStore(), PageConfig.getBaseUrl()),
      trans,
      open: (title, body) => {
        const widget = new MainAreaWidget({ content: ReactWidget.create(body) });
        widget.content.addClass('jp-Reprise');
        widget.content.addClass('jp-Reprise-difference-tab');
        widget.title.label = title;
        widget.title.closable = true;
        app.shell.add(widget, 'main');
        app.shell.activateById(widget.id);
      },
      named: (panel, cell) => {
        const number = numberOf(panel, cell);
        return number === null ? trans.__('the new cell') : trans.__('cell %1', number);
      }
    });
    const show = (_: unknown, panel: NotebookPanel): void => made.show(panel);
    tracker.forEach(panel => show(tracker, panel));
    tracker.widgetAdded.connect(show);
    const path = (): string | null => tracker.currentWidget?.context.path ?? null;
    app.commands.addCommand(ProposalCommands.next, {
      label: trans.__('Next edit of the agent'),
      caption: trans.__('Show the next cell that the agent changed or proposes to change'),
      isEnabled: () => {
        const at = path();
        return at !== null && made.count(at) > 0;
      },
      execute: args => {
        const at = path();
        const question = args['question'];
        return at === null
          ? false
          : made.next(at, typeof question === 'string' ? question : undefined);
      },
      describedBy: {
        args: {
          type: 'object',
          properties: {
            question: {
              type: 'string',
              description: 'The question whose next cell is shown; all edits without it'
            }
          }
        }
      }
    });
    made.changed.connect(() => app.commands.notifyCommandChanged(ProposalCommands.next));
    return made;
  }
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [proposals];
