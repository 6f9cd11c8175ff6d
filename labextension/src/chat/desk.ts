/** Which conversation is shown: that of the notebook at hand, or one that was chosen; and its host. */

import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import { ApiError } from '../api/tokens';
import type { ConversationInfo, IAgent, IConversation } from '../agent/tokens';
import type { INotebookSession, ISessions } from '../sessions/tokens';
import { Host, type HostActs, type Where } from './host';

/** Hosts of conversations that are not shown and whose turn has ended; each holds a line to the server. */
const IDLE = 4;

/** What is known about the conversations of the notebook at hand. */
export type Finding =
  | { readonly is: 'nothing' }
  | { readonly is: 'looking' }
  | { readonly is: 'found' }
  | { readonly is: 'failed'; readonly error: ApiError };

export interface DeskWords {
  /** Why nothing can be said in this conversation, or in the one that would be begun; "" if it can. */
  closed(conversation: IConversation | null, where: Where): string;
  /** Why none can be begun in this notebook. */
  where(notebook: INotebookSession | null): string;
}

export class Desk implements IDisposable {
  constructor(
    private readonly _agent: IAgent,
    private readonly _sessions: ISessions | null,
    private readonly _acts: HostActs,
    private readonly _words: DeskWords
  ) {
    _sessions?.currentChanged.connect(this._onCurrent, this);
    _sessions?.changed.connect(this._onSessions, this);
    this._host = this._newHost();
    this._onCurrent();
  }

  /** What the composer writes to; another object when another conversation is shown. */
  get host(): Host {
    return this._host;
  }

  get conversation(): IConversation | null {
    return this._host.shown;
  }

  get notebook(): INotebookSession | null {
    return this._notebook;
  }

  get finding(): Finding {
    return this._finding;
  }

  /** Whether the list of conversations stands in their place. */
  get listing(): boolean {
    return this._listing;
  }

  set listing(listing: boolean) {
    if (listing !== this._listing) {
      this._listing = listing;
      this._changed.emit();
    }
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Show this one, for as long as this notebook is at hand. */
  choose(id: string): void {
    this._listing = false;
    this._remember(id);
    this._show(this._hostOf(id));
  }

  /** It is deleted: nothing of it is shown or held any more. */
  forget(id: string): void {
    for (const [panel, chosen] of this._chosen) {
      if (chosen === id) {
        this._chosen.delete(panel);
      }
    }
    if (this._host.conversation === id) {
      this.fresh();
    }
    for (const host of this._hosts) {
      if (host.conversation === id) {
        this._hosts.delete(host);
        host.dispose();
      }
    }
  }

  /** Show an empty one: its first words begin it. */
  fresh(): void {
    this._listing = false;
    this._remember(null);
    if (this._host.shown !== null) {
      this._show(this._newHost());
    } else {
      this._changed.emit();
    }
  }

  /** Look once more for the conversations of this notebook. */
  look(): void {
    this._lookedFor = null;
    this._onCurrent();
  }

  /** Those of the notebook at hand, by its session and its path, the newest first. */
  async list(words: string): Promise<readonly ConversationInfo[]> {
    const notebook = this._notebook;
    if (notebook === null) {
      return this._agent.list({ words });
    }
    const asked = [
      ...(notebook.id === null ? [] : [{ session: notebook.id, words }]),
      { notebook: notebook.path, words }
    ];
    const found = (await Promise.all(asked.map(each => this._agent.list(each)))).flat();
    const unique = new Map(found.map(each => [each.id, each]));
    return [...unique.values()].sort((one, other) => (one.last_at < other.last_at ? 1 : -1));
  }

  dispose(): void {
    if (this._disposed) {
      return;
    }
    this._disposed = true;
    this._sessions?.currentChanged.disconnect(this._onCurrent, this);
    this._sessions?.changed.disconnect(this._onSessions, this);
    this._notebook?.statusChanged.disconnect(this._onStatus, this);
    for (const host of this._hosts) {
      host.dispose();
    }
    this._host.dispose();
    Signal.clearData(this);
  }

  private get _where(): Where {
    const notebook = this._notebook;
    return {
      session: notebook?.id ?? null,
      path: notebook?.path ?? null,
      why: this._words.where(notebook)
    };
  }

  private _onSessions(): void {
    this._onCurrent();
  }

  private _onCurrent(): void {
    const notebook = this._sessions?.current ?? null;
    if (notebook !== this._notebook) {
      this._notebook?.statusChanged.disconnect(this._onStatus, this);
      this._notebook = notebook;
      notebook?.statusChanged.connect(this._onStatus, this);
      this._listing = false;
    }
    this._onStatus();
  }

  /** The notebook's session may have become known, or be another one. */
  private _onStatus(): void {
    const notebook = this._notebook;
    const key = notebook === null ? '' : `${notebook.path} ${notebook.id ?? ''}`;
    if (key === this._lookedFor) {
      return;
    }
    this._lookedFor = key;
    if (this._host.shown === null) {
      this._host.where = this._where;
    }
    void this._find(key);
  }

  private async _find(key: string): Promise<void> {
    const notebook = this._notebook;
    const session = notebook?.id ?? null;
    const same = notebook !== null && notebook.panel === this._foundFor;
    this._foundFor = notebook?.panel ?? null;
    const shown = this._host.shown;
    if (same && shown !== null && (session === null || shown.model.session === session)) {
      // Its kernel starts anew, or it went over to the session of a rewind or an undo.
      return;
    }
    if (notebook === null || session === null) {
      this._finding = { is: 'nothing' };
      this._show(this._newHost());
      return;
    }
    const chosen = this._chosen.get(notebook.panel.id);
    if (chosen !== undefined) {
      this._finding = { is: 'found' };
      if (chosen === null) {
        this._show(this._newHost());
      } else {
        this.choose(chosen);
      }
      return;
    }
    this._finding = { is: 'looking' };
    this._show(this._newHost());
    try {
      const found = await this._agent.list({ session });
      if (this._disposed || this._lookedFor !== key) {
        return;
      }
      this._finding = { is: 'found' };
      const newest = found.find(each => each.session === session);
      if (newest !== undefined && this._host.shown === null) {
        this._show(this._hostOf(newest.id));
      }
    } catch (error) {
      if (!(error instanceof ApiError)) {
        throw error;
      }
      if (this._lookedFor === key) {
        this._finding = { is: 'failed', error };
      }
    }
    this._changed.emit();
  }

  private _remember(id: string | null): void {
    if (this._notebook !== null) {
      this._chosen.set(this._notebook.panel.id, id);
    }
  }

  private _newHost(): Host {
    return this._made(null);
  }

  /** The one host of a conversation: what is queued in two would be sent twice. */
  private _hostOf(id: string): Host {
    const known = [...this._hosts].find(host => host.conversation === id);
    return known ?? this._keep(this._made(this._agent.open(id)));
  }

  private _made(held: ReturnType<IAgent['open']> | null): Host {
    const words = (conversation: IConversation | null, where: Where): string =>
      this._words.closed(conversation, where);
    return new Host(this._agent, this._acts, words, this._where, held);
  }

  private _keep(host: Host): Host {
    this._hosts.add(host);
    return host;
  }

  private _show(host: Host): void {
    const before = this._host;
    if (host !== before) {
      before.changed.disconnect(this._onHost, this);
      this._host = host;
      host.changed.connect(this._onHost, this);
      if (before.shown === null && before.state !== 'running') {
        before.dispose();
      } else {
        this._keep(before);
      }
      this._sweep();
    }
    this._onHost();
  }

  /** A first message has begun its conversation, or how it stands has changed. */
  private _onHost(): void {
    const { shown } = this._host;
    if (shown !== null && !this._hosts.has(this._host)) {
      this._keep(this._host);
      this._remember(shown.id);
    }
    this._agent.show(shown);
    this._changed.emit();
  }

  private _sweep(): void {
    const idle = [...this._hosts].filter(
      host => host !== this._host && host.shown?.running !== true && host.state !== 'running'
    );
    for (const host of idle.slice(0, Math.max(0, idle.length - IDLE))) {
      this._hosts.delete(host);
      host.dispose();
    }
  }

  private readonly _changed = new Signal<this, void>(this);
  /** Of each notebook panel what was chosen; null: an empty one. */
  private readonly _chosen = new Map<string, string | null>();
  private readonly _hosts = new Set<Host>();
  private _host: Host;
  private _notebook: INotebookSession | null = null;
  private _finding: Finding = { is: 'nothing' };
  private _listing = false;
  private _lookedFor: string | null = null;
  private _foundFor: INotebookSession['panel'] | null = null;
  private _disposed = false;
}
