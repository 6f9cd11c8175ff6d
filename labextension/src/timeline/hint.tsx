/** In place of the list while there is none: why, and what to do. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import * as React from 'react';

import { Empty, Loading } from '../parts/notices';
import { isOpen, NO_FILTER } from './source';
import type { TimelineState } from './state';
import type { IHistory } from './tokens';

export class Hint extends ReactWidget {
  constructor(
    private readonly _state: TimelineState,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-Reprise-Timeline-hint');
    _state.changed.connect(this._onState, this);
    this._onState();
  }

  protected override render(): React.JSX.Element | null {
    const { history } = this._state;
    const trans = this._trans;
    if (history === null) {
      return (
        <Empty
          lines={[
            trans.__('Each cell is recorded before it runs.'),
            trans.__('If the sandbox dies, it is played again.'),
            trans.__('Open a notebook with a Reprise kernel, or choose a session above.')
          ]}
        />
      );
    }
    return (
      // A UseSignal stays with the signal that it began with.
      <UseSignal key={history.session} signal={history.changed}>
        {() => this._of(history)}
      </UseSignal>
    );
  }

  private _of(history: IHistory): React.JSX.Element | null {
    const trans = this._trans;
    if (!history.ready) {
      return history.failure === null ? <Loading trans={trans} rows={6} /> : null;
    }
    if (history.found > 0) {
      return null;
    }
    if (!isOpen(history.filter)) {
      return (
        <Empty
          lines={[trans.__('No step fits.')]}
          action={{
            label: trans.__('Show all steps'),
            run: () => this._state.setFilter(NO_FILTER)
          }}
        />
      );
    }
    return (
      <Empty
        lines={[
          trans.__('Each cell is recorded before it runs.'),
          trans.__('If the sandbox dies, it is played again.'),
          trans.__('Select a step to look back.')
        ]}
      />
    );
  }

  private _onState(): void {
    this.update();
  }
}
