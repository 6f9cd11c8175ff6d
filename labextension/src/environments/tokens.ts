/** What other parts may use of environments: commands, which there are, who goes out where. */

import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';

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

/** An environment in a list. */
export interface IEnvironmentRow {
  readonly name: string;
  /** What it stands on, in words. */
  readonly standsOn: string;
  /** What its sandboxes may reach, in words. */
  readonly network: string;
  /** What it stands on is on this machine. */
  readonly here: boolean;
  /** How new sessions here would be held apart, in words ("Isolated", "Not isolated"). */
  readonly isolation: string;
  readonly isolated: boolean;
  /** Whose members alone may use it. */
  readonly team: string | null;
}

/** Named environments of the server's machine. Knows no page. */
export interface IEnvironments {
  /** Those that were read last; `default` is the first. */
  readonly list: readonly IEnvironmentRow[];
  /** Why one cannot be read, by its name. */
  readonly broken: Readonly<Record<string, string>>;
  /** What new notebooks get where nobody chooses. */
  readonly usual: string;
  readonly failure: Error | null;
  readonly changed: ISignal<this, void>;
  refresh(): Promise<void>;
  /** Begin a session in an environment; a notebook that names it gets it. Resolves with its id. */
  begin(environment: string): Promise<string>;
  /** Have a session go on in another environment, as `EnvironmentCommands.change` does. */
  change(session: string, environment: string): Promise<{ session: string; parent: string }>;
}

export const IEnvironments = new Token<IEnvironments>(
  '@jupyter-reprise/lab:IEnvironments',
  'The named environments that notebooks can run in.'
);
