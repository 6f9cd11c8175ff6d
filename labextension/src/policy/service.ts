// Policies over REST: read, tried, and set by a press.

import { ISignal, Signal } from '@lumino/signaling';

import { IApi, RepriseEvent } from '../api/tokens';
import { IAct, IFindings, IOutcome, IPolicies, IScope, Policy } from './tokens';

export class PoliciesService implements IPolicies {
  constructor(private readonly _api: IApi) {
    _api.events.connect(this._onEvent, this);
    _api.connection.restored.connect(this._onRestored, this);
  }

  get changed(): ISignal<IPolicies, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  async list(): Promise<readonly Policy[]> {
    return (await this._api.get('/policies')).policies;
  }

  async scopes(): Promise<readonly IScope[]> {
    const [me, { scopes }] = await Promise.all([
      this._api.get('/me'),
      this._api.get('/skill-scopes')
    ]);
    const shared = scopes
      .filter(each => each.scope !== 'personal')
      .map(each => ({
        scope: each.scope,
        may: me.governance.may && each.role === 'admin',
        why: me.governance.may ? null : me.governance.why
      }));
    return [
      { scope: 'personal', may: me.personal.may, why: me.personal.may ? null : me.personal.why },
      ...shared
    ];
  }

  async versions(scope: string): Promise<readonly Policy[]> {
    return (await this._api.get('/policies/versions', { params: { query: { scope } } })).versions;
  }

  async check(scope: string, text: string, signal?: AbortSignal): Promise<IFindings> {
    const { policy, problems, advice, trial } = await this._api.post('/policy-checks', {
      body: { policy: text, scope, recent: true },
      signal
    });
    return {
      rules:
        policy === null
          ? null
          : (policy.rules as unknown as readonly Readonly<Record<string, unknown>>[]),
      problems,
      advice,
      trial: trial as unknown as IFindings['trial']
    };
  }

  async try(act: IAct, draft: { scope: string; text: string } | null): Promise<IOutcome> {
    const said = await this._api.post('/policy-trials', {
      body: {
        tool: act.tool,
        ...(act.shell === '' ? {} : { shell: act.shell }),
        ...(act.code === '' ? {} : { code: act.code }),
        ...(act.path === '' ? {} : { paths: [act.path] }),
        ...(act.host === '' ? {} : { hosts: [act.host] }),
        ...(act.skill === '' ? {} : { skill: act.skill, standing: act.standing }),
        ...(act.environment === '' ? {} : { environment: act.environment }),
        ...(act.network === '' ? {} : { network: [act.network] }),
        isolated: act.isolated,
        tainted: [...act.tainted],
        ...(draft === null ? {} : { policy: draft.text, scope: draft.scope })
      }
    });
    return {
      verdict: said.verdict,
      now: said.now,
      levels: said.levels as unknown as IOutcome['levels'],
      compound: !said.plain
    };
  }

  tools(): ReturnType<IPolicies['tools']> {
    return this._api.get('/policy-tools');
  }

  set(scope: string, text: string, note: string, after: number): Promise<Policy> {
    return this._api.put('/policies', { body: { scope, policy: text, note, after } });
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this._api.events.disconnect(this._onEvent, this);
      this._api.connection.restored.disconnect(this._onRestored, this);
      Signal.clearData(this);
    }
  }

  private _onEvent(_: unknown, event: RepriseEvent): void {
    if (event.about === 'policy') {
      this._changed.emit();
    }
  }

  private _onRestored(): void {
    this._changed.emit();
  }

  private readonly _changed = new Signal<IPolicies, void>(this);
  private _isDisposed = false;
}
