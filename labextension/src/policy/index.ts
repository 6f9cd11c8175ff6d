// The plugins of policies: the service, and the tab in which they are seen, tried and set.

import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { IEditorServices } from '@jupyterlab/codeeditor';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { settingsIcon } from '@jupyterlab/ui-components';

import { IApi } from '../api/tokens';
import { browserStore } from '../parts/storage';
import { IAnnouncer } from '../parts/tokens';
import { Drafts } from './drafts';
import { PoliciesService } from './service';
import { PolicyTab } from './tab';
import { IPolicies, PolicyCommands } from './tokens';

const service: JupyterFrontEndPlugin<IPolicies> = {
  id: '@jupyter-reprise/lab:policies-service',
  description: 'What the agent may do: levels of rules, tried and set.',
  autoStart: true,
  requires: [IApi],
  provides: IPolicies,
  activate: (_: JupyterFrontEnd, api: IApi): IPolicies => new PoliciesService(api)
};

const tab: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:policy',
  description: 'Policies of the agent in a tab.',
  autoStart: true,
  requires: [IApi, IPolicies, IEditorServices],
  optional: [ITranslator, ICommandPalette, ILayoutRestorer, IEditorLanguageRegistry, IAnnouncer],
  activate: (
    app: JupyterFrontEnd,
    api: IApi,
    policies: IPolicies,
    editors: IEditorServices,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    languages: IEditorLanguageRegistry | null,
    announcer: IAnnouncer | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('reprise');
    const { commands, shell } = app;
    const tracker = new WidgetTracker<MainAreaWidget<PolicyTab>>({ namespace: 'reprise-policy' });
    const drafts = new Drafts(browserStore(), api.settings.baseUrl);

    commands.addCommand(PolicyCommands.open, {
      label: trans.__('Policies'),
      caption: trans.__('What the agent may do: see, try and set the rules'),
      describedBy: {
        args: {
          type: 'object',
          properties: {
            scope: { type: 'string', description: trans.__('personal, organisation or team/NAME') }
          }
        }
      },
      execute: args => {
        let widget = tracker.currentWidget;
        if (widget === null || widget.isDisposed) {
          const content = new PolicyTab({
            api,
            policies,
            drafts,
            trans,
            editors,
            languages,
            announcer
          });
          widget = new MainAreaWidget({ content });
          widget.id = 'jp-reprise-policy';
          widget.title.label = trans.__('Policies');
          widget.title.caption = trans.__('What the agent may do');
          widget.title.icon = settingsIcon;
          widget.title.closable = true;
          content.node.setAttribute('aria-label', trans.__('Policies'));
          void tracker.add(widget);
        }
        if (typeof args.scope === 'string') {
          widget.content.scope = args.scope;
        }
        if (!widget.isAttached) {
          // Notebook 7 shows one widget in its main area; it has room below.
          shell.add(widget, app.name === 'JupyterLab' ? 'main' : 'down', { type: 'Reprise' });
        }
        shell.activateById(widget.id);
      }
    });
    palette?.addItem({ command: PolicyCommands.open, category: trans.__('Reprise') });
    void restorer?.restore(tracker, {
      command: PolicyCommands.open,
      args: widget => ({ scope: widget.content.scope }),
      name: widget => widget.id
    });
  }
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [service, tab];
