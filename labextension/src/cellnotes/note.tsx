// A note below a cell: what became of its last run, and what can be done.

import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { infoIcon, warningIcon } from '../parts/icons';
import { INote, NoteAct } from './notes';

export class NoteWidget extends ReactWidget {
  constructor(
    readonly note: INote,
    private readonly _act: (act: NoteAct) => void,
    private readonly _can: (act: NoteAct) => boolean,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-cellnote');
    this.node.setAttribute('role', 'note');
    // Else the second D on a button here deletes the cell.
    this.node.setAttribute('data-lm-suppress-shortcuts', 'true');
  }

  protected override render(): React.ReactElement {
    const { note, _trans: trans } = this;
    const icon = note.kind === 'kept' ? infoIcon : warningIcon;
    const labels: Record<NoteAct, string> = {
      run: trans.__('Run again'),
      step: trans.__('Step %1', note.seq),
      raise: trans.__('Raise limit')
    };
    return (
      <>
        <icon.react tag="span" className="jp-Reprise-cellnote-icon" aria-hidden="true" />
        <span className="jp-Reprise-cellnote-text">{note.text}</span>
        <span className="jp-Reprise-cellnote-acts">
          {note.acts.filter(this._can).map(act => (
            <button
              key={act}
              type="button"
              className="jp-Reprise-status-lead"
              onClick={() => this._act(act)}
            >
              {labels[act]}
            </button>
          ))}
        </span>
      </>
    );
  }
}
