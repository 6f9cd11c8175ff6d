// What a view asks the server for: kept while it is asked anew, told apart by what it was asked for.

import * as React from 'react';

import { ApiError } from '../api/tokens';

export interface IAsked<T> {
  /** The last that came; stays while it is asked anew, and when that fails. */
  readonly value: T | undefined;
  readonly error: unknown;
  readonly asking: boolean;
  readonly again: () => void;
}

interface IState<T> {
  readonly key: string;
  readonly value: T | undefined;
  readonly error: unknown;
  readonly asking: boolean;
}

/**
 * @param key names what is asked for: of another key nothing is shown that came under this one
 * @param ask is called anew for each key
 */
export function useAsked<T>(key: string, ask: (signal: AbortSignal) => Promise<T>): IAsked<T> {
  const [state, setState] = React.useState<IState<T>>({
    key,
    value: undefined,
    error: undefined,
    asking: true
  });
  const [turn, again] = React.useReducer((count: number) => count + 1, 0);
  const latest = React.useRef(ask);
  React.useEffect(() => {
    latest.current = ask;
  });
  React.useEffect(() => {
    const stop = new AbortController();
    setState(before => ({
      key,
      value: before.key === key ? before.value : undefined,
      error: undefined,
      asking: true
    }));
    latest.current(stop.signal).then(
      value => {
        if (!stop.signal.aborted) {
          setState({ key, value, error: undefined, asking: false });
        }
      },
      (error: unknown) => {
        if (!stop.signal.aborted && !(error instanceof ApiError && error.code === 'cancelled')) {
          setState(before => ({ ...before, error, asking: false }));
        }
      }
    );
    return () => stop.abort();
  }, [key, turn]);
  const current = state.key === key;
  return {
    value: current ? state.value : undefined,
    error: current ? state.error : undefined,
    asking: current ? state.asking : true,
    again
  };
}
