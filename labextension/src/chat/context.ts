/** What all views of the chat use: words, rendering, commands, and the way into the notebook. */

import type { IThemeManager } from '@jupyterlab/apputils';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import * as React from 'react';

import type { IConversation } from '../agent/tokens';
import type { IApi } from '../api/tokens';

export interface Surroundings {
  readonly trans: TranslationBundle;
  readonly api: IApi;
  readonly themes: IThemeManager | null;
  /** Trusts nothing. */
  readonly rendermime: IRenderMimeRegistry;
  /** Languages of code, for its colours. */
  readonly languages: IEditorLanguageRegistry | null;
  /** Whether reads in a row fold (a setting). */
  readonly foldReads: boolean;
  /** Put code below the active cell of the notebook at hand; false where there is none. */
  insertBelow(code: string, language: string): boolean;
  /** Show a step in the timeline; false where no timeline is. */
  showStep(session: string, step: number): boolean;
  /** The number of a cell in the notebook that is open here, from 1; null where it is not there. */
  cellNumber(path: string | null, cell: string): number | null;
  /** Show an edit at its cell; false where nothing shows it. */
  showCell(path: string, question: string | null): Promise<boolean>;
  /** Say something once to screen readers. */
  announce(text: string, manner: 'polite' | 'assertive'): void;
  /** Open what says which key is missing, and the like: a command of another part, if it is there. */
  run(command: string, args: Readonly<Record<string, string | number>>): boolean;
}

const Context = React.createContext<Surroundings | null>(null);

export const SurroundingsProvider = Context.Provider;

export function useSurroundings(): Surroundings {
  const found = React.useContext(Context);
  if (found === null) {
    throw new Error('A view of the chat stands outside of the chat.');
  }
  return found;
}

/** Something that a person asked for: whether it is under way, and why it failed. */
export interface Acting {
  readonly busy: boolean;
  readonly error: unknown;
  readonly act: (work: () => Promise<unknown>) => void;
}

export function useAct(): Acting {
  const [busy, setBusy] = React.useState(false);
  const [error, setError] = React.useState<unknown>(null);
  const here = React.useRef(true);
  React.useEffect(() => {
    here.current = true;
    return () => {
      here.current = false;
    };
  }, []);
  const act = React.useCallback((work: () => Promise<unknown>) => {
    setBusy(true);
    setError(null);
    work()
      .catch((failed: unknown) => {
        if (here.current) {
          setError(failed);
        }
      })
      .finally(() => {
        if (here.current) {
          setBusy(false);
        }
      });
  }, []);
  return { busy, error, act };
}

/** Now, in milliseconds, drawn again each second while `runs`. */
export function useClock(runs: boolean): number {
  const [now, setNow] = React.useState(() => Date.now());
  React.useEffect(() => {
    if (!runs) {
      return undefined;
    }
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, [runs]);
  return now;
}

/** Draw again whenever the signal comes. */
export function useSignal<T, U>(signal: ISignal<T, U>): void {
  const [, again] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    const heard = (): void => again();
    signal.connect(heard);
    // What came between drawing and listening.
    again();
    return () => {
      signal.disconnect(heard);
    };
  }, [signal]);
}

/** What a conversation has now, by `select`; drawn again only when that is another value. */
export function useConversation<T>(
  conversation: IConversation,
  select: (conversation: IConversation) => T
): T {
  const subscribe = React.useCallback(
    (heard: () => void) => {
      conversation.changed.connect(heard);
      conversation.streamed.connect(heard);
      return () => {
        conversation.changed.disconnect(heard);
        conversation.streamed.disconnect(heard);
      };
    },
    [conversation]
  );
  return React.useSyncExternalStore(subscribe, () => select(conversation));
}
