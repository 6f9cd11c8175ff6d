// Says in a notebook that the agent edits another page of it, and takes it here on a press.

import { ReactWidget } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
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

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._heights.observe(this.node);
  }

  protected override onBeforeDetach(message: Message): void {
    this._heights.disconnect();
    super.onBeforeDetach(message);
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

  /** The panel above gives its children the height that their style asks for, and no more. */
  private _fit(): void {
    const { height } = this.node.firstElementChild?.getBoundingClientRect() ?? { height: 0 };
    const wanted = `${Math.ceil(height) + 9}px`;
    if (!this.isHidden && height > 0 && this.node.style.minHeight !== wanted) {
      this.node.style.minHeight = wanted;
      this.parent?.fit();
    }
  }

  private _changed(): void {
    this.setHidden(this._pages.lease(this._notebook.path) !== 'elsewhere');
    this.update();
  }

  protected override onUpdateRequest(message: Message): void {
    super.onUpdateRequest(message);
    void this.renderPromise?.then(() => requestAnimationFrame(() => this._fit()));
  }

  private readonly _heights = new ResizeObserver(() => this._fit());

  override dispose(): void {
    this._heights.disconnect();
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
