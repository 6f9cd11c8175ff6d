// What a view asks the server for: kept while it is asked anew, asked again when something changed.

import * as React from 'react';

import { ApiError } from '../api/tokens';
import { ISkills } from './tokens';

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

/** Milliseconds in which several changes are one: an import tells of each skill. */
const JOINED = 150;

/** Calls `act` after something changed that `concerns` it. */
export function useChanges(
  skills: ISkills,
  concerns: (change: ISkills.IChange) => boolean,
  act: () => void
): void {
  const latest = React.useRef({ concerns, act });
  React.useEffect(() => {
    latest.current = { concerns, act };
  });
  React.useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const changed = (_: ISkills, change: ISkills.IChange): void => {
      if (latest.current.concerns(change)) {
        clearTimeout(timer);
        timer = setTimeout(() => latest.current.act(), JOINED);
      }
    };
    skills.changed.connect(changed);
    return () => {
      clearTimeout(timer);
      skills.changed.disconnect(changed);
    };
  }, [skills]);
}
