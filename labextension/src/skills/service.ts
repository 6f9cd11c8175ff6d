// The catalog of skills over REST: each act as a method, costs kept, changes told.

import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { IApi, RepriseEvent } from '../api/tokens';
import { every, nameOf, SHIPPED } from './names';
import {
  all,
  archiveType,
  entryOf,
  filename,
  fitting,
  only,
  PAGE,
  path,
  sent,
  shippedEntry,
  shownText,
  whole
} from './requesting';
import { ISkills } from './tokens';

/** Costs that are asked for at the same time: each has the server read a whole skill. */
const COSTS_AT_ONCE = 3;
/** Costs that are kept. */
const COSTS_KEPT = 2_000;
/** `ISkills` over the server's API. */
export class Skills implements ISkills, IDisposable {
  constructor(private readonly _api: IApi) {
    _api.events.connect(this._onEvent, this);
    _api.connection.restored.connect(this._onRestored, this);
  }

  get changed(): ISignal<ISkills, ISkills.IChange> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._api.events.disconnect(this._onEvent, this);
    this._api.connection.restored.disconnect(this._onRestored, this);
    Signal.clearData(this);
  }

  // Reading ---------------------------------------------------------------------------------------

  async list(query: ISkills.IQuery = {}, signal?: AbortSignal): Promise<ISkills.IPage> {
    const { words, scope, everything, offset = 0, limit = 100 } = query;
    if (scope === SHIPPED) {
      return whole(fitting(await this._shipped(signal), words));
    }
    const asked = words === undefined || words.trim() === '' ? undefined : words.trim();
    const answer = await this._api.get('/skills', {
      params: {
        query: {
          q: asked,
          scope,
          everything,
          // The server looks at so many of the best before it asks for their scope.
          limit: asked === undefined ? limit : PAGE,
          offset: asked === undefined ? offset : undefined
        }
      },
      signal
    });
    const entries = answer.skills.map(entryOf);
    if (asked === undefined) {
      const shipped = scope === undefined ? answer.shipped.map(shippedEntry) : [];
      return {
        entries: [...entries, ...shipped],
        total: answer.total + shipped.length,
        next: answer.next_offset
      };
    }
    const shipped = scope === undefined ? fitting(await this._shipped(signal), asked) : [];
    return whole([...entries, ...shipped]);
  }

  show(named: ISkills.IName): Promise<ISkills.IShown> {
    return this._api.get('/skills/{skill}', { params: path(named) });
  }

  async body(named: ISkills.IName): Promise<string> {
    return (await this._api.get('/skills/{skill}/body', { params: path(named) })).body;
  }

  files(named: ISkills.IName): Promise<readonly ISkills.File[]> {
    return all(async offset => {
      const page = await this._api.get('/skills/{skill}/files', { params: path(named, offset) });
      return [page.files, page.next_offset];
    });
  }

  file(named: ISkills.IName, file: string): Promise<Uint8Array> {
    return this._bytes(named, 'file', { path: file });
  }

  archive(named: ISkills.IName): Promise<Uint8Array> {
    return this._bytes(named, 'archive', {});
  }

  async findings(named: ISkills.IName): Promise<readonly ISkills.Finding[]> {
    return (await this._api.get('/skills/{skill}/findings', { params: path(named) })).findings;
  }

  cost(entry: ISkills.IEntry): Promise<ISkills.Cost> {
    const key = [entry.digest, entry.standing, entry.version?.deprecated ?? false].join(' ');
    const known = this._costs.get(key);
    if (known !== undefined) {
      return known;
    }
    const asked = this._inTurn(() =>
      this._api.get('/skills/{skill}/cost', { params: path(entry.named) })
    );
    this._costs.set(key, asked);
    // What could not be found out is asked again.
    asked.catch(() => this._costs.delete(key));
    if (this._costs.size > COSTS_KEPT) {
      const [oldest] = this._costs.keys();
      this._costs.delete(oldest ?? key);
    }
    return asked;
  }

  versions(named: ISkills.IName): Promise<readonly ISkills.Version[]> {
    return all(async offset => {
      const page = await this._api.get('/skills/{skill}/versions', {
        params: path(every(named), offset)
      });
      return [page.versions, page.next_offset];
    });
  }

  history(named: ISkills.IName): Promise<readonly ISkills.Event[]> {
    return all(async offset => {
      const page = await this._api.get('/skills/{skill}/history', {
        params: path(every(named), offset)
      });
      return [page.events, page.next_offset];
    });
  }

  usage(named: ISkills.IName): Promise<readonly ISkills.Usage[]> {
    return all(async offset => {
      const page = await this._api.get('/skills/{skill}/usage', {
        params: path(every(named), offset)
      });
      return [page.versions, page.next_offset];
    });
  }

  sessions(named: ISkills.IName): Promise<readonly string[]> {
    return all(async offset => {
      const page = await this._api.get('/skills/{skill}/sessions', { params: path(named, offset) });
      return [page.sessions, page.next_offset];
    });
  }

  differences(old: string, new_: string, offset = 0): Promise<ISkills.Differences> {
    return this._api.get('/skill-differences', { params: { query: { old, new: new_, offset } } });
  }

  // Judging ---------------------------------------------------------------------------------------

  trust(version: ISkills.Version, scope: string, reason?: string): Promise<ISkills.Standing> {
    return this._judge('/skills/{skill}/trust', version, scope, reason);
  }

  distrust(version: ISkills.Version, scope: string, reason?: string): Promise<ISkills.Standing> {
    return this._judge('/skills/{skill}/distrust', version, scope, reason);
  }

  revoke(version: ISkills.Version, scope: string, reason?: string): Promise<ISkills.Standing> {
    return this._judge('/skills/{skill}/revoke', version, scope, reason);
  }

  reinstate(version: ISkills.Version, scope: string, reason?: string): Promise<ISkills.Standing> {
    return this._judge('/skills/{skill}/reinstate', version, scope, reason);
  }

  release(version: ISkills.Version): Promise<ISkills.Version> {
    return this._api.post('/skills/{skill}/release', {
      params: path(nameOf(version)),
      body: { digest: version.digest }
    });
  }

  restore(version: ISkills.Version): Promise<ISkills.Version> {
    return this._api.post('/skills/{skill}/restoration', {
      params: path(nameOf(version)),
      body: { digest: version.digest }
    });
  }

  deprecate(version: ISkills.Version, reason: string, undo = false): Promise<ISkills.Version> {
    return this._api.post('/skills/{skill}/deprecation', {
      params: path(nameOf(version)),
      body: { digest: version.digest, reason, undo }
    });
  }

  // Bringing in -----------------------------------------------------------------------------------

  save(
    folder: string,
    files: readonly ISkills.ISentFile[],
    note?: string
  ): Promise<ISkills.Arrivals> {
    return this._api.post('/skills', {
      params: { query: { note: note || undefined } },
      body: { folder, files: files.map(sent) }
    });
  }

  async check(
    folder: string,
    files: readonly ISkills.ISentFile[],
    signal?: AbortSignal
  ): Promise<ISkills.IChecked> {
    const { skills } = await this._api.post('/skill-checks', {
      params: {},
      body: { folder, files: files.map(sent) },
      signal
    });
    return only(skills);
  }

  async checkArchive(archive: Blob, filename: string): Promise<readonly ISkills.IChecked[]> {
    const answer = await this._send('skill-checks', archive, { filename });
    return ((await answer.json()) as { skills: ISkills.IChecked[] }).skills;
  }

  async addArchive(
    archive: Blob,
    filename: string,
    names: readonly string[],
    note = ''
  ): Promise<ISkills.Arrivals> {
    const answer = await this._send('skills', archive, { filename, note }, names);
    return (await answer.json()) as ISkills.Arrivals;
  }

  importGit(source: string, ref?: string, subfolder?: string): Promise<ISkills.Job> {
    return this._api.post('/skill-imports', {
      body: { source, ref: ref || undefined, subfolder: subfolder || undefined }
    });
  }

  job(id: string, version?: number): Promise<ISkills.Job> {
    const query = version === undefined ? {} : { version, wait: 20 };
    return this._api.get('/jobs/{job}', { params: { path: { job: id }, query } });
  }

  async outputs(id: string, after: number): Promise<ISkills.IShownText> {
    const answer = await this._api.get('/jobs/{job}/outputs', {
      params: { path: { job: id }, query: { after, wait: 20 } }
    });
    return {
      text: answer.outputs.map(shownText).join(''),
      next: answer.next,
      ended: answer.ended
    };
  }

  async cancelJob(id: string): Promise<void> {
    await this._api.post('/jobs/{job}/cancel', { params: { path: { job: id } } });
  }

  async imported(id: string): Promise<ISkills.Arrivals> {
    const result = await this._api.get('/jobs/{job}/result', { params: { path: { job: id } } });
    return result as unknown as ISkills.Arrivals;
  }

  // Promotion -------------------------------------------------------------------------------------

  promotions(everything = false): Promise<readonly ISkills.Promotion[]> {
    return all(async offset => {
      const page = await this._api.get('/skill-promotions', {
        params: { query: { everything, offset, limit: PAGE } }
      });
      return [page.promotions, page.next_offset];
    });
  }

  promotion(id: string): Promise<ISkills.Promotion> {
    return this._api.get('/skill-promotions/{promotion}', { params: { path: { promotion: id } } });
  }

  promotionDifferences(id: string, offset = 0): Promise<ISkills.Differences> {
    return this._api.get('/skill-promotions/{promotion}/differences', {
      params: { path: { promotion: id }, query: { offset } }
    });
  }

  promote(version: ISkills.Version, to: string, note?: string): Promise<ISkills.Promotion> {
    return this._api.post('/skills/{skill}/promotions', {
      params: path(nameOf(version)),
      body: { digest: version.digest, to, note: note || undefined }
    });
  }

  decide(
    promotion: ISkills.Promotion,
    decision: { approve: boolean; release?: boolean; reason?: string }
  ): Promise<ISkills.Promotion> {
    return this._api.post('/skill-promotions/{promotion}/decision', {
      params: { path: { promotion: promotion.id } },
      body: { ...decision, reason: decision.reason || undefined, digest: promotion.version.digest }
    });
  }

  withdraw(promotion: ISkills.Promotion): Promise<ISkills.Promotion> {
    return this._api.post('/skill-promotions/{promotion}/withdrawal', {
      params: { path: { promotion: promotion.id } }
    });
  }

  // Scopes ----------------------------------------------------------------------------------------

  me(): Promise<ISkills.Me> {
    return this._api.get('/me');
  }

  async scopes(): Promise<readonly ISkills.Membership[]> {
    return (await this._api.get('/skill-scopes')).scopes;
  }

  members(scope: string): Promise<readonly ISkills.Member[]> {
    return all(async offset => {
      const page = await this._api.get('/skill-members', {
        params: { query: { scope, offset, limit: PAGE } }
      });
      return [page.members, page.next_offset];
    });
  }

  createTeam(team: string): Promise<ISkills.Membership> {
    return this._api.post('/skill-teams', { body: { team } });
  }

  async appoint(scope: string, login: string, role: ISkills.Member['role']): Promise<void> {
    await this._api.put('/skill-members', { body: { scope, login, role } });
  }

  async dismiss(scope: string, login: string): Promise<void> {
    await this._api.delete('/skill-members', { params: { query: { scope, login } } });
  }

  run(
    session: string,
    reference: string,
    script: string,
    args: readonly string[]
  ): Promise<ISkills.Job> {
    return this._api.post('/sessions/{session}/run', {
      params: { path: { session } },
      body: { kind: 'skill', skill: reference, script, arguments: [...args], install: true }
    });
  }

  // -----------------------------------------------------------------------------------------------

  private async _judge(
    act: `/skills/{skill}/${'trust' | 'distrust' | 'revoke' | 'reinstate'}`,
    version: ISkills.Version,
    scope: string,
    reason?: string
  ): Promise<ISkills.Standing> {
    const { standing } = await this._api.post(act, {
      params: path(nameOf(version)),
      body: { digest: version.digest, scope, reason: reason || undefined }
    });
    return standing;
  }

  private async _shipped(signal?: AbortSignal): Promise<readonly ISkills.IEntry[]> {
    const answer = await this._api.get('/skills', {
      params: { query: { scope: 'personal', limit: 1 } },
      signal
    });
    return answer.shipped.map(shippedEntry);
  }

  private async _bytes(
    named: ISkills.IName,
    what: 'file' | 'archive',
    more: Readonly<Record<string, string>>
  ): Promise<Uint8Array> {
    const query = new URLSearchParams(more);
    if (named.scope !== undefined) {
      query.set('scope', named.scope);
    }
    const answer = await this._api.fetch(
      `skills/${encodeURIComponent(named.skill)}/${what}?${query.toString()}`
    );
    return new Uint8Array(await answer.arrayBuffer());
  }

  private async _send(
    where: 'skills' | 'skill-checks',
    archive: Blob,
    more: { filename: string; note?: string },
    names: readonly string[] = []
  ): Promise<Response> {
    const query = new URLSearchParams({ filename: filename(more.filename) });
    if (more.note) {
      query.set('note', more.note);
    }
    for (const name of names) {
      query.append('name', name);
    }
    return this._api.fetch(`${where}?${query.toString()}`, {
      method: 'POST',
      headers: { 'Content-Type': await archiveType(archive, more.filename) },
      body: archive
    });
  }

  private async _inTurn<T>(work: () => Promise<T>): Promise<T> {
    while (this._busy >= COSTS_AT_ONCE) {
      await new Promise<void>(resolve => this._waiting.push(resolve));
    }
    this._busy += 1;
    try {
      return await work();
    } finally {
      this._busy -= 1;
      this._waiting.shift()?.();
    }
  }

  private _onEvent(_: IApi, event: RepriseEvent): void {
    if (event.about !== 'skill') {
      return;
    }
    const { action, scope, name, number, digest, promotion } = event;
    this._changed.emit({ action, scope, name, number, digest, promotion });
  }

  private _onRestored(): void {
    this._changed.emit({ action: 'resynced' });
  }

  private readonly _changed = new Signal<ISkills, ISkills.IChange>(this);
  private readonly _costs = new Map<string, Promise<ISkills.Cost>>();
  private readonly _waiting: (() => void)[] = [];
  private _busy = 0;
  private _isDisposed = false;
}
