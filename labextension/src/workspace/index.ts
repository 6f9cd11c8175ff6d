// The plugin of the Workspace: its drive, its section in the Session panel, its commands.

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { IApi } from '../api/tokens';
import { ISessions } from '../sessions/tokens';
import { ISessionPanel } from '../timeline/tokens';
import { Across } from './across';
import { clashDialog } from './clash';
import { WorkspaceDrive } from './drive';
import { WorkspaceFiles } from './files';
import { DRIVE, nameOf } from './paths';
import { WorkspaceSection } from './section';
import { WorkspaceCommands } from './tokens';

/** Of the Workspace among the sections of the Session panel; the Timeline has 100. */
const RANK = 200;

/** Files and folders of the user's own file browser, not of ours. */
const OWN_FILES = '.jp-FileBrowser:not(.jp-Reprise-workspace .jp-FileBrowser) .jp-DirListing-item';

const workspace: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:workspace',
  description: 'Shows the files of a session beside the user’s own.',
  autoStart: true,
  requires: [IApi, ISessions, IDocumentManager],
  optional: [ISessionPanel, IFileBrowserFactory, ITranslator, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    api: IApi,
    sessions: ISessions,
    documents: IDocumentManager,
    panel: ISessionPanel | null,
    factory: IFileBrowserFactory | null,
    translator: ITranslator | null,
    palette: ICommandPalette | null
  ): void => {
    const spoken = translator ?? nullTranslator;
    const trans = spoken.load('reprise');
    const { contents, serverSettings } = app.serviceManager;
    const files = new WorkspaceFiles(api);
    const drive = new WorkspaceDrive(files, serverSettings, () =>
      sessions.all.flatMap(({ id, path }) => (id === null ? [] : [{ id, name: nameOf(path) }]))
    );
    contents.addDrive(drive);
    const ask = clashDialog(trans);
    const across = new Across(contents, drive, ask);
    across.install();
    if (panel === null) {
      return;
    }
    const section = new WorkspaceSection({
      sessions,
      documents,
      files,
      drive,
      across,
      ask,
      connection: api.connection,
      translator: spoken,
      trans,
      track: browser => void factory?.tracker.add(browser)
    });
    panel.addSection(section, RANK);
    addCommands(app, section, panel, sessions, factory, trans);
    for (const command of [WorkspaceCommands.open, WorkspaceCommands.now]) {
      palette?.addItem({ command, category: trans.__('Reprise') });
    }
  }
};

function addCommands(
  app: JupyterFrontEnd,
  section: WorkspaceSection,
  panel: ISessionPanel,
  sessions: ISessions,
  factory: IFileBrowserFactory | null,
  trans: ReturnType<ITranslator['load']>
): void {
  const { commands } = app;
  commands.addCommand(WorkspaceCommands.open, {
    label: trans.__('Workspace'),
    caption: trans.__('Show the files of this notebook’s session'),
    isEnabled: () => sessions.current !== null,
    execute: () => {
      panel.reveal(section);
      // The panel takes the focus with the next frame's messages; the files after it.
      requestAnimationFrame(() => section.browser?.activate());
    }
  });
  commands.addCommand(WorkspaceCommands.filesAt, {
    label: trans.__('Files as of a Step'),
    isEnabled: args => asked(args) !== null,
    execute: args => {
      const wanted = asked(args);
      if (wanted !== null) {
        panel.reveal(section);
        section.showAt(wanted.session, wanted.step);
      }
    }
  });
  commands.addCommand(WorkspaceCommands.now, {
    label: trans.__('Files as They Are Now'),
    isEnabled: () => section.shown?.at != null,
    execute: () => section.showNow()
  });
  commands.addCommand(WorkspaceCommands.save, {
    label: trans.__('Save to My Folder'),
    caption: trans.__('Copy what is selected into the notebook’s folder'),
    execute: () => section.save()
  });
  app.contextMenu.addItem({
    command: WorkspaceCommands.save,
    selector: '.jp-Reprise-workspace .jp-DirListing-item',
    rank: 5
  });
  if (factory !== null) {
    const selected = (): string[] =>
      [...(factory.tracker.currentWidget?.selectedItems() ?? [])].map(each => each.path);
    commands.addCommand(WorkspaceCommands.bring, {
      label: trans.__('Bring into the Workspace'),
      caption: trans.__('Copy into the files of the current notebook’s session, as an upload step'),
      isVisible: () => section.browser !== null && section.shown?.at === null,
      execute: async () => {
        const paths = selected().filter(each => !each.startsWith(`${DRIVE}:`));
        panel.reveal(section);
        await section.bring(paths);
      }
    });
    app.contextMenu.addItem({ command: WorkspaceCommands.bring, selector: OWN_FILES, rank: 12 });
  }
}

function asked(args: ReadonlyPartialJSONObject): { session: string; step: number } | null {
  const { session, step } = args;
  return typeof session === 'string' && typeof step === 'number' ? { session, step } : null;
}

export const plugins: JupyterFrontEndPlugin<unknown>[] = [workspace];
