// The strict check of a draft while one types: asked when typing pauses, the latest answer counts.

import * as React from 'react';

import { ApiError } from '../api/tokens';
import { Draft } from './draft';
import { ISkills } from './tokens';

/** Milliseconds without a key until the server is asked. */
const PAUSE = 400;

export interface IChecking {
  readonly checked: ISkills.IChecked | null;
  readonly error: unknown;
  /** A newer text is being checked. */
  readonly busy: boolean;
}

export function useCheck(skills: ISkills, draft: Draft): IChecking {
  const [state, setState] = React.useState<IChecking>({
    checked: null,
    error: undefined,
    busy: true
  });
  React.useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let stop = new AbortController();
    const ask = async (): Promise<void> => {
      const { signal } = stop;
      try {
        const { files, whole } = await draft.toCheck();
        const checked = await skills.check(draft.folder, files, signal);
        if (!signal.aborted) {
          setState({
            checked: {
              ...checked,
              // What is found in a file that was not sent whole says nothing.
              findings: checked.findings.filter(
                each => whole.has(each.path) || !files.some(file => file.path === each.path)
              )
            },
            error: undefined,
            busy: false
          });
        }
      } catch (error) {
        if (!signal.aborted && !(error instanceof ApiError && error.code === 'cancelled')) {
          setState(before => ({ ...before, error, busy: false }));
        }
      }
    };
    const changed = (): void => {
      clearTimeout(timer);
      stop.abort();
      stop = new AbortController();
      setState(before => ({ ...before, busy: true }));
      timer = setTimeout(() => void ask(), PAUSE);
    };
    draft.changed.connect(changed);
    void ask();
    return () => {
      clearTimeout(timer);
      stop.abort();
      draft.changed.disconnect(changed);
    };
  }, [skills, draft]);
  return state;
}
