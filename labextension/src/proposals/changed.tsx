// What the agent did to one cell: shown, put back, or kept.

import * as React from 'react';

import { ErrorNotice } from '../parts/notices';
import { IChanged, lines } from './model';
import { CellDiff, ISurroundings } from './proposal';
import type { NotebookEdits } from './service';

export function ChangedView(props: {
  mark: IChanged;
  edits: NotebookEdits;
  around: ISurroundings;
}): React.JSX.Element {
  const { mark, edits, around } = props;
  const { trans } = around;
  const [open, setOpen] = React.useState(false);
  const [error, setError] = React.useState<unknown>(null);
  const { before, after, known, moved } = mark.edit;
  const source = (before as { source?: unknown } | null)?.source;
  const type = (before as { cell_type?: unknown } | null)?.cell_type;
  const was = typeof source === 'string' && typeof type === 'string' ? { type, source } : null;
  const name = around.named(mark.cell);
  const same = was !== null && after !== null && was.source === after.source;
  const title =
    after === null
      ? trans._n('Cell deleted (%1 line)', 'Cell deleted (%1 lines)', lines(was?.source ?? ''))
      : known && before === null
        ? trans.__('Agent added this cell')
        : same && moved
          ? trans.__('Agent moved this cell')
          : trans.__('Agent changed this cell');
  const label = after === null ? title : trans.__('Edit of the agent, %1', name);
  const shows = known && before !== null && !(same && was.type === after.type);
  const putBack = (): void => {
    setError(null);
    edits.putBack(mark).catch(setError);
  };
  return (
    <div
      role="group"
      aria-label={label}
      tabIndex={-1}
      className="jp-Reprise-cellmark jp-mod-changed"
      data-mark={mark.key}
    >
      <div className="jp-Reprise-cellmark-head">
        <span className="jp-Reprise-cellmark-title">{title}</span>
        <span className="jp-Reprise-cellmark-actions">
          {shows && (
            <button
              type="button"
              className="jp-Reprise-cellmark-act"
              aria-expanded={open}
              onClick={() => setOpen(!open)}
            >
              {after === null ? trans.__('Show') : trans.__('Show changes')}
            </button>
          )}
          <button
            type="button"
            className="jp-Reprise-cellmark-act"
            aria-disabled={!known}
            title={known ? undefined : trans.__('What it was before is not known')}
            onClick={known ? putBack : undefined}
          >
            {known && before === null ? trans.__('Take away') : trans.__('Put back')}
          </button>
          <button
            type="button"
            className="jp-Reprise-cellmark-act"
            onClick={() => edits.keep(mark)}
          >
            {after === null ? trans.__('Leave it so') : trans.__('Keep')}
          </button>
        </span>
      </div>
      {!known && (
        <p className="jp-Reprise-cellmark-line">
          {trans.__(
            'What it was before is not known: it was changed while the agent worked, or the notebook was not stored.'
          )}
        </p>
      )}
      {error !== null && <ErrorNotice error={error} trans={trans} />}
      {open && <CellDiff before={was} after={after} label={label} around={around} />}
    </div>
  );
}
