// Says in a notebook that the agent edits another page of it, and takes it here on a press.

import { ReactWidget } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ErrorNotice, Notice } from '../parts/notices';
import type { IOpenNotebook } from './service';
import type { IPages } from './tokens';

/** The notice of one panel; it takes no room while the agent works here, or nowhere. */
export class LeaseNotice extends ReactWidget {
  constructor(
    private readonly _pages: IPages,
    private readonly _notebook: IOpenNotebook,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-lease');
    _pages.changed.connect(this._changed, this);
    this._changed();
  }

  protected override render(): React.JSX.Element {
    return (
      <UseSignal
        signal={this._pages.changed}
        shouldUpdate={(_, path) => path === this._notebook.path}
      >
        {() => <Elsewhere pages={this._pages} path={this._notebook.path} trans={this._trans} />}
      </UseSignal>
    );
  }

  private _changed(): void {
    this.setHidden(this._pages.lease(this._notebook.path) !== 'elsewhere');
  }

  override dispose(): void {
    this._pages.changed.disconnect(this._changed, this);
    super.dispose();
  }
}

function Elsewhere(props: {
  pages: IPages;
  path: string;
  trans: TranslationBundle;
}): React.JSX.Element | null {
  const { pages, path, trans } = props;
  const [error, setError] = React.useState<unknown>(null);
  if (pages.lease(path) !== 'elsewhere') {
    return null;
  }
  const take = (): void => {
    setError(null);
    pages.take(path).catch(setError);
  };
  return (
    <>
      <Notice
        kind="info"
        actions={
          <button type="button" className="jp-mod-styled" onClick={take}>
            {trans.__('Edit here instead')}
          </button>
        }
      >
        {trans.__(
          'The agent works in another page of this notebook. Its changes come here when that page saves and this one loads anew.'
        )}
      </Notice>
      {error !== null && <ErrorNotice error={error} trans={trans} />}
    </>
  );
}
