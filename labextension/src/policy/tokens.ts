// What other parts may use of policies: the command that opens them, and what the server says of them.

import type { IDisposable } from '@lumino/disposable';
import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';

import type { Schemas } from '../api/tokens';

export const PolicyCommands = {
  /** Opens the policies that bind one, and their editor, in a tab. `{scope?}` */
  open: 'reprise:open-policy'
} as const;

export type Policy = Schemas['Policy'];
export type Problem = Schemas['PolicyProblem'];
export type Verdict = Schemas['PolicyVerdict'];

/** A scope that a policy may stand in, and whether whoever asks may set it. */
export interface IScope {
  readonly scope: string;
  readonly may: boolean;
  /** Why nobody may here, in the server's words; null where it is a matter of one's role. */
  readonly why: string | null;
}

/** What is wrong with a draft, and what would be otherwise were it set. */
export interface IFindings {
  /** null where there are problems. */
  readonly rules: readonly Readonly<Record<string, unknown>>[] | null;
  readonly problems: readonly Problem[];
  readonly advice: readonly Problem[];
  readonly trial: {
    readonly calls: number;
    readonly changes: readonly IChange[];
  } | null;
}

/** A call of before that would come out otherwise. */
export interface IChange {
  readonly conversation: string;
  readonly title: string;
  readonly tool: string;
  readonly before: Verdict | null;
  readonly now: Verdict;
}

/** An act as a person describes it. Empty texts and lists say nothing. */
export interface IAct {
  readonly tool: string;
  readonly shell: string;
  readonly code: string;
  readonly path: string;
  readonly host: string;
  readonly skill: string;
  readonly standing: 'trusted' | 'untrusted' | 'revoked';
  readonly environment: string;
  readonly isolated: boolean;
  /** Whether the environment lets code reach hosts. */
  readonly network: string;
  readonly tainted: readonly ('network' | 'skill' | 'mcp' | 'named')[];
}

/** What would become of an act. */
export interface IOutcome {
  readonly verdict: Verdict;
  /** Under the policies that bind now, without the draft. */
  readonly now: Verdict;
  readonly levels: readonly {
    readonly level: string;
    readonly rule: { readonly name: string; readonly decision: string } | null;
  }[];
  /** The command is more than plain words, so no argv pattern matches it. */
  readonly compound: boolean;
}

/** Policies over REST. Knows no page. */
export interface IPolicies extends IDisposable {
  /** Somebody set one. */
  readonly changed: ISignal<IPolicies, void>;
  /** Those that bind whoever asks, from the top. */
  list(): Promise<readonly Policy[]>;
  scopes(): Promise<readonly IScope[]>;
  /** The newest first. */
  versions(scope: string): Promise<readonly Policy[]>;
  check(scope: string, text: string, signal?: AbortSignal): Promise<IFindings>;
  /** `draft`: as that of `scope`, among those that bind. */
  try(act: IAct, draft: { scope: string; text: string } | null): Promise<IOutcome>;
  tools(): Promise<{
    readonly tools: readonly { readonly tool: string; readonly effect: string }[];
    readonly isolated: boolean;
  }>;
  /** A person presses it. `after`: the version that was looked at, 0 for none. */
  set(scope: string, text: string, note: string, after: number): Promise<Policy>;
}

export const IPolicies = new Token<IPolicies>(
  '@jupyter-reprise/lab:IPolicies',
  'What the agent may do: levels of rules, tried and set.'
);
