/** Below the list: how many steps there are and fit, what is selected, what went wrong. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { IConnection } from '../api/tokens';
import { ApiError } from '../api/tokens';
import { ConnectionNotice, ErrorNotice } from '../parts/notices';
import { count } from '../parts/words';
import type { StepGrid } from './grid';
import { isOpen } from './source';
import type { TimelineState } from './state';
import type { IHistory } from './tokens';

/** `57 of 50,000`, or how many there are. */
export function countWords(trans: TranslationBundle, history: IHistory): string {
  const { found, total, atLeast } = history;
  if (isOpen(history.filter)) {
    return trans._n('%2 step', '%2 steps', total, count(total));
  }
  return atLeast
    ? trans.__('%1 so far of %2', count(found), count(total))
    : trans.__('%1 of %2', count(found), count(total));
}

function Foot(props: {
  history: IHistory;
  grid: StepGrid;
  connection: IConnection;
  trans: TranslationBundle;
  compare: (before: number, after: number) => void;
}): React.JSX.Element {
  const { history, grid, connection, trans, compare } = props;
  const { selected } = grid;
  const first = selected[0];
  const last = selected[selected.length - 1];
  const { failure } = history;
  const away =
    failure instanceof ApiError && ['offline', 'not-authenticated'].includes(failure.code);
  return (
    <>
      <ConnectionNotice connection={connection} trans={trans} />
      {failure !== null && !away && (
        <ErrorNotice error={failure} trans={trans} again={() => void history.refresh()} />
      )}
      <div className="jp-Reprise-Timeline-count">
        {first !== undefined && last !== undefined && selected.length > 1 && (
          <span>
            {trans._n('%2 selected:', '%2 selected:', selected.length, count(selected.length))}{' '}
            <button className="jp-Reprise-textButton" onClick={() => compare(first, last)}>
              {selected.length === 2
                ? trans.__('Compare')
                : trans.__('Compare %1 and %2', first, last)}
            </button>
          </span>
        )}
        <span className="jp-Reprise-Timeline-total" role="status">
          {history.ready ? countWords(trans, history) : ''}
        </span>
      </div>
    </>
  );
}

export class FootWidget extends ReactWidget {
  constructor(
    private readonly _options: {
      state: TimelineState;
      grid: StepGrid;
      connection: IConnection;
      trans: TranslationBundle;
      compare: (before: number, after: number) => void;
    }
  ) {
    super();
    this.addClass('jp-Reprise-Timeline-foot');
  }

  protected override render(): React.JSX.Element {
    const { state, ...rest } = this._options;
    return (
      <UseSignal signal={state.changed}>
        {() =>
          state.history === null ? null : (
            // A UseSignal stays with the signal that it began with.
            <UseSignal key={state.history.session} signal={state.history.changed}>
              {() => (
                <UseSignal signal={rest.grid.selectionChanged}>
                  {() => state.history && <Foot {...rest} history={state.history} />}
                </UseSignal>
              )}
            </UseSignal>
          )
        }
      </UseSignal>
    );
  }
}
