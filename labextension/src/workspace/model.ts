// The file browser's model of one workspace: it stays in it, and what is dropped comes in as a step.

import { FilterFileBrowserModel } from '@jupyterlab/filebrowser';
import { Contents } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';

import { Across } from './across';
import { AskClash } from './clash';

/** The person chose not to: nothing has failed. */
class NotBrought extends Error {}

export class WorkspaceModel extends FilterFileBrowserModel {
  constructor(
    options: FilterFileBrowserModel.IOptions,
    private readonly _across: Across,
    private readonly _ask: AskClash
  ) {
    super(options);
  }

  /** Before the first listing it names the drive alone, and what is dropped then would go nowhere. */
  override get path(): string {
    const path = super.path;
    return path === this.rootPath ? this.root : path;
  }

  /** The folder was listed. (`refreshed` comes after a failure, too.) */
  get listed(): ISignal<this, void> {
    return this._listed;
  }

  /** Nobody looks at it any more; what comes in is still told of, when it fails, before it ends. */
  leave(): void {
    this._left = true;
    if (this._coming === 0) {
      this.dispose();
    }
  }

  override async cd(path?: string): Promise<void> {
    const looking = super.cd(path);
    this._looking = looking;
    try {
      await looking;
    } finally {
      if (this._looking === looking) {
        this._looking = null;
      }
    }
  }

  /**
   * List the folder as it is from now on.
   *
   * JupyterLab's own joins a listing that is on its way already, and that one's answer may be from
   * before what this is to show.
   */
  override async refresh(): Promise<void> {
    // Whoever asked for it hears how it failed.
    await this._looking?.catch(() => undefined);
    if (!this.isDisposed) {
      await this.cd();
    }
  }

  /** How many files are on their way in. */
  get coming(): number {
    return this._coming;
  }

  get comingChanged(): ISignal<this, void> {
    return this._comingChanged;
  }

  /** Something that was asked for did not work, for whoever shows it. */
  get failed(): ISignal<this, unknown> {
    return this._failed;
  }

  /** JupyterLab's own asks and sends in its own way; this is one upload step for each file. */
  override async upload(file: File, path?: string): Promise<Contents.IModel> {
    this._count(1);
    try {
      const brought = await this._across.bring(file, path ?? this.path, this._ask);
      if (brought === null) {
        throw new NotBrought(`${file.name} was not brought in.`);
      }
      return await this.manager.services.contents.get(brought, { content: false });
    } catch (error) {
      if (!(error instanceof NotBrought)) {
        this._failed.emit(error);
      }
      throw error;
    } finally {
      this._count(-1);
    }
  }

  protected override handleContents(contents: Contents.IModel): void {
    super.handleContents(contents);
    this._listed.emit();
  }

  private _count(change: number): void {
    this._coming += change;
    this._comingChanged.emit();
    if (this._left && this._coming === 0) {
      this.dispose();
    }
  }

  /** The listing that is on its way. */
  private _looking: Promise<void> | null = null;
  private _coming = 0;
  private _left = false;
  private readonly _listed = new Signal<this, void>(this);
  private readonly _comingChanged = new Signal<this, void>(this);
  private readonly _failed = new Signal<this, unknown>(this);
}
