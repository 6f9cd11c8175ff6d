// A server for unit tests that speaks the OpenAPI document: requests and answers are held against it.

import { ServerConnection } from '@jupyterlab/services';
import { Ajv2020, ValidateFunction } from 'ajv/dist/2020.js';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer, IncomingMessage, Server as HttpServer, ServerResponse } from 'node:http';
import { AddressInfo } from 'node:net';
import * as path from 'node:path';
import { WebSocket, WebSocketServer } from 'ws';

interface Operation {
  readonly parameters: readonly Parameter[];
  readonly bodies: Readonly<Record<string, ValidateFunction | null>>;
  readonly answers: Readonly<Record<string, ValidateFunction | null>>;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly schema: Record<string, unknown>;
}

/** A request as a route sees it. */
export interface Asked {
  readonly method: string;
  readonly path: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string | readonly string[]>>;
  readonly headers: IncomingMessage['headers'];
  readonly body: any;
  readonly bytes: Buffer;
}

/** What a route answers: JSON (status 200, or as given), or bytes. */
export type Answer =
  | { status?: number; json: unknown; headers?: Record<string, string> }
  | { status?: number; bytes: string | Uint8Array; type: string }
  /** The connection is torn. */
  | 'reset';

export type Route = (asked: Asked) => Answer | Promise<Answer>;

const PROJECT = path.resolve(__dirname, '..', '..');

/** The server's own document; made once, and anew when a part of it has changed. */
function readDocument(): any {
  const kept = path.resolve(__dirname, '..', 'openapi.json');
  const schema = path.resolve(__dirname, '..', 'src/api/schema.ts');
  if (!existsSync(kept) || statSync(kept).mtimeMs < statSync(schema).mtimeMs) {
    const text = execFileSync(
      process.env.REPRISE_PYTHON ?? 'python3',
      ['-m', 'reprise_server.api'],
      {
        env: {
          ...process.env,
          PYTHONPATH: ['kernel', 'server_ext']
            .map(each => path.join(PROJECT, each))
            .join(path.delimiter)
        },
        maxBuffer: 64 << 20
      }
    );
    writeFileSync(kept, text);
  }
  return JSON.parse(readFileSync(kept, 'utf8'));
}

let shared: { document: any; ajv: Ajv2020; operations: Map<string, Operation> } | undefined;

function known(): NonNullable<typeof shared> {
  if (shared === undefined) {
    const document = readDocument();
    const ajv = new Ajv2020({ strict: false, allErrors: false, validateFormats: false });
    ajv.addSchema(document, 'document');
    shared = { document, ajv, operations: new Map() };
  }
  return shared;
}

function pointer(...names: string[]): string {
  return names.map(each => `/${each.replace(/~/g, '~0').replace(/\//g, '~1')}`).join('');
}

function compiled(at: string): ValidateFunction {
  return known().ajv.compile({
    $ref: `document#${at.split('/').map(encodeURIComponent).join('/')}`
  });
}

function followed(at: string, said: any): { at: string; said: any } {
  return typeof said?.$ref === 'string'
    ? {
        at: said.$ref.slice(1),
        said: said.$ref
          .slice(2)
          .split('/')
          .reduce(
            (node: any, name: string) => node[name.replace(/~1/g, '/').replace(/~0/g, '~')],
            known().document
          )
      }
    : { at, said };
}

function operation(template: string, method: string): Operation | null {
  const { document, operations } = known();
  const key = `${method} ${template}`;
  const found = operations.get(key);
  if (found !== undefined) {
    return found;
  }
  const item = document.paths[template];
  const said = item?.[method];
  if (said === undefined) {
    return null;
  }
  const parameters = [...(item.parameters ?? []), ...(said.parameters ?? [])].map(
    each => followed('', each).said
  ) as Parameter[];
  const bodies: Record<string, ValidateFunction | null> = {};
  const request = followed(pointer('paths', template, method, 'requestBody'), said.requestBody);
  for (const [type, content] of Object.entries<any>(request.said?.content ?? {})) {
    bodies[type] =
      type === 'application/json' && content.schema !== undefined
        ? compiled(`${request.at}${pointer('content', type, 'schema')}`)
        : null;
  }
  const answers: Record<string, ValidateFunction | null> = {};
  for (const [status, response] of Object.entries<any>(said.responses)) {
    const answer = followed(pointer('paths', template, method, 'responses', status), response);
    const content = answer.said.content?.['application/json'];
    answers[status] =
      content?.schema === undefined
        ? null
        : compiled(`${answer.at}${pointer('content', 'application/json', 'schema')}`);
  }
  const made = { parameters, bodies, answers };
  operations.set(key, made);
  return made;
}

/**
 * A real HTTP server. Routes by method and path of the document: `server.on('GET /sessions', …)`.
 * What is not in the document, or not as it says, fails the test: by an exception in `faults`, which
 * `close` throws.
 */
export class FakeServer {
  private constructor(private readonly _http: HttpServer) {
    _http.on('request', (request, response) => void this._answer(request, response));
    _http.on('upgrade', (request, socket, head) => {
      this._sockets.handleUpgrade(request, socket, head, opened => {
        this.sockets.push(opened);
        const { pathname, searchParams } = new URL(request.url ?? '', 'http://x');
        this._socket?.(opened, decodeURIComponent(pathname), searchParams);
      });
    });
  }

  static async start(): Promise<FakeServer> {
    known();
    const http = createServer();
    await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve));
    return new FakeServer(http);
  }

  /** What was asked, in order: `GET /sessions?limit=2`. */
  readonly asked: string[] = [];
  /** Where the document and a request or an answer disagree. */
  readonly faults: string[] = [];
  /** Every websocket that was opened. */
  readonly sockets: WebSocket[] = [];

  get url(): string {
    return `http://127.0.0.1:${(this._http.address() as AddressInfo).port}/`;
  }

  /** As JupyterLab's, with this server's address and Node's fetch and websockets. */
  get settings(): ServerConnection.ISettings {
    return ServerConnection.makeSettings({
      baseUrl: this.url,
      wsUrl: this.url.replace('http', 'ws'),
      token: 't',
      appendToken: false,
      fetch: globalThis.fetch,
      Request: globalThis.Request,
      Headers: globalThis.Headers,
      WebSocket: WebSocket as unknown as typeof globalThis.WebSocket
    });
  }

  on(what: string, route: Route): this {
    const [method = '', template = ''] = what.split(' ');
    if (operation(template, method.toLowerCase()) === null) {
      throw new Error(`the document has no ${what}`);
    }
    this._routes.set(what, route);
    return this;
  }

  /** What happens when a websocket is opened. */
  onSocket(opened: (socket: WebSocket, path: string, query: URLSearchParams) => void): this {
    this._socket = opened;
    return this;
  }

  /** A message as the document says that a websocket tells it; throws when it is not. */
  told(type: string, message: Record<string, unknown>): string {
    const name = `Tells${type
      .split('-')
      .map(each => each.charAt(0).toUpperCase() + each.slice(1))
      .join('')}`;
    const validate = compiled(pointer('components', 'schemas', name));
    const whole = { type, ...message };
    if (!validate(whole)) {
      throw new Error(`${type}: ${known().ajv.errorsText(validate.errors)}`);
    }
    return JSON.stringify(whole);
  }

  /** Nothing answers until `come`. */
  async go(): Promise<void> {
    this._away = true;
    for (const socket of this.sockets.splice(0)) {
      socket.terminate();
    }
    this._http.closeAllConnections();
  }

  come(): void {
    this._away = false;
  }

  /** @throws when something was not as the document says */
  async close(): Promise<void> {
    await this.go();
    await new Promise(resolve => this._http.close(resolve));
    if (this.faults.length > 0) {
      throw new Error(this.faults.join('\n'));
    }
  }

  private async _answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this._away) {
      request.socket.destroy();
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request) {
      chunks.push(chunk as Buffer);
    }
    const bytes = Buffer.concat(chunks);
    const { pathname, search, searchParams } = new URL(request.url ?? '', 'http://x');
    const method = request.method ?? 'GET';
    const below = pathname.replace(/^\/reprise\/api/, '');
    this.asked.push(`${method} ${below}${search.replace(/[?&]\d{13}$/, '')}`);
    const found = this._find(method, below);
    if (found === null) {
      this._send(response, {
        status: 404,
        json: { error: { code: 'not-found', message: `No route for ${method} ${below}.` } }
      });
      return;
    }
    const { template, route, params } = found;
    const spec = operation(template, method.toLowerCase());
    if (spec === null) {
      throw new Error(`${method} ${template}`);
    }
    const query: Record<string, string | string[]> = {};
    for (const [name, value] of searchParams) {
      // JupyterLab's own, against caches.
      if (/^\d{13}$/.test(name)) {
        continue;
      }
      const parameter = spec.parameters.find(each => each.in === 'query' && each.name === name);
      if (parameter === undefined) {
        this.faults.push(`${method} ${template}: no query parameter ${name}`);
      } else if (parameter.schema.type === 'array') {
        query[name] = [...((query[name] as string[] | undefined) ?? []), value];
      } else {
        query[name] = value;
      }
    }
    let body: unknown;
    const type = (request.headers['content-type'] ?? '').split(';')[0] ?? '';
    if (bytes.length > 0) {
      const validate = spec.bodies[type];
      if (validate === undefined) {
        this.faults.push(`${method} ${template}: no body of type ${type}`);
      } else if (validate !== null) {
        body = JSON.parse(bytes.toString());
        if (!validate(body)) {
          this.faults.push(`${method} ${template}: ${known().ajv.errorsText(validate.errors)}`);
        }
      }
    }
    const answer = await route({
      method,
      path: params,
      query,
      headers: request.headers,
      body,
      bytes
    });
    if (answer === 'reset') {
      request.socket.destroy();
      return;
    }
    if ('json' in answer) {
      const status = String(answer.status ?? 200);
      const validate = spec.answers[status] ?? spec.answers.default;
      if (validate && !validate(answer.json)) {
        this.faults.push(
          `${method} ${template} → ${status}: ${known().ajv.errorsText(validate.errors)}`
        );
      }
    }
    this._send(response, answer);
  }

  private _find(
    method: string,
    below: string
  ): { template: string; route: Route; params: Record<string, string> } | null {
    for (const [what, route] of this._routes) {
      const [wanted = '', template = ''] = what.split(' ');
      const names: string[] = [];
      const pattern = template.replace(/\{(\w+)\}/g, (_, name: string) => {
        names.push(name);
        return '([^/]+)';
      });
      const match = wanted === method ? new RegExp(`^${pattern}$`).exec(below) : null;
      if (match !== null) {
        const params = Object.fromEntries(
          names.map((name, at) => [name, decodeURIComponent(match[at + 1] ?? '')])
        );
        return { template, route, params };
      }
    }
    return null;
  }

  private _send(response: ServerResponse, answer: Exclude<Answer, 'reset'>): void {
    if ('json' in answer) {
      response.writeHead(answer.status ?? 200, {
        'Content-Type': 'application/json',
        ...answer.headers
      });
      response.end(JSON.stringify(answer.json));
    } else {
      response.writeHead(answer.status ?? 200, { 'Content-Type': answer.type });
      response.end(answer.bytes);
    }
  }

  private readonly _sockets = new WebSocketServer({ noServer: true });
  private readonly _routes = new Map<string, Route>();
  private _socket: ((socket: WebSocket, path: string, query: URLSearchParams) => void) | undefined;
  private _away = false;
}
