// The Workspace section: the files of the session at hand in JupyterLab's own file browser.

import { showErrorMessage, ToolbarButton } from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { FileBrowser } from '@jupyterlab/filebrowser';
import { ITranslator, TranslationBundle } from '@jupyterlab/translation';
import { downloadIcon, newFolderIcon } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import { Panel } from '@lumino/widgets';

import { IConnection } from '../api/tokens';
import { INotebookSession, ISessions, IStepped } from '../sessions/tokens';
import { Across } from './across';
import { uploadButton, WorkspaceBrowser } from './browser';
import { Building } from './building';
import { AskClash } from './clash';
import { WorkspaceDrive } from './drive';
import { WorkspaceFiles } from './files';
import { codeOf, Head, IHead, NOTHING } from './head';
import { ExactNames } from './listing';
import { WorkspaceModel } from './model';
import { DRIVE, folderOf, nameOf, topOf } from './paths';

/** Milliseconds after a step before the files are looked at again. */
const PAUSE = 500;

/** Milliseconds between looks at files that nobody has told a change of. */
const SELDOM = 600_000;

export interface ISectionParts {
  readonly sessions: ISessions;
  readonly documents: IDocumentManager;
  readonly files: WorkspaceFiles;
  readonly drive: WorkspaceDrive;
  readonly across: Across;
  readonly ask: AskClash;
  readonly connection: IConnection;
  readonly translator: ITranslator;
  readonly trans: TranslationBundle;
  /** JupyterLab's commands for files work on browsers that were told of. */
  readonly track: (browser: FileBrowser) => void;
}

export class WorkspaceSection extends Panel {
  constructor(private readonly _parts: ISectionParts) {
    super();
    const { sessions, connection, trans } = _parts;
    this.id = 'jp-reprise-workspace';
    this.title.label = trans.__('Workspace');
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-workspace');
    this._head = new Head(
      {
        now: () => this.showNow(),
        build: () => this._build(null),
        cancel: () => void this._building?.cancel().catch((error: unknown) => this._fail(error)),
        again: () => void this.refresh(),
        more: () => this._more(),
        forget: () => this._say({ failure: null })
      },
      connection,
      trans
    );
    this.addWidget(this._head);
    sessions.currentChanged.connect(this._onCurrent, this);
    connection.restored.connect(this._onRestored, this);
    this._onCurrent();
  }

  /** The file browser of what is shown; null without a session. */
  get browser(): FileBrowser | null {
    return this._browser;
  }

  /** The session and step that are shown. */
  get shown(): { session: string; at: number | null } | null {
    return this._shown;
  }

  /** Show a session's files as after a step, built if they do not stand. */
  showAt(session: string, step: number): void {
    this._show(session, step);
  }

  showNow(): void {
    const session = this._session?.id ?? null;
    if (session !== null) {
      this._show(session, null);
    }
  }

  /** Look at the files again. */
  async refresh(): Promise<void> {
    this._stale = false;
    const { _browser: browser, _shown: shown } = this;
    if (browser === null || shown === null) {
      return;
    }
    await browser.model.refresh();
  }

  /** Copy what is selected into the notebook's folder. */
  async save(): Promise<void> {
    const { _browser: browser, _session: session } = this;
    if (browser === null || session === null) {
      return;
    }
    const { contents } = this._parts.documents.services;
    const folder = folderOf(contents.localPath(session.path));
    const paths = [...browser.selectedItems()].map(each => each.path);
    if (paths.length === 0) {
      const { trans } = this._parts;
      this._say({ failure: null, saved: trans.__('Choose first what is to be saved.') });
      return;
    }
    await this._do(async () => {
      const saved = await this._parts.across.copy(paths, folder);
      this._say({ saved: this._savedWords(saved, folder) });
    });
  }

  /** Copy files of the person into the folder that is shown. */
  async bring(paths: readonly string[]): Promise<void> {
    const { _browser: browser } = this;
    if (browser !== null) {
      await this._do(async () => {
        await this._parts.across.copy(paths, browser.model.path);
      });
    }
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._parts.sessions.currentChanged.disconnect(this._onCurrent, this);
    this._parts.connection.restored.disconnect(this._onRestored, this);
    this._follow(null);
    this._building?.dispose();
    this._leave();
    clearTimeout(this._timer);
    super.dispose();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    if (this._stale) {
      void this.refresh();
    }
  }

  // whose files -------------------------------------------------------------------------------

  private _onCurrent(): void {
    const { current } = this._parts.sessions;
    if (current === this._session && current !== null) {
      return;
    }
    this._follow(current);
    this._onId();
  }

  private _follow(session: INotebookSession | null): void {
    this._session?.stepped.disconnect(this._onStepped, this);
    this._session?.statusChanged.disconnect(this._onStatus, this);
    this._session = session;
    session?.stepped.connect(this._onStepped, this);
    session?.statusChanged.connect(this._onStatus, this);
  }

  private _onId(): void {
    const id = this._session?.id ?? null;
    if (id === null) {
      this._close();
    } else if (this._shown?.session !== id) {
      this._show(id, null);
    }
  }

  private _onStatus(): void {
    const id = this._session?.id ?? null;
    const ready = this._session?.status.state === 'ready';
    if (id !== null && this._own !== id) {
      this._onId(); // it was rewound, or has just been found
    } else if (ready && codeOf(this._told.problem) !== null && this._building === null) {
      this._soon(); // it came back
    }
  }

  private _onStepped(_: unknown, { ended }: IStepped): void {
    if (ended && this._shown?.at === null) {
      this._soon();
    }
  }

  private _onRestored(): void {
    this._soon();
  }

  private _soon(): void {
    if (!this.isVisible) {
      this._stale = true;
      return;
    }
    this._timer ??= setTimeout(() => {
      this._timer = undefined;
      void this.refresh();
    }, PAUSE);
  }

  // what is shown -----------------------------------------------------------------------------

  private _leave(): void {
    const browser = this._browser;
    this._browser = null;
    if (browser !== null) {
      browser.dispose();
      browser.model.leave();
    }
  }

  private _close(): void {
    this._building?.dispose();
    this._building = null;
    this._leave();
    this._shown = null;
    this._own = null;
    this._told = NOTHING;
    this._head.tell(NOTHING);
  }

  private _show(session: string, at: number | null): void {
    this._building?.dispose();
    this._building = null;
    this._leave();
    this._shown = { session, at };
    this._own = this._session?.id ?? null;
    this._told = { ...NOTHING, session: true, at };
    this._head.tell(this._told);
    this._browser = this._newBrowser(session, at);
    this.addWidget(this._browser);
    this._parts.track(this._browser);
    void this._browser.model.cd(`/${topOf(session, at)}`);
  }

  private _newBrowser(session: string, at: number | null): WorkspaceBrowser {
    const { documents, across, ask, translator, trans } = this._parts;
    const model = new WorkspaceModel(
      {
        manager: documents,
        driveName: DRIVE,
        root: `${DRIVE}:${topOf(session, at)}`,
        refreshInterval: SELDOM,
        translator,
        allowFileUploads: at === null
      },
      across,
      ask
    );
    const isShown = (): boolean => this._browser?.model === model;
    model.connectionFailure.connect((_, error) => isShown() && this._onProblem(error));
    model.listed.connect(() => isShown() && this._onListed(model));
    model.comingChanged.connect(() => isShown() && this._say({ coming: model.coming }));
    model.failed.connect((_, error) => this._fail(error));
    this._numbers += 1;
    const browser = new WorkspaceBrowser({
      id: `jp-reprise-workspace-browser-${this._numbers}`,
      model,
      translator,
      restore: false,
      renderer: new ExactNames()
    });
    browser.allowFileUploads = at === null;
    browser.showFileCheckboxes = false;
    const { toolbar } = browser;
    if (at === null) {
      toolbar.addItem(
        'new-folder',
        new ToolbarButton({
          icon: newFolderIcon,
          tooltip: trans.__('New Folder'),
          onClick: () => void browser.createNewDirectory()
        })
      );
      toolbar.addItem('upload', uploadButton(model, trans));
    }
    toolbar.addItem(
      'save',
      new ToolbarButton({
        icon: downloadIcon,
        label: trans.__('Save to my folder'),
        className: 'jp-Reprise-workspace-save',
        tooltip: trans.__('Copy what is selected into the notebook’s folder'),
        onClick: () => void this.save()
      })
    );
    return browser;
  }

  private _onListed(model: WorkspaceModel): void {
    const { contents } = this._parts.documents.services;
    const partial = this._parts.drive.partial(contents.localPath(model.path));
    this._say({ problem: null, partial });
  }

  private _onProblem(error: unknown): void {
    this._say({ problem: error });
    if (codeOf(error) === 'not-built' && this._shown?.at != null && this._building === null) {
      // Whoever asks for a past step asks for it to be built.
      this._build(this._shown.at);
    }
  }

  private _build(step: number | null): void {
    const { _shown: shown } = this;
    if (shown === null || this._building !== null) {
      return;
    }
    const building = new Building(this._parts.files, shown.session, step);
    this._building = building;
    this._say({ building });
    building
      .run()
      .then(
        () => {
          if (this._building === building) {
            this._building = null;
            this._say({ building: null, problem: null });
            void this.refresh();
          }
        },
        (error: unknown) => {
          if (this._building === building) {
            this._building = null;
            this._say({ building: null, problem: error });
          }
        }
      )
      .finally(() => building.dispose());
  }

  private _more(): void {
    const { contents } = this._parts.documents.services;
    if (this._browser !== null) {
      this._parts.drive.more(contents.localPath(this._browser.model.path));
      void this.refresh();
    }
  }

  private async _do(act: () => Promise<void>): Promise<void> {
    this._say({ failure: null, saved: null });
    try {
      await act();
    } catch (error) {
      this._fail(error);
    }
  }

  private _fail(error: unknown): void {
    if (this.isVisible) {
      this._say({ failure: error });
    } else {
      void showErrorMessage(this._parts.trans.__('Workspace'), error as Error);
    }
  }

  private _savedWords(saved: readonly string[], folder: string): string | null {
    const { trans } = this._parts;
    const where = folder === '' ? '/' : folder;
    if (saved.length === 0) {
      return null;
    }
    const [first = ''] = saved;
    return saved.length === 1
      ? trans.__('Saved as %1 in %2.', nameOf(first), where)
      : trans.__('Saved %1 in %2.', saved.length, where);
  }

  private _say(change: Partial<IHead>): void {
    if (!this.isDisposed) {
      this._told = { ...this._told, ...change };
      this._head.tell(this._told);
    }
  }

  private readonly _head: Head;
  private _told: IHead = NOTHING;
  private _session: INotebookSession | null = null;
  /** The session's id when the files were shown: another one means a rewind. */
  private _own: string | null = null;
  private _shown: { session: string; at: number | null } | null = null;
  private _browser: WorkspaceBrowser | null = null;
  private _building: Building | null = null;
  private _stale = false;
  private _numbers = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
