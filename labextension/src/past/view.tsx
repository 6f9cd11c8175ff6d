/** The tab with the notebook as of a step: what it is in words above, the cells below. */

import type { IEditorMimeTypeService } from '@jupyterlab/codeeditor';
import type * as nbformat from '@jupyterlab/nbformat';
import type { StaticNotebook } from '@jupyterlab/notebook';
import { NotebookModel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import { Panel } from '@lumino/widgets';
import * as React from 'react';

import type { IApi } from '../api/tokens';
import { Empty, ErrorNotice, Loading, Notice } from '../parts/notices';
import type { ISafeRendering } from '../parts/tokens';
import { count } from '../parts/words';
import { TimelineCommands } from '../timeline/tokens';
import { PastNotebook } from './notebook';

export interface IPastOptions {
  readonly api: IApi;
  readonly commands: CommandRegistry;
  readonly rendering: ISafeRendering;
  readonly factory: StaticNotebook.IContentFactory;
  readonly mimeTypes: IEditorMimeTypeService;
  readonly trans: TranslationBundle;
  readonly session: string;
  readonly step: number;
  /** What the session is called. */
  readonly name: string;
}

export class PastTab extends Panel {
  constructor(private readonly _options: IPastOptions) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-Past');
    this.node.tabIndex = -1;
    this._head = new Head(_options, () => void this.load());
    this.addWidget(this._head);
  }

  get session(): string {
    return this._options.session;
  }

  get step(): number {
    return this._options.step;
  }

  /** Ask for the notebook, and show it. */
  async load(): Promise<void> {
    const { api, session, step } = this._options;
    this._head.say({ is: 'loading' });
    try {
      const told = await api.get('/sessions/{session}/notebook', {
        params: { path: { session }, query: { at: step } }
      });
      if (this.isDisposed) {
        return;
      }
      this._show(told.notebook);
      this._head.say({
        is: 'here',
        cells: told.notebook.cells.length,
        older: told.left_out.older_cells,
        cut: told.left_out.outputs.length
      });
    } catch (error) {
      if (!this.isDisposed) {
        this._head.say({ is: 'failed', error });
      }
    }
  }

  protected override onActivateRequest(): void {
    this.node.focus();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._model?.dispose();
      super.dispose();
    }
  }

  private _show(content: nbformat.INotebookContent): void {
    const { rendering, factory, mimeTypes } = this._options;
    this._notebook?.dispose();
    this._model?.dispose();
    const model = new NotebookModel();
    model.fromJSON(content);
    model.readOnly = true;
    const notebook = new PastNotebook({
      rendermime: rendering.rendermime,
      contentFactory: factory,
      mimeTypeService: mimeTypes
    });
    notebook.model = model;
    this.addWidget(notebook);
    this._model = model;
    this._notebook = notebook;
  }

  private readonly _head: Head;
  private _model: NotebookModel | null = null;
  private _notebook: PastNotebook | null = null;
}

type State =
  | { readonly is: 'loading' }
  | { readonly is: 'failed'; readonly error: unknown }
  | { readonly is: 'here'; readonly cells: number; readonly older: boolean; readonly cut: number };

class Head extends ReactWidget {
  constructor(
    private readonly _options: IPastOptions,
    private readonly _again: () => void
  ) {
    super();
    this.addClass('jp-Reprise-Past-head');
  }

  say(state: State): void {
    this._state = state;
    this.update();
  }

  protected override render(): React.JSX.Element {
    const { trans, name, session, step, commands } = this._options;
    const state = this._state;
    const acts = [
      [TimelineCommands.showStep, trans.__('Show in the Timeline')],
      [TimelineCommands.filesAt, trans.__('Files here')],
      [TimelineCommands.fork, trans.__('Fork here')],
      [TimelineCommands.rewind, trans.__('Rewind to here')]
    ] as const;
    return (
      <>
        <Notice
          kind="info"
          actions={acts
            .filter(([id]) => commands.hasCommand(id))
            .map(([id, label]) => (
              <button
                key={id}
                className="jp-mod-styled"
                disabled={!commands.isEnabled(id, { session, step })}
                title={commands.caption(id, { session, step })}
                onClick={() => void commands.execute(id, { session, step })}
              >
                {label}
              </button>
            ))}
        >
          {trans.__('%1 as of step %2, read-only. Nothing here runs or is saved.', name, step)}
        </Notice>
        {state.is === 'loading' && <Loading trans={trans} rows={6} />}
        {state.is === 'failed' && (
          <ErrorNotice error={state.error} trans={trans} again={this._again} />
        )}
        {state.is === 'here' && state.cells === 0 && (
          <Empty
            lines={[
              trans.__('No cell had run by step %1.', step),
              trans.__('Text cells are not part of the record; they stand in the notebook itself.')
            ]}
          />
        )}
        {state.is === 'here' && state.older && (
          <p className="jp-Reprise-rest">
            {trans.__('The newest %1 cells; older ones are left out.', count(state.cells))}
          </p>
        )}
        {state.is === 'here' && state.cut > 0 && (
          <p className="jp-Reprise-rest">
            {trans._n(
              'Outputs of %1 cell are too large to be shown here; its step in the Timeline has them.',
              'Outputs of %1 cells are too large to be shown here; their steps in the Timeline have them.',
              state.cut
            )}
          </p>
        )}
      </>
    );
  }

  private _state: State = { is: 'loading' };
}
