// Requests to the server: typed by its document, with one shape of failures, and pressed where needed.

import { URLExt } from '@jupyterlab/coreutils';
import { Event, ServerConnection } from '@jupyterlab/services';
import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';
import createClient, { Client } from 'openapi-fetch';

import { Connection } from './connection';
import type { paths } from './schema';
import { ApiError, Call, IApi, IConnection, IDecider, RepriseEvent } from './tokens';

/** The header by which a request that was refused 428 is asked again (docs/agent-api.md). */
const DECISION = 'X-Reprise-Decision';
/** JupyterLab's own `no-store` adds a parameter to each address, and ours take none that they do not know. */
const FRESH: RequestInit = { cache: 'no-cache' };
const EVENTS = /^urn:jupyter-reprise:([a-z]+):/;

/** What of the server's event stream is used. */
export type EventStream = Pick<Event.IManager, 'stream'>;

/** The API over Jupyter's own connection: its token, its XSRF cookie, its base URL. */
export class Api implements IApi, IDisposable {
  constructor(options: { settings?: ServerConnection.ISettings; events?: EventStream } = {}) {
    this.settings = options.settings ?? ServerConnection.makeSettings();
    this._root = URLExt.join(this.settings.baseUrl, 'reprise/api');
    this._client = createClient<paths>({
      baseUrl: this._root,
      fetch: request => this._fetchTyped(request),
      // Arrays as the server reads them: `kind=cell&kind=command`.
      querySerializer: { array: { style: 'form', explode: true } }
    });
    this._connection = new Connection(async () => {
      const response = await ServerConnection.makeRequest(this.url('me'), FRESH, this.settings);
      return response.ok || (await failure(response)).code !== 'not-authenticated';
    });
    options.events?.stream.connect(this._onEvent, this);
    this._stream = options.events?.stream;
  }

  readonly settings: ServerConnection.ISettings;

  get connection(): IConnection {
    return this._connection;
  }

  get events(): ISignal<IApi, RepriseEvent> {
    return this._events;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  // openapi-fetch resolves to `{data}`, since `_fetchTyped` throws for all that is not a success.
  readonly get = ((path: never, init: never) =>
    this._data(this._client.GET(path, init), init)) as Call<'get'>;
  readonly post = ((path: never, init: never) =>
    this._data(this._client.POST(path, init), init)) as Call<'post'>;
  readonly put = ((path: never, init: never) =>
    this._data(this._client.PUT(path, init), init)) as Call<'put'>;
  readonly patch = ((path: never, init: never) =>
    this._data(this._client.PATCH(path, init), init)) as Call<'patch'>;
  readonly delete = ((path: never, init: never) =>
    this._data(this._client.DELETE(path, init), init)) as Call<'delete'>;

  url(path: string): string {
    return URLExt.join(this._root, path);
  }

  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return this._send(this.url(path), init);
  }

  setDecider(decider: IDecider): IDisposable {
    this._decider = decider;
    return new DisposableDelegate(() => {
      if (this._decider === decider) {
        this._decider = null;
      }
    });
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._stream?.disconnect(this._onEvent, this);
    this._connection.dispose();
    Signal.clearData(this);
  }

  private async _data(
    answer: Promise<{ data?: unknown }>,
    init?: { signal?: AbortSignal }
  ): Promise<unknown> {
    try {
      return (await answer).data;
    } catch (error) {
      if (error instanceof ApiError) {
        throw error;
      }
      if (init?.signal?.aborted) {
        throw givenUp();
      }
      // Its body broke off, or is no JSON: a page of something that stands between, such as a login.
      throw new ApiError(
        0,
        'unknown',
        'The answer of the server could not be read. Try again; if it stays so, load the page anew.',
        null,
        null,
        { cause: error instanceof Error ? error.message : String(error) }
      );
    }
  }

  private async _fetchTyped(request: Request): Promise<Response> {
    const body = request.method === 'GET' ? undefined : await request.arrayBuffer();
    return this._send(request.url, {
      method: request.method,
      headers: request.headers,
      body: body?.byteLength ? body : undefined,
      signal: request.signal
    });
  }

  private async _send(url: string, init: RequestInit): Promise<Response> {
    const response = await this._once(url, init);
    if (response.ok) {
      return response;
    }
    const error = await this._refusal(response);
    const { decision, frame } = error.detail;
    if (
      error.status === 428 &&
      this._decider !== null &&
      typeof decision === 'string' &&
      typeof frame === 'string'
    ) {
      await this._decider.decide(decision, frame);
      const headers = new Headers(init.headers);
      headers.set(DECISION, decision);
      const again = await this._once(url, { ...init, headers });
      if (again.ok) {
        return again;
      }
      throw await this._refusal(again);
    }
    throw error;
  }

  private async _refusal(response: Response): Promise<ApiError> {
    const error = await failure(response);
    if (error.code === 'not-authenticated') {
      this._connection.refused();
    }
    return error;
  }

  private async _once(url: string, init: RequestInit): Promise<Response> {
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(url, { ...FRESH, ...init }, this.settings);
    } catch (error) {
      if (init.signal?.aborted) {
        throw givenUp();
      }
      this._connection.lost();
      throw new ApiError(
        0,
        'offline',
        'The server cannot be reached. What you see is as it last was; it is tried again by itself.',
        null,
        null,
        { cause: error instanceof Error ? error.message : String(error) }
      );
    }
    // Gateways answer for a server that is away; a page in place of JSON is a login page.
    if (response.status === 502 || response.status === 504) {
      this._connection.lost();
    } else if (response.status !== 401 && response.status !== 403) {
      this._connection.heard();
    }
    return response;
  }

  private _onEvent(_: unknown, emission: Event.Emission): void {
    const about = EVENTS.exec(emission.schema_id)?.[1];
    if (about !== undefined) {
      this._events.emit({ ...emission, about } as unknown as RepriseEvent);
    }
  }

  private readonly _root: string;
  private readonly _client: Client<paths>;
  private readonly _connection: Connection;
  private readonly _stream: EventStream['stream'] | undefined;
  private readonly _events = new Signal<IApi, RepriseEvent>(this);
  private _decider: IDecider | null = null;
  private _isDisposed = false;
}

function givenUp(): ApiError {
  return new ApiError(0, 'cancelled', 'The request was given up. Nothing more was asked.');
}

/** A refusal as the server told it, or what can be said of an answer that is none of ours. */
async function failure(response: Response): Promise<ApiError> {
  const { status } = response;
  let told: unknown;
  try {
    told = await response.json();
  } catch {
    told = null;
  }
  const error =
    typeof told === 'object' && told !== null ? (told as { error?: unknown }).error : undefined;
  if (typeof error === 'object' && error !== null) {
    const { code, message, where, retry_after_s, ...detail } = error as Record<string, unknown>;
    return new ApiError(
      status,
      typeof code === 'string' ? code : 'unknown',
      typeof message === 'string' ? message : response.statusText,
      typeof where === 'string' ? where : null,
      typeof retry_after_s === 'number' ? retry_after_s : null,
      detail
    );
  }
  if (status === 401 || status === 403) {
    return new ApiError(
      status,
      'not-authenticated',
      'You are signed out. Nothing is lost; running steps go on. Sign in again.'
    );
  }
  return new ApiError(
    status,
    'unknown',
    `The server answered ${status} ${response.statusText} without saying why. Try again; if it stays so, look at the server's log.`
  );
}
