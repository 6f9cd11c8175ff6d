// The plugins of environments: the service, notebooks made in one, their tabs, a session's network.

import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import {
  ICommandPalette,
  MainAreaWidget,
  showErrorMessage,
  WidgetTracker
} from '@jupyterlab/apputils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { IMainMenu } from '@jupyterlab/mainmenu';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { listIcon, notebookIcon } from '@jupyterlab/ui-components';
import { DisposableDelegate, DisposableSet } from '@lumino/disposable';
import type { Widget } from '@lumino/widgets';

import { IApi } from '../api/tokens';
import { IAnnouncer } from '../parts/tokens';
import { ISessions } from '../sessions/tokens';
import { TimelineCommands } from '../timeline/tokens';
import { IContext } from './context';
import { chooseEnvironment } from './choose';
import { createNotebook } from './create';
import { changeEnvironment } from './moving';
import { NetworkTab } from './network';
import { Environments } from './service';
import { EnvironmentTab } from './tab';
import { EnvironmentCommands, EnvironmentRow, IEnvironments } from './tokens';
import { Traffic } from './traffic';
import { inShort } from './words';

/** Cards and menu entries of their own; more are behind "More…". */
const CARDS = 5;
/** In the Launcher, behind the kernels; in File > New, behind its own entries. */
const RANK = 100;

const service: JupyterFrontEndPlugin<IEnvironments> = {
  id: '@jupyter-reprise/lab:environments-service',
  description: 'The named environments that notebooks can run in.',
  autoStart: true,
  requires: [IApi],
  provides: IEnvironments,
  activate: (_: JupyterFrontEnd, api: IApi): IEnvironments => new Environments(api)
};

const environments: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:environments',
  description: 'Notebooks made in an environment, environments in tabs, what a session may reach.',
  autoStart: true,
  requires: [IApi, IEnvironments, ISessions],
  optional: [
    ITranslator,
    ICommandPalette,
    ILauncher,
    IMainMenu,
    IDefaultFileBrowser,
    ILayoutRestorer,
    IAnnouncer
  ],
  activate: (
    app: JupyterFrontEnd,
    api: IApi,
    known: IEnvironments,
    sessions: ISessions,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    menu: IMainMenu | null,
    browser: IDefaultFileBrowser | null,
    restorer: ILayoutRestorer | null,
    announcer: IAnnouncer | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('reprise');
    const { commands, shell } = app;
    const tabs = new WidgetTracker<MainAreaWidget<EnvironmentTab>>({
      namespace: 'reprise-environments'
    });
    const networks = new WidgetTracker<MainAreaWidget<NetworkTab>>({
      namespace: 'reprise-networks'
    });

    const context: IContext = {
      api,
      environments: known,
      trans,
      announcer,
      showStep: (session, step) => {
        if (commands.hasCommand(TimelineCommands.showStep)) {
          void commands.execute(TimelineCommands.showStep, { session, step });
        }
      },
      create: environment => void commands.execute(EnvironmentCommands.create, { environment }),
      open: environment => void commands.execute(EnvironmentCommands.open, { environment }),
      sessionOf: session => sessions.all.find(each => each.id === session) ?? null
    };
    const show = (tab: Widget): void => {
      if (!tab.isAttached) {
        // Notebook 7 shows one widget in its main area; it has room below.
        shell.add(tab, app.name === 'JupyterLab' ? 'main' : 'down', { type: 'Reprise' });
      }
      shell.activateById(tab.id);
    };
    const row = (name: unknown): EnvironmentRow | undefined =>
      known.list?.find(each => each.environment === name);

    commands.addCommand(EnvironmentCommands.create, {
      label: args => {
        const found = row(args.environment);
        if (found === undefined) {
          return args.isLauncher === true || args.isMenu === true
            ? trans.__('More Environments…')
            : trans.__('New Notebook in an Environment…');
        }
        const said = inShort(found, known.isolated, trans);
        return args.isPalette === true
          ? trans.__('New Notebook in %1', found.environment)
          : args.isLauncher === true
            ? `${found.environment} · ${said}`
            : trans.__('Notebook in %1 (%2)', found.environment, said);
      },
      caption: args => {
        const found = row(args.environment);
        return found === undefined
          ? trans.__('Choose the environment of a new notebook')
          : trans.__(
              'New notebook in %1: %2',
              found.environment,
              inShort(found, known.isolated, trans)
            );
      },
      icon: notebookIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            environment: { type: 'string', description: trans.__('It asks which if left out') },
            cwd: { type: 'string', description: trans.__('The folder of the new notebook') }
          }
        }
      },
      execute: async args => {
        const environment =
          typeof args.environment === 'string'
            ? args.environment
            : await chooseEnvironment({
                environments: known,
                trans,
                title: trans.__('New notebook in an environment'),
                accept: trans.__('New notebook'),
                first: known.usual
              });
        if (environment === null) {
          return;
        }
        const folder = typeof args.cwd === 'string' ? args.cwd : (browser?.model.path ?? '');
        try {
          const path = await createNotebook(
            known,
            app.serviceManager.contents,
            environment,
            folder
          );
          await commands.execute('docmanager:open', {
            path,
            factory: 'Notebook',
            kernel: { name: 'reprise' }
          });
        } catch (error) {
          await showErrorMessage(
            trans.__('No notebook was made'),
            error instanceof Error ? error : new Error(String(error))
          );
        }
      }
    });

    commands.addCommand(EnvironmentCommands.open, {
      label: trans.__('Environment'),
      caption: trans.__('Packages, limits and network of an environment, and who runs in it'),
      execute: args => {
        const name =
          typeof args.environment === 'string'
            ? args.environment
            : (sessions.current?.status.environment?.name ?? known.usual);
        const id = `jp-reprise-environment-${name}`;
        let tab = tabs.find(each => each.id === id);
        if (tab === undefined) {
          tab = new MainAreaWidget({ content: new EnvironmentTab(context, name) });
          tab.id = id;
          tab.title.label = name;
          tab.title.caption = trans.__('Environment %1', name);
          tab.title.icon = listIcon;
          tab.title.closable = true;
          tab.content.node.setAttribute('aria-label', trans.__('Environment %1', name));
          void tabs.add(tab);
        }
        show(tab);
      }
    });

    commands.addCommand(EnvironmentCommands.network, {
      label: trans.__('Network of the Session'),
      caption: trans.__(
        'What the steps of this session asked of the network, and what it may reach'
      ),
      isEnabled: args => typeof args.session === 'string' || sessions.current?.id != null,
      execute: args => {
        const session = typeof args.session === 'string' ? args.session : sessions.current?.id;
        if (session === undefined || session === null) {
          return;
        }
        const id = `jp-reprise-network-${session}`;
        let tab = networks.find(each => each.id === id);
        if (tab === undefined) {
          const traffic = new Traffic(known, session);
          tab = new MainAreaWidget({ content: new NetworkTab(context, traffic) });
          const name = context.sessionOf(session)?.path.split('/').pop();
          tab.id = id;
          tab.title.label =
            name === undefined ? trans.__('Network') : trans.__('Network · %1', name);
          tab.title.caption = trans.__('Network of session %1', session);
          tab.title.icon = listIcon;
          tab.title.closable = true;
          tab.content.node.setAttribute('aria-label', trans.__('Network of this session'));
          void networks.add(tab);
          tab.disposed.connect(follow(traffic, sessions, known, api));
        }
        show(tab);
      }
    });

    commands.addCommand(EnvironmentCommands.change, {
      label: trans.__('Go On in Another Environment…'),
      caption: trans.__("A new session with this one's files, without its variables"),
      isEnabled: args => typeof args.session === 'string' || sessions.current?.id != null,
      execute: async args => {
        const session = typeof args.session === 'string' ? args.session : sessions.current?.id;
        if (session !== undefined && session !== null) {
          await changeEnvironment(
            { environments: known, sessions, announcer, trans },
            session,
            typeof args.environment === 'string' ? args.environment : null
          );
        }
      }
    });

    for (const command of Object.values(EnvironmentCommands)) {
      palette?.addItem({ command, category: trans.__('Reprise') });
    }
    sessions.currentChanged.connect(() => {
      commands.notifyCommandChanged(EnvironmentCommands.change);
      commands.notifyCommandChanged(EnvironmentCommands.network);
    });
    offered(known, app, launcher, menu);

    void restorer?.restore(tabs, {
      command: EnvironmentCommands.open,
      args: tab => ({ environment: tab.content.environment }),
      name: tab => tab.id
    });
    void restorer?.restore(networks, {
      command: EnvironmentCommands.network,
      args: tab => ({ session: tab.content.traffic.session }),
      name: tab => tab.id
    });
  }
};

/**
 * Steps that end, kernels that come and go, a line that stands again: each time it is looked.
 * Ends with what is returned.
 */
function follow(
  traffic: Traffic,
  sessions: ISessions,
  known: IEnvironments,
  api: IApi
): () => void {
  const look = (): void => void traffic.refresh();
  const following = sessions.each(each => {
    const stepped = (): void => {
      if (each.id === traffic.session) {
        look();
      }
    };
    let stood = '';
    const stands = (): void => {
      const now = `${each.kernel ?? ''} ${each.status.state}`;
      if (now !== stood) {
        stood = now;
        stepped();
      }
    };
    each.stepped.connect(stepped);
    each.statusChanged.connect(stands);
    return new DisposableDelegate(() => {
      each.stepped.disconnect(stepped);
      each.statusChanged.disconnect(stands);
    });
  });
  known.changed.connect(look);
  api.connection.restored.connect(look);
  look();
  return () => {
    following.dispose();
    known.changed.disconnect(look);
    api.connection.restored.disconnect(look);
  };
}

/** Cards in the Launcher and entries of File > New: one for each environment, then "More…". */
function offered(
  known: IEnvironments,
  app: JupyterFrontEnd,
  launcher: ILauncher | null,
  menu: IMainMenu | null
): void {
  let shown = '';
  let there = new DisposableSet();
  const offer = (): void => {
    const named = (known.list ?? []).filter(each => each.here);
    // The kernel's own card leads to the usual one.
    const cards = named.filter(each => each.environment !== known.usual).slice(0, CARDS);
    const said = JSON.stringify([cards, known.isolated, named.length]);
    if (said === shown) {
      return;
    }
    shown = said;
    there.dispose();
    there = new DisposableSet();
    const all: { environment?: string }[] = cards.map(({ environment }) => ({ environment }));
    if (cards.length > 0) {
      all.push({});
    }
    all.forEach((args, index) => {
      if (launcher !== null) {
        there.add(
          launcher.add({
            command: EnvironmentCommands.create,
            args: { ...args, isLauncher: true },
            category: 'Notebook',
            rank: RANK + index,
            kernelIconUrl: logo(app)
          })
        );
      }
      const entries = menu?.fileMenu.newMenu;
      if (entries !== undefined) {
        there.add(
          entries.addItem({
            command: EnvironmentCommands.create,
            args: { ...args, isMenu: true },
            rank: RANK + index
          })
        );
      }
    });
    app.commands.notifyCommandChanged(EnvironmentCommands.create);
  };
  known.changed.connect(offer);
  void Promise.all([app.started, app.serviceManager.kernelspecs.ready]).then(() => known.refresh());
}

/** Of the kernel that they run on, as its own card has it. */
function logo(app: JupyterFrontEnd): string | undefined {
  const spec = app.serviceManager.kernelspecs.specs?.kernelspecs.reprise;
  return spec?.resources['logo-svg'] ?? spec?.resources['logo-64x64'];
}

export const plugins: JupyterFrontEndPlugin<unknown>[] = [service, environments];
