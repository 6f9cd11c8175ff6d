/** The plugin of the chat panel: its place, its commands, its button in the notebook's toolbar. */

import { ILayoutRestorer } from '@jupyterlab/application';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IThemeManager, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IAgent } from '../agent/tokens';
import { IApi } from '../api/tokens';
import { IComposerFactory } from '../composer/tokens';
import { IAnnouncer, ISafeRendering } from '../parts/tokens';
import { IPreferences } from '../preferences/tokens';
import { IProposals } from '../proposals/tokens';
import { ISessions } from '../sessions/tokens';
import { announceConversations } from './announcing';
import { ChatButton } from './button';
import { Chat } from './chat';
import { addChatCommands } from './commands';
import { ChatCommands, IChat } from './tokens';

const chat: JupyterFrontEndPlugin<IChat> = {
  id: '@jupyter-reprise/lab:chat',
  description: 'The conversation with the agent, beside the notebook that it is about.',
  autoStart: true,
  provides: IChat,
  requires: [IAgent, IApi, ISafeRendering],
  optional: [
    ISessions,
    INotebookTracker,
    IComposerFactory,
    IProposals,
    IThemeManager,
    IEditorLanguageRegistry,
    IAnnouncer,
    ITranslator,
    IPreferences,
    ICommandPalette,
    IToolbarWidgetRegistry,
    ILayoutRestorer
  ],
  activate: (
    app: JupyterFrontEnd,
    agent: IAgent,
    api: IApi,
    rendering: ISafeRendering,
    sessions: ISessions | null,
    tracker: INotebookTracker | null,
    composers: IComposerFactory | null,
    proposals: IProposals | null,
    themes: IThemeManager | null,
    languages: IEditorLanguageRegistry | null,
    announcer: IAnnouncer | null,
    translator: ITranslator | null,
    preferences: IPreferences | null,
    palette: ICommandPalette | null,
    toolbars: IToolbarWidgetRegistry | null,
    restorer: ILayoutRestorer | null
  ): IChat => {
    const trans = (translator ?? nullTranslator).load('reprise');
    const made = new Chat({
      app,
      agent,
      api,
      rendermime: rendering.rendermime,
      languages,
      sessions,
      tracker,
      composers,
      proposals,
      themes,
      announcer,
      trans
    });
    app.shell.add(made.panel, 'right', { rank: 50, type: 'Reprise' });
    restorer?.add(made.panel, made.panel.id);
    addChatCommands(app, made, trans);
    for (const command of Object.values(ChatCommands)) {
      palette?.addItem({ command, category: trans.__('Reprise') });
    }
    if (sessions !== null) {
      toolbars?.addFactory<NotebookPanel>(
        'Notebook',
        'reprise-chat',
        panel => new ChatButton(panel, sessions, app.commands, trans)
      );
    }
    if (preferences !== null) {
      const read = (): void => {
        made.foldReads = preferences.now.foldReads;
      };
      preferences.changed.connect(read);
      read();
    }
    if (announcer !== null) {
      announceConversations(agent, announcer, () => preferences?.now.sound === true, trans);
    }
    return made;
  }
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [chat];
