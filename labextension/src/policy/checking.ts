// A draft is checked as one types: one question at a time, of the newest text.

import * as React from 'react';

import { ApiError } from '../api/tokens';
import { IFindings, IPolicies } from './tokens';

/** Milliseconds after the last key. */
const TYPED = 500;

export interface ICheck {
  /** Of the newest text that was checked. */
  readonly findings: IFindings | null;
  /** Whether they are of the text that is there now. */
  readonly current: boolean;
  readonly error: unknown;
}

export function useCheck(policies: IPolicies, scope: string, text: string): ICheck {
  const [found, setFound] = React.useState<{
    of: string;
    findings: IFindings | null;
    error: unknown;
  }>({ of: '', findings: null, error: undefined });
  const of = `${scope}\n${text}`;
  const first = React.useRef(true);
  React.useEffect(() => {
    const stop = new AbortController();
    const ask = (): void => {
      policies.check(scope, text, stop.signal).then(
        findings => {
          if (!stop.signal.aborted) {
            setFound({ of, findings, error: undefined });
          }
        },
        (error: unknown) => {
          if (!stop.signal.aborted && !(error instanceof ApiError && error.code === 'cancelled')) {
            setFound(before => ({ ...before, of, error }));
          }
        }
      );
    };
    const timer = setTimeout(ask, first.current ? 0 : TYPED);
    first.current = false;
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [policies, scope, text, of]);
  return { findings: found.findings, current: found.of === of, error: found.error };
}
