/** The plugin of the chat panel: its place, its commands, its button in the notebook's toolbar. */

import { ILabShell, ILayoutRestorer } from '@jupyterlab/application';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IThemeManager, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IAgent } from '../agent/tokens';
import { IApi } from '../api/tokens';
import { IComposerFactory } from '../composer/tokens';
import { IAnnouncer, ISafeRendering } from '../parts/tokens';
import { IProposals } from '../proposals/tokens';
import { ISessions } from '../sessions/tokens';
import { announceConversations } from './announcing';
import { ChatButton } from './button';
import { Chat } from './chat';
import { addChatCommands } from './commands';
import { ChatCommands, IChat } from './tokens';

const SETTINGS = '@jupyter-reprise/lab:plugin';

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
    IAnnouncer,
    ITranslator,
    ISettingRegistry,
    ICommandPalette,
    IToolbarWidgetRegistry,
    ILayoutRestorer,
    ILabShell
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
    announcer: IAnnouncer | null,
    translator: ITranslator | null,
    registry: ISettingRegistry | null,
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
    let sound = false;
    registry?.load(SETTINGS).then(
      settings => {
        const read = (): void => {
          sound = settings.get('sound').composite === true;
          made.foldReads = settings.get('foldReads').composite !== false;
        };
        settings.changed.connect(read);
        read();
      },
      (error: unknown) => console.warn('Reprise: its settings could not be read.', error)
    );
    if (announcer !== null) {
      announceConversations(agent, announcer, () => sound, trans);
    }
    return made;
  }
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [chat];
