// What other parts may use of environments: commands, which there are, what was chosen for a session.

import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';

import type { Schemas } from '../api/tokens';

export const EnvironmentCommands = {
  /** A new notebook in an environment. `{environment?, cwd?}`: without one, it asks which. */
  create: 'reprise:new-notebook',
  /** Opens an environment in a tab. `{environment?}`: without one, that of the current notebook. */
  open: 'reprise:open-environment',
  /**
   * Asks for another environment of a running session: a new session with its files, without its
   * variables, that the notebook and its kernel go over to. `{session?, environment?}`
   */
  change: 'reprise:change-environment',
  /** Shows what a session's steps asked of the network. `{session?}` */
  network: 'reprise:open-network'
} as const;

export type EnvironmentRow = Schemas['Environments']['environments'][number];
export type EnvironmentDetail = Schemas['Environment'];
/** What was chosen for one session, what its running kernel has, what its next one gets. */
export type Chosen = Schemas['ChosenEnvironment'];
export type Checked = Schemas['CheckedEnvironment'];

/** A connection, or a request, that a step asked for. */
export interface IAskedHost {
  /** null: between steps. */
  readonly seq: number | null;
  readonly at: string;
  readonly host: string;
  readonly port: number;
  readonly verdict: 'allowed' | 'refused' | 'failed' | 'served';
  readonly reason: string;
  readonly up: number;
  readonly down: number;
  /** A replay asked, not the first run. */
  readonly replay: boolean;
  /** Of a request that was read: its method and address, without secrets. */
  readonly request: string | null;
}

/** Named environments of the server's machine. Knows no page. */
export interface IEnvironments {
  /** Those that were read last, `default` first; null until they were. */
  readonly list: readonly EnvironmentRow[] | null;
  /** Why one cannot be read, by its name. */
  readonly broken: Readonly<Record<string, string>>;
  /** What new sessions get where nobody chooses. */
  readonly usual: string;
  /** Whether a wall stands around what this server's kernels run. */
  readonly isolated: boolean;
  readonly backend: string;
  /** Why the list could not be read last. */
  readonly failure: Error | null;
  readonly changed: ISignal<this, void>;
  refresh(): Promise<void>;
  get(environment: string): Promise<EnvironmentDetail>;
  /** Compare what is on disk with what its digest says; `told` hears how far that is. */
  check(environment: string, told: (text: string) => void): Promise<Checked>;
  /** Take a place back that an environment allows. */
  deny(environment: string, place: string): Promise<void>;
  /** Allow a place in an environment, for all its sessions; a person presses it. */
  allow(environment: string, place: string): Promise<void>;
  /** Begin a session in an environment; a notebook that names it runs there. Resolves with its id. */
  begin(environment: string): Promise<string>;
  /** Have a session's notebook go on elsewhere; its kernel has to be restarted then. */
  move(session: string, environment: string): Promise<{ session: string; parent: string }>;
  chosen(session: string): Promise<Chosen>;
  /** Allow a place for one session, from its kernel's next start on; a person presses it. */
  allowFor(session: string, place: string): Promise<Chosen>;
  denyFor(session: string, place: string): Promise<Chosen>;
  /** What was asked of the network from a step on, in pages of the server's. */
  asked(
    session: string,
    from: number,
    after: string | null
  ): Promise<{ readonly rows: readonly IAskedHost[]; readonly next: string | null }>;
}

export const IEnvironments = new Token<IEnvironments>(
  '@jupyter-reprise/lab:IEnvironments',
  'The named environments that notebooks can run in.'
);
