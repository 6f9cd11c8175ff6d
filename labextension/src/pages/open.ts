// An open notebook of JupyterLab's, as the service of pages sees it.

import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel, INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { bare, IOpenNotebook, Pages } from './service';

type Context = DocumentRegistry.IContext<INotebookModel>;

/** The notebook of one context; several panels may show it. */
export class OpenNotebook implements IOpenNotebook {
  constructor(readonly context: Context) {
    context.pathChanged.connect(() => this._changed.emit());
    context.disposed.connect(() => {
      this._disposed.emit();
      Signal.clearData(this);
    });
    void context.ready.then(() => {
      if (!context.isDisposed) {
        this._ready = true;
        this._untrust(context.model);
        this._changed.emit();
      }
    });
  }

  get path(): string {
    return bare(this.context.path);
  }

  get model(): INotebookModel | null {
    return this._ready && !this.context.isDisposed ? this.context.model : null;
  }

  get collaborative(): boolean {
    return this.context.model.collaborative === true;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get disposed(): ISignal<this, void> {
    return this._disposed;
  }

  /**
   * What the server says is not trusted is not trusted: in a room it writes outputs itself, and
   * JupyterLab goes on trusting a cell that it once ran.
   */
  private _untrust(model: INotebookModel): void {
    const watch = (): void => {
      for (const cell of model.cells) {
        if (!this._watched.has(cell)) {
          this._watched.add(cell);
          cell.metadataChanged.connect((sender, change) => {
            if (change.key === 'trusted' && change.newValue === false) {
              sender.trusted = false;
            }
          });
        }
      }
    };
    model.cells.changed.connect(watch);
    watch();
  }

  private _ready = false;
  private readonly _watched = new WeakSet();
  private readonly _changed = new Signal<this, void>(this);
  private readonly _disposed = new Signal<this, void>(this);
}

/** All notebooks of the page, each once, however many panels show it. */
export class OpenNotebooks implements IDisposable {
  constructor(
    private readonly _pages: Pages,
    tracker: INotebookTracker
  ) {
    tracker.forEach(panel => this.of(panel));
    tracker.widgetAdded.connect((_, panel) => this.of(panel));
  }

  isDisposed = false;

  /** The open notebook of a panel. */
  of(panel: NotebookPanel): OpenNotebook {
    const known = this._open.get(panel.context);
    if (known !== undefined) {
      return known;
    }
    const made = new OpenNotebook(panel.context);
    this._open.set(panel.context, made);
    this._all.add(made);
    const opened = this._pages.open(made);
    made.disposed.connect(() => {
      this._all.delete(made);
      opened.dispose();
    });
    this._opened.emit(made);
    return made;
  }

  /** Call `act` for each, now and later. What it returns is disposed with the notebook. */
  each(act: (notebook: OpenNotebook) => IDisposable): IDisposable {
    const made = new Map<OpenNotebook, IDisposable>();
    const begin = (notebook: OpenNotebook): void => {
      const acting = act(notebook);
      made.set(notebook, acting);
      notebook.disposed.connect(() => {
        acting.dispose();
        made.delete(notebook);
      });
    };
    const opened = (_: unknown, notebook: OpenNotebook): void => begin(notebook);
    this._all.forEach(begin);
    this._opened.connect(opened);
    return new DisposableDelegate(() => {
      this._opened.disconnect(opened);
      made.forEach(each => each.dispose());
      made.clear();
    });
  }

  dispose(): void {
    this.isDisposed = true;
    Signal.clearData(this);
  }

  private readonly _open = new WeakMap<Context, OpenNotebook>();
  private readonly _all = new Set<OpenNotebook>();
  private readonly _opened = new Signal<this, OpenNotebook>(this);
}
