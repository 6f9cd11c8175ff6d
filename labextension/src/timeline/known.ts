/** Sessions by id, and what each is called: found out once, kept until something is done to one. */

import { PathExt } from '@jupyterlab/coreutils';
import { Signal } from '@lumino/signaling';

import type { IApi } from '../api/tokens';

/** What is known of a session. */
export interface IKnownSession {
  readonly id: string;
  readonly name?: string | null;
  readonly notebook: string | null;
  readonly steps: number;
  readonly last_at: string;
  readonly parent: string | null;
  readonly fork_seq: number | null;
}

/** Sessions that a picker offers; one that is older is found by its notebook or a link. */
const OFFERED = 200;

/** A name that was given, else that of the notebook, else the beginning of the id. */
export function sessionName(session: {
  readonly id: string;
  readonly name?: string | null;
  readonly notebook: string | null;
}): string {
  if (session.name) {
    return session.name;
  }
  if (session.notebook) {
    return PathExt.basename(session.notebook, '.ipynb');
  }
  return session.id.slice(0, 8);
}

export class KnownSessions {
  constructor(private readonly _api: IApi) {}

  /** The sessions or their names are other than before. */
  readonly changed = new Signal<this, void>(this);

  /** The one used last first. */
  get all(): readonly IKnownSession[] {
    return [...this._byId.values()].sort((a, b) => (a.last_at < b.last_at ? 1 : -1));
  }

  get(id: string): IKnownSession | undefined {
    return this._byId.get(id);
  }

  /** What a session is called; one that is not known is asked for, and told by `changed`. */
  name(id: string): string {
    const session = this._byId.get(id);
    if (session === undefined) {
      void this.find(id);
    }
    return sessionName(session ?? { id, notebook: null });
  }

  /** A session as it is now. Undefined when there is none, or none can be asked. */
  find(id: string): Promise<IKnownSession | undefined> {
    const asked = this._asked.get(id) ?? this._find(id);
    this._asked.set(id, asked);
    return asked;
  }

  /** Ask for the sessions that were used last. Rejects as the API does. */
  async refresh(): Promise<void> {
    const turn = ++this._turn;
    const told = await this._api.get('/sessions', { params: { query: { limit: OFFERED } } });
    if (turn !== this._turn) {
      return; // asked again since, so that is newer
    }
    this._asked.clear();
    this._byId.clear();
    for (const session of told.sessions) {
      this._byId.set(session.id, session);
    }
    this.changed.emit(undefined);
  }

  private async _find(id: string): Promise<IKnownSession | undefined> {
    try {
      const told = await this._api.get('/sessions/{session}', {
        params: { path: { session: id } }
      });
      this._byId.set(id, told);
      this._asked.delete(id);
    } catch {
      // A name is no reason for a message: its id stands in its place, and the list is asked anew.
      return undefined;
    }
    this.changed.emit(undefined);
    return this._byId.get(id);
  }

  private readonly _byId = new Map<string, IKnownSession>();
  /** Sessions that are asked for, and those that were not found. */
  private readonly _asked = new Map<string, Promise<IKnownSession | undefined>>();
  private _turn = 0;
}
