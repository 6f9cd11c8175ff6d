// The plugins of the status button: its place in the toolbar, its commands, what is announced.

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry, showErrorMessage } from '@jupyterlab/apputils';
import { NotebookPanel } from '@jupyterlab/notebook';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IAgent } from '../agent/tokens';
import { EnvironmentCommands } from '../environments/tokens';
import { IAnnouncer } from '../parts/tokens';
import { IPreferences } from '../preferences/tokens';
import { INotebookSession, ISessions } from '../sessions/tokens';
import { TimelineCommands } from '../timeline/tokens';
import { announceSession } from './announcing';
import { StatusButton } from './button';
import { addCost } from './cost';
import { IActs, StatusPopup } from './popup';
import { StatusCommands } from './tokens';

/** The chat's command that leads to what waits. */
const QUESTION = 'reprise:next-question';

const status: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:status',
  description: 'Says in the toolbar how the session of a notebook stands.',
  autoStart: true,
  requires: [ISessions, IToolbarWidgetRegistry],
  optional: [ITranslator, ICommandPalette, IAnnouncer, IAgent],
  activate: (
    app: JupyterFrontEnd,
    sessions: ISessions,
    toolbars: IToolbarWidgetRegistry,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    announcer: IAnnouncer | null,
    agent: IAgent | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('reprise');
    const { commands } = app;
    const buttons = new Map<NotebookPanel, StatusButton>();
    let popup: StatusPopup | null = null;

    const lead = (command: string, args: (session: INotebookSession) => object): IActs['fork'] =>
      commands.hasCommand(command)
        ? session => void commands.execute(command, args(session) as Record<string, string>)
        : null;
    const open = (session: INotebookSession, anchor: HTMLElement): void => {
      const again = popup !== null && !popup.isDisposed;
      popup?.dispose();
      popup = null;
      if (again) {
        return; // a second press closes it
      }
      const acts: IActs = {
        chooseEnvironment: lead(EnvironmentCommands.change, ({ id }) => ({ session: id })),
        showNetwork: lead(EnvironmentCommands.network, ({ id }) => ({ session: id })),
        showTimeline: lead(TimelineCommands.open, ({ id }) => ({ session: id })),
        showQuestion: lead(QUESTION, () => ({})),
        fork: lead(TimelineCommands.fork, ({ id, status }) => ({
          session: id ?? status.held?.session ?? null
        })),
        startKernel: startKernel
      };
      popup = new StatusPopup(session, anchor, acts, questions, trans);
      popup.launch();
    };
    const questions = (session: string): number => agent?.waiting(session) ?? 0;

    toolbars.addFactory<NotebookPanel>('Notebook', 'reprise-status', panel => {
      const button = new StatusButton(panel, sessions, open, questions, trans);
      buttons.set(panel, button);
      button.disposed.connect(() => buttons.delete(panel));
      return button;
    });
    agent?.waitingChanged.connect(() => {
      for (const button of buttons.values()) {
        button.redraw();
      }
    });

    const current = (): INotebookSession | null => sessions.current;
    const told = async (title: string, done: Promise<void> | undefined): Promise<void> => {
      try {
        await done;
      } catch (error) {
        await showErrorMessage(title, error instanceof Error ? error.message : String(error));
      }
    };
    commands.addCommand(StatusCommands.open, {
      label: trans.__('Session Status'),
      caption: trans.__('Show how the session of this notebook stands'),
      isEnabled: () => current() !== null,
      execute: () => {
        const session = current();
        if (session !== null) {
          if (app.shell.currentWidget !== session.panel) {
            app.shell.activateById(session.panel.id);
          }
          // Its focus comes with the next frame's messages; the popup's comes after that.
          requestAnimationFrame(() => buttons.get(session.panel)?.press());
        }
      }
    });
    commands.addCommand(StatusCommands.cancelResume, {
      label: trans.__('Cancel Coming Back'),
      isEnabled: () => current()?.status.state === 'resuming',
      execute: () => told(trans.__('Coming back was not cancelled'), current()?.cancelResume())
    });
    commands.addCommand(StatusCommands.resume, {
      label: trans.__('Come Back Now'),
      isEnabled: () => ['waiting', 'stopped', 'failed'].includes(current()?.status.state ?? ''),
      execute: () => told(trans.__('The session did not come back'), current()?.startNow())
    });
    for (const command of Object.values(StatusCommands)) {
      palette?.addItem({ command, category: trans.__('Reprise') });
    }
    const refresh = (): void => {
      for (const command of Object.values(StatusCommands)) {
        commands.notifyCommandChanged(command);
      }
    };
    sessions.currentChanged.connect(refresh);
    sessions.each(session => {
      session.statusChanged.connect(refresh);
      return announcer === null
        ? { isDisposed: false, dispose: () => undefined }
        : announceSession(session, announcer, trans);
    });
  }
};

/** A kernel as the notebook had it; its session is found by the notebook. */
function startKernel(session: INotebookSession): void {
  const context = session.panel.sessionContext;
  const { kernelPreference, prevKernelName, sessionManager } = context;
  const name = context.session?.kernel?.name ?? (prevKernelName || kernelPreference.name);
  sessionManager
    .refreshRunning()
    // What a server that was started again no longer has is not asked for a kernel.
    .catch(() => undefined)
    .then(() => context.changeKernel({ name: name ?? 'reprise' }))
    .catch((error: unknown) => {
      // JupyterLab has shown why.
      console.warn('Reprise: no kernel was started.', error);
    });
}

const cost: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:cost',
  description: 'Tokens and money of the running turn, in the status bar.',
  autoStart: true,
  requires: [IStatusBar, IAgent],
  optional: [ITranslator, IPreferences],
  activate: (
    _: JupyterFrontEnd,
    bar: IStatusBar,
    agent: IAgent,
    translator: ITranslator | null,
    preferences: IPreferences | null
  ): void => {
    const money = (): boolean => preferences?.now.showMoney ?? true;
    addCost(bar, agent, money, (translator ?? nullTranslator).load('reprise'));
  }
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [status, cost];
