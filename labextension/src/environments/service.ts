// Named environments over REST: read, kept, asked for again when something changed.

import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { ApiError, IApi, RepriseEvent, Schemas } from '../api/tokens';
import {
  Checked,
  Chosen,
  EnvironmentDetail,
  EnvironmentRow,
  IAskedHost,
  IEnvironments
} from './tokens';

/** Seconds that the server may keep a question for something new. */
const WAIT = 20;
/** Rows of the network in one answer. */
const ROWS = 200;

export class Environments implements IEnvironments, IDisposable {
  constructor(private readonly _api: IApi) {
    _api.events.connect(this._onEvent, this);
    _api.connection.restored.connect(this._onRestored, this);
  }

  get list(): readonly EnvironmentRow[] | null {
    return this._said?.environments ?? null;
  }

  get broken(): Readonly<Record<string, string>> {
    return this._said?.broken ?? {};
  }

  get usual(): string {
    return this._said?.usual ?? 'default';
  }

  get isolated(): boolean {
    // What is not known is not promised.
    return this._said?.isolated ?? false;
  }

  get backend(): string {
    return this._said?.backend ?? '';
  }

  get failure(): Error | null {
    return this._failure;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  async refresh(): Promise<void> {
    const mine = ++this._turn;
    try {
      const said = await this._api.get('/environments');
      if (mine === this._turn) {
        this._said = said;
        this._failure = null;
      }
    } catch (error) {
      if (mine === this._turn) {
        this._failure = error instanceof Error ? error : new Error(String(error));
      }
    }
    if (mine === this._turn && !this._isDisposed) {
      this._changed.emit();
    }
  }

  get(environment: string): Promise<EnvironmentDetail> {
    return this._api.get('/environments/{environment}', { params: { path: { environment } } });
  }

  async check(environment: string, told: (text: string) => void): Promise<Checked> {
    let job = await this._api.post('/environments/{environment}/check', {
      params: { path: { environment } }
    });
    while (job.state === 'queued' || job.state === 'running') {
      told(job.progress.text);
      job = await this._api.get('/jobs/{job}', {
        params: { path: { job: job.id }, query: { version: job.version, wait: WAIT } }
      });
    }
    if (job.state !== 'done' || job.summary === null) {
      throw new ApiError(
        0,
        job.error?.code ?? 'failed',
        job.error?.message ?? 'The check did not end well. Nothing was changed.'
      );
    }
    return job.summary as unknown as Checked;
  }

  async allow(environment: string, place: string): Promise<void> {
    await this._api.post('/environments/{environment}/network/allow', {
      params: { path: { environment } },
      body: { places: [place], private: false }
    });
    await this.refresh();
  }

  async deny(environment: string, place: string): Promise<void> {
    await this._api.post('/environments/{environment}/network/deny', {
      params: { path: { environment } },
      body: { places: [place] }
    });
    await this.refresh();
  }

  async begin(environment: string): Promise<string> {
    const { id } = await this._api.post('/sessions', { body: { kernel: 'python3', environment } });
    return id;
  }

  async move(session: string, environment: string): Promise<{ session: string; parent: string }> {
    return this._api.post('/sessions/{session}/environment', {
      params: { path: { session } },
      body: { environment }
    });
  }

  chosen(session: string): Promise<Chosen> {
    return this._api.get('/sessions/{session}/environment', { params: { path: { session } } });
  }

  allowFor(session: string, place: string): Promise<Chosen> {
    return this._api.post('/sessions/{session}/network/allow', {
      params: { path: { session } },
      body: { places: [place], private: false }
    });
  }

  denyFor(session: string, place: string): Promise<Chosen> {
    return this._api.post('/sessions/{session}/network/deny', {
      params: { path: { session } },
      body: { places: [place] }
    });
  }

  async asked(
    session: string,
    from: number,
    after: string | null
  ): Promise<{ rows: readonly IAskedHost[]; next: string | null }> {
    const { network, next } = await this._api.get('/sessions/{session}/network', {
      params: { path: { session }, query: { from, after: after ?? undefined, limit: ROWS } }
    });
    return { rows: network.map(rowOf), next };
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

  private _onEvent(_: unknown, event: RepriseEvent): void {
    if (event.about === 'environment') {
      void this.refresh();
    }
  }

  private _onRestored(): void {
    void this.refresh();
  }

  private _said: Schemas['Environments'] | null = null;
  private _failure: Error | null = null;
  private _turn = 0;
  private _isDisposed = false;
  private readonly _changed = new Signal<this, void>(this);
}

/** A row as `reprise log --network --json` tells it; what is not as expected is left empty. */
export function rowOf(said: object): IAskedHost {
  const row = said as Readonly<Record<string, unknown>>;
  const detail = (row.detail ?? {}) as Readonly<Record<string, unknown>>;
  const verdict = text(row.verdict);
  return {
    seq: typeof row.seq === 'number' ? row.seq : null,
    at: text(row.at),
    host: text(row.host),
    port: number(row.port),
    verdict:
      verdict === 'allowed' || verdict === 'failed' || verdict === 'served' ? verdict : 'refused',
    reason: text(row.reason),
    up: number(row.bytes_up),
    down: number(row.bytes_down),
    replay: row.replay === true,
    request:
      typeof detail.method === 'string' ? `${detail.method} ${text(detail.url)}`.trim() : null
  };
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function number(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}
