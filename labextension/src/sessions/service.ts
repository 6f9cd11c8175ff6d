// The sessions of all open notebooks, each as long as its notebook has a Reprise kernel.

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

import { DisposableDelegate } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import type { INotebookSession, ISessionOfPanel, ISessions } from './tokens';
import type { IServerSays } from './session';

import { NotebookSession } from './session';

/** Kernelspecs of Reprise: `reprise`, and `reprise-NAME` for other languages and environments. */
export function ofReprise(kernelName: string | null | undefined): boolean {
  return kernelName === 'reprise' || (kernelName?.startsWith('reprise-') ?? false);
}

export class Sessions implements ISessions, IDisposable {
  constructor(
    private readonly tracker: INotebookTracker,
    private readonly server: IServerSays
  ) {
    tracker.forEach(panel => this.watch(panel));
    tracker.widgetAdded.connect(this.onAdded, this);
    tracker.currentChanged.connect(this.onCurrent, this);
    this.onCurrent();
  }

  get(panel: NotebookPanel): INotebookSession | null {
    return this.open.get(panel) ?? null;
  }

  get current(): INotebookSession | null {
    return this.inFront;
  }

  get currentChanged(): ISignal<this, INotebookSession | null> {
    return this.currentSignal;
  }

  get all(): readonly INotebookSession[] {
    return [...this.open.values()];
  }

  get changed(): ISignal<this, ISessionOfPanel> {
    return this.changedSignal;
  }

  each(act: (session: INotebookSession) => IDisposable): IDisposable {
    const made = new Map<INotebookSession, IDisposable>();
    const begin = (session: INotebookSession): void => {
      const one = act(session);
      made.set(session, one);
      session.disposed.connect(() => {
        made.delete(session);
        one.dispose();
      });
    };
    const onChanged = (_: unknown, { session }: ISessionOfPanel): void => {
      if (session !== null) {
        begin(session);
      }
    };
    this.all.forEach(begin);
    this.changedSignal.connect(onChanged);
    return new DisposableDelegate(() => {
      this.changedSignal.disconnect(onChanged);
      for (const one of [...made.values()]) {
        one.dispose();
      }
      made.clear();
    });
  }

  /** The server has told of something done with a session: it is asked how it stands. */
  happened(session: string): void {
    for (const each of this.open.values()) {
      if (each.id === session) {
        each.happened();
      }
    }
  }

  /** The server can be reached again: what was said meanwhile was not heard. */
  reconnected(): void {
    for (const each of this.open.values()) {
      each.happened();
    }
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    for (const each of this.open.values()) {
      each.dispose();
    }
    this.open.clear();
    Signal.clearData(this);
  }

  isDisposed = false;

  private onAdded(_: INotebookTracker, panel: NotebookPanel): void {
    this.watch(panel);
  }

  private watch(panel: NotebookPanel): void {
    const context = panel.sessionContext;
    context.kernelChanged.connect(() => this.look(panel));
    // A notebook whose kernel starts shows the button from the beginning.
    void context.ready.then(() => this.look(panel));
    panel.disposed.connect(() => this.close(panel));
    this.look(panel);
  }

  /** Whether the notebook's kernel is Reprise's now. */
  private look(panel: NotebookPanel): void {
    if (panel.isDisposed || this.isDisposed) {
      return;
    }
    const context = panel.sessionContext;
    const kernel = context.session?.kernel ?? null;
    // A kernel that was shut down leaves its session on the page, until another kind comes.
    const ours = kernel === null ? this.open.has(panel) : ofReprise(kernel.name);
    if (!ours) {
      this.close(panel);
    } else if (!this.open.has(panel)) {
      const session = new NotebookSession({ panel, context }, this.server);
      this.open.set(panel, session);
      this.changedSignal.emit({ panel, session });
      this.onCurrent();
    }
  }

  private close(panel: NotebookPanel): void {
    const session = this.open.get(panel);
    if (session !== undefined) {
      this.open.delete(panel);
      session.dispose();
      this.changedSignal.emit({ panel, session: null });
      this.onCurrent();
    }
  }

  private onCurrent(): void {
    const panel = this.tracker.currentWidget;
    const session = panel === null ? null : (this.open.get(panel) ?? null);
    if (session !== this.inFront) {
      this.inFront = session;
      this.currentSignal.emit(session);
    }
  }

  private readonly open = new Map<NotebookPanel, NotebookSession>();
  private inFront: INotebookSession | null = null;
  private readonly currentSignal = new Signal<this, INotebookSession | null>(this);
  private readonly changedSignal = new Signal<this, ISessionOfPanel>(this);
}
