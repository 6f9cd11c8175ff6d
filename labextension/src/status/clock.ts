// The time of day as React knows it, while something counts down.

import * as React from 'react';

/** The present moment; drawn anew each second while `runs`. */
export function useNow(runs: boolean): Date {
  const [, tick] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    if (!runs) {
      return undefined;
    }
    const timer = setInterval(tick, 1_000);
    return () => clearInterval(timer);
  }, [runs]);
  return new Date();
}
