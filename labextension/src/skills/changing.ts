// Asking anew after something changed in the catalog, once for several changes.

import * as React from 'react';

import { ISkills } from './tokens';

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
