// What other parts see of the server: typed requests, how the line to it stands, its events.

import { Token } from '@lumino/coreutils';
import { IDisposable } from '@lumino/disposable';
import { ISignal } from '@lumino/signaling';
import { ServerConnection } from '@jupyterlab/services';
import type { MaybeOptionalInit, ParseAsResponse } from 'openapi-fetch';
import type {
  HttpMethod,
  PathsWithMethod,
  RequiredKeysOf,
  ResponseObjectMap,
  SuccessResponse
} from 'openapi-typescript-helpers';

import type { components, paths } from './schema';

/** The schemas of the server's document: `Schemas['Session']`. */
export type Schemas = components['schemas'];

type Init<I> =
  RequiredKeysOf<I> extends never
    ? [(I & { [key: string]: unknown })?]
    : [I & { [key: string]: unknown }];

/** A request by its path in the document; what comes back is what its success says. */
export type Call<M extends HttpMethod> = <
  P extends PathsWithMethod<paths, M>,
  I extends MaybeOptionalInit<paths[P], M>
>(
  path: P,
  ...init: Init<I>
) => Promise<
  M extends keyof paths[P]
    ? ParseAsResponse<
        SuccessResponse<ResponseObjectMap<paths[P][M] & Record<string | number, unknown>>>,
        I
      >
    : never
>;

/** A refusal or a failure, told to a person: `message` says what happened and what to do. */
export class ApiError extends Error {
  /**
   * @param status the HTTP status; 0 when no answer came (offline)
   * @param code for programs, as docs/rest.md lists them; `offline`, `cancelled` of our own
   * @param where a JSON pointer to the field of the request that is wrong
   * @param retryAfter seconds, of 429 and 503
   */
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly where: string | null = null,
    readonly retryAfter: number | null = null,
    readonly detail: Readonly<Record<string, unknown>> = {}
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

/** How the line to the server stands. */
export type Line =
  | { readonly state: 'online' }
  | {
      readonly state: 'offline';
      /** When something last came from the server; what is shown is as of then. */
      readonly since: Date;
      /** When it is tried next. */
      readonly next: Date;
    }
  /** Signed out, or the token has expired: nothing is lost, running steps go on. */
  | { readonly state: 'expired'; readonly since: Date };

/** Whether the server can be reached, as the last request found it. */
export interface IConnection {
  readonly line: Line;
  /** Also emitted when a try has failed and the next one is set. */
  readonly changed: ISignal<IConnection, Line>;
  /** Emitted when the line stands again after it did not: time to ask anew for what is shown. */
  readonly restored: ISignal<IConnection, void>;
  /** Try at once. Resolves when it was tried. */
  tryNow(): Promise<void>;
  /** What a websocket of a part found, so that all parts see one state. */
  lost(): void;
}

/** What a person presses a decision in. Set by the parts that have a page. */
export interface IDecider {
  /**
   * Show the frame of a decision, and resolve when it was pressed and the server has taken it.
   * @throws ApiError with the code `cancelled` when the person closed it, or `decided` when it
   * ended otherwise; its message says so.
   */
  decide(decision: string, frame: string): Promise<void>;
}

/** An event of the server (docs/rest.md, "Events"). */
export type RepriseEvent =
  | ({ readonly about: 'conversation' } & Schemas['EventConversation'])
  | ({ readonly about: 'decision' } & Schemas['EventDecision'])
  | ({ readonly about: 'environment' } & Schemas['EventEnvironment'])
  | ({ readonly about: 'job' } & Schemas['EventJob'])
  | ({ readonly about: 'policy' } & Schemas['EventPolicy'])
  | ({ readonly about: 'session' } & Schemas['EventSession'])
  | ({ readonly about: 'skill' } & Schemas['EventSkill']);

/** The server's API. Each call rejects with ApiError, and with nothing else. */
export interface IApi {
  readonly get: Call<'get'>;
  readonly post: Call<'post'>;
  readonly put: Call<'put'>;
  readonly patch: Call<'patch'>;
  readonly delete: Call<'delete'>;
  readonly connection: IConnection;
  /** Events of the server, as they come; none while offline (so ask anew on `restored`). */
  readonly events: ISignal<IApi, RepriseEvent>;
  /** For websockets and addresses of our own. */
  readonly settings: ServerConnection.ISettings;
  /** The address of a path below `reprise/api`, to be opened or shown: `url('skills/x/archive')`. */
  url(path: string): string;
  /**
   * Send bytes or ask for them, where a typed call does not fit.
   * @param init as `fetch` takes it; `body` must be one that can be sent twice (no stream)
   */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** Have a person press acts that widen rights here. */
  setDecider(decider: IDecider): IDisposable;
}

export const IApi = new Token<IApi>(
  '@jupyter-reprise/lab:IApi',
  'Typed requests to the server of Reprise, its events, and how the line to it stands.'
);
