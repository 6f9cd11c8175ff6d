// Which open notebook answers for which conversation, and whose turn it is to hold the edits.

import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import type { IAgent, IConversation, IHeld } from '../agent/tokens';
import { answer, LiveNotebook } from './apply';
import type { IPages, Lease } from './tokens';

/** Conversations of a notebook that are held open while nothing runs in them: each has a line. */
const HELD = 4;

/** A notebook that is open in this page, whatever shows it. */
export interface IOpenNotebook {
  /** As the contents API has it, without a drive's name. */
  readonly path: string;
  /** Null until it is loaded. */
  readonly model: LiveNotebook | null;
  /** Whether jupyter-collaboration holds it: then the server edits its room. */
  readonly collaborative: boolean;
  /** It was loaded, or renamed. */
  readonly changed: ISignal<unknown, void>;
  readonly disposed: ISignal<unknown, void>;
}

/** Tells that a turn began somewhere: its conversation may be about a notebook that is open here. */
export interface ITurns {
  readonly began: ISignal<unknown, string>;
}

/** A path without a collaborative drive's name: `RTC:a.ipynb` is `a.ipynb`. */
export function bare(path: string): string {
  const trimmed = path.replace(/^\/+|\/+$/g, '');
  return trimmed.startsWith('RTC:') ? trimmed.slice(4).replace(/^\/+/, '') : trimmed;
}

/** One conversation that is held open in this page, and the notebook that it is about. */
class Link implements IDisposable {
  constructor(
    readonly conversation: IConversation,
    private readonly _pages: Pages
  ) {
    conversation.told.connect(this._told, this);
    conversation.changed.connect(this.settle, this);
  }

  /** Of the notebook here; kept while it is open, also under a new name. */
  notebook: IOpenNotebook | null = null;
  /** null: the server was not told that it is open, or has not answered. */
  holds: boolean | null = null;
  isDisposed = false;

  /** Tell the server what it does not know yet. */
  settle(): void {
    const { conversation } = this;
    const live = conversation.line.is === 'live';
    const opens = this.notebook !== null && this.notebook.model !== null && conversation.yours;
    if (!live) {
      // Another line knows nothing of it.
      this._said = null;
      this._lease(null);
      return;
    }
    if (opens && this._said !== this.notebook) {
      this._said = this.notebook;
      this._post('notebook-open');
    } else if (!opens && this._said !== null) {
      this._said = null;
      this._lease(null);
      this._post('notebook-closed');
    }
  }

  take(): Promise<void> {
    return this.conversation.post({ type: 'notebook-take' });
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this.conversation.told.disconnect(this._told, this);
    this.conversation.changed.disconnect(this.settle, this);
    this._lease(null);
  }

  private _told(_: IConversation, told: Readonly<Record<string, unknown>>): void {
    if (told['type'] === 'lease') {
      this._lease(told['holds'] === true);
    } else if (told['type'] === 'notebook') {
      const model = this.notebook?.model ?? null;
      const said =
        model === null
          ? { error: 'The notebook was closed in this page.' }
          : answer(model, told['asks']);
      void this.conversation
        .post({ type: 'notebook-answer', request: told['request'], answer: said })
        // The line broke: the server knows that this page does not answer any more.
        .catch((failed: unknown) => console.warn('Reprise: an answer was not sent', failed));
    }
  }

  private _lease(holds: boolean | null): void {
    if (this.holds !== holds) {
      this.holds = holds;
      this._pages.told(this);
    }
  }

  private _post(type: 'notebook-open' | 'notebook-closed'): void {
    void this.conversation.post({ type }).catch((failed: unknown) => {
      if (type === 'notebook-open' && !this.isDisposed) {
        this._said = null;
      }
      console.warn(`Reprise: ${type} was not taken`, failed);
    });
  }

  /** The notebook that the server was told of over this line. */
  private _said: IOpenNotebook | null = null;
}

/** All notebooks and conversations of this page. */
export class Pages implements IPages, IDisposable {
  constructor(
    private readonly _agent: IAgent,
    turns?: ITurns
  ) {
    _agent.openedChanged.connect(this._linked, this);
    _agent.listChanged.connect(this._listed, this);
    turns?.began.connect(this._began, this);
    this._linked();
  }

  get changed(): ISignal<this, string> {
    return this._changed;
  }

  isDisposed = false;

  /** A notebook is open here, until the result is disposed or it is. */
  open(notebook: IOpenNotebook): IDisposable {
    this._notebooks.set(notebook, new Map());
    const changed = (): void => this._match();
    notebook.changed.connect(changed);
    const closed = new DisposableDelegate(() => {
      notebook.changed.disconnect(changed);
      notebook.disposed.disconnect(closed.dispose, closed);
      const held = this._notebooks.get(notebook);
      this._notebooks.delete(notebook);
      for (const link of this._links.values()) {
        if (link.notebook === notebook) {
          link.notebook = null;
          link.settle();
        }
      }
      // After the server was told: letting go may close the line.
      held?.forEach(each => each.dispose());
    });
    notebook.disposed.connect(closed.dispose, closed);
    this._match();
    void this._hold(notebook);
    return closed;
  }

  lease(path: string): Lease {
    const links = this._of(path);
    if (links.length === 0) {
      return 'none';
    }
    if (links.some(link => link.notebook?.collaborative)) {
      return 'room';
    }
    if (links.some(link => link.holds === true)) {
      return 'here';
    }
    return links.some(link => link.holds === false) ? 'elsewhere' : 'none';
  }

  async take(path: string): Promise<void> {
    const link = this._of(path).find(each => each.holds === false);
    if (link === undefined) {
      throw new Error('No conversation of this notebook is connected, so nothing edits it.');
    }
    await link.take();
  }

  /** The open notebook that a conversation is about; null where it is not open here. */
  notebookOf(conversation: IConversation): IOpenNotebook | null {
    return this._links.get(conversation)?.notebook ?? null;
  }

  /** The conversations of an open notebook that are held open. */
  conversationsOf(notebook: IOpenNotebook): IConversation[] {
    const links = [...this._links.values()].filter(link => link.notebook === notebook);
    return links.map(link => link.conversation);
  }

  /** A link's lease or notebook changed. */
  told(link: Link): void {
    if (link.notebook !== null) {
      this._changed.emit(link.notebook.path);
    }
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this._notebooks.forEach(held => held.forEach(each => each.dispose()));
    this._links.forEach(link => link.dispose());
    Signal.clearData(this);
  }

  private _of(path: string): Link[] {
    const wanted = bare(path);
    return [...this._links.values()].filter(
      link => link.notebook !== null && link.notebook.path === wanted
    );
  }

  private _linked(): void {
    const opened = new Set(this._agent.opened);
    for (const [conversation, link] of this._links) {
      if (!opened.has(conversation)) {
        this._links.delete(conversation);
        link.dispose();
      }
    }
    for (const conversation of opened) {
      if (!this._links.has(conversation)) {
        this._links.set(conversation, new Link(conversation, this));
        // Its notebook is known with its first words.
        conversation.changed.connect(this._match, this);
      }
    }
    this._match();
  }

  private _match(): void {
    for (const link of this._links.values()) {
      const about = link.conversation.info?.notebook ?? link.conversation.model.notebook;
      if (link.notebook === null && about !== null) {
        for (const notebook of this._notebooks.keys()) {
          if (notebook.path === bare(about)) {
            link.notebook = notebook;
            this._changed.emit(notebook.path);
            break;
          }
        }
      }
      link.settle();
    }
  }

  private _listed(): void {
    for (const notebook of this._notebooks.keys()) {
      void this._hold(notebook);
    }
  }

  /** Hold the newest conversation of a notebook open, so that the agent edits it in this page. */
  private async _hold(notebook: IOpenNotebook): Promise<void> {
    const { path } = notebook;
    let listed;
    try {
      listed = await this._agent.list({ notebook: path });
    } catch {
      return; // Offline, or nobody who may read them: it is asked again when the list changes.
    }
    const newest = [...listed].sort((one, other) => (one.last_at < other.last_at ? 1 : -1))[0];
    if (newest !== undefined && notebook.path === path) {
      this._keep(notebook, newest.id);
    }
  }

  /** A turn began in a conversation that may not be held open here. */
  private _began(_: unknown, id: string): void {
    if (this._agent.opened.some(each => each.id === id)) {
      return;
    }
    void this._agent.list({}).then(
      listed => {
        const about = listed.find(each => each.id === id)?.notebook;
        for (const notebook of this._notebooks.keys()) {
          if (about !== null && about !== undefined && bare(about) === notebook.path) {
            this._keep(notebook, id);
          }
        }
      },
      () => undefined // As in _hold.
    );
  }

  private _keep(notebook: IOpenNotebook, id: string): void {
    const held = this._notebooks.get(notebook);
    if (held === undefined || held.has(id)) {
      return;
    }
    held.set(id, this._agent.open(id));
    const idle = [...held].filter(
      ([each, { conversation }]) => each !== id && !conversation.running
    );
    for (const [each, holding] of idle.slice(0, Math.max(0, idle.length + 1 - HELD))) {
      held.delete(each);
      holding.dispose();
    }
  }

  private readonly _notebooks = new Map<IOpenNotebook, Map<string, IHeld>>();
  private readonly _links = new Map<IConversation, Link>();
  private readonly _changed = new Signal<this, string>(this);
}
