/** What became of files between two steps: texts line by line, pictures beside each other on demand. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { ImageDiff } from '../parts/diff';
import { ErrorNotice } from '../parts/notices';
import { count, exact, size } from '../parts/words';
import type { Comparison } from './comparison';
import { isPicture, unifiedLines } from './differences';
import type { IFileChange } from './differences';

/** Files that are listed at first, and up to how many all differences stand open. */
const LISTED = 100;
const OPEN = 8;

export function Files(props: {
  changes: readonly IFileChange[];
  comparison: Comparison;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { changes, comparison, trans } = props;
  const [shown, setShown] = React.useState(LISTED);
  return (
    <>
      <ul className="jp-Reprise-Compare-files">
        {changes.slice(0, shown).map(change => (
          <FileItem
            key={change.path}
            change={change}
            comparison={comparison}
            trans={trans}
            open={changes.length <= OPEN}
          />
        ))}
      </ul>
      {changes.length > shown && (
        <p className="jp-Reprise-rest">
          {trans.__('%1 of %2 files.', count(shown), count(changes.length))}{' '}
          <button className="jp-Reprise-textButton" onClick={() => setShown(shown + LISTED * 5)}>
            {trans.__('Show more')}
          </button>
        </p>
      )}
    </>
  );
}

function FileItem(props: {
  change: IFileChange;
  comparison: Comparison;
  trans: TranslationBundle;
  open: boolean;
}): React.JSX.Element {
  const { change, comparison, trans } = props;
  const picture = isPicture(change.path) && change.kind === 'changed';
  const has = change.diff !== null || picture;
  const [open, setOpen] = React.useState(props.open && change.diff !== null);
  const words = {
    added: trans.__('added'),
    removed: trans.__('removed'),
    changed: trans.__('changed')
  }[change.kind];
  const sign = { added: '+', removed: '−', changed: '±' }[change.kind];
  return (
    <li>
      <button
        className="jp-Reprise-Compare-file"
        aria-expanded={has ? open : undefined}
        disabled={!has}
        onClick={() => setOpen(!open)}
      >
        <span aria-hidden="true" className="jp-Reprise-Compare-sign">
          {sign}
        </span>
        <span className="jp-Reprise-Compare-path">{exact(change.path)}</span>
        <span className="jp-Reprise-secondary">
          {words} · {sizes(change)}
        </span>
      </button>
      {open && change.diff !== null && (
        <Unified diff={change.diff} cut={change.cut} trans={trans} />
      )}
      {open && picture && <Pictures change={change} comparison={comparison} trans={trans} />}
    </li>
  );
}

function sizes(change: IFileChange): string {
  const sides = [change.before?.size ?? null, change.after?.size ?? null];
  return sides.flatMap(each => (each === null ? [] : [size(each)])).join(' → ');
}

/** A unified difference as the server made it; signs and words beside the colours. */
export function Unified(props: {
  diff: string;
  cut: boolean;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { diff, cut, trans } = props;
  const lines = React.useMemo(() => unifiedLines(diff), [diff]);
  const signs = { added: '+', removed: '−', same: ' ', place: '' } as const;
  return (
    <>
      <pre className="jp-Reprise-Unified" tabIndex={0} aria-label={trans.__('Difference')}>
        {lines.map((line, index) => (
          <div key={index} className={`jp-Reprise-Unified-line jp-mod-${line.is}`}>
            <span className="jp-Reprise-Unified-sign">{signs[line.is]}</span>
            {exact(line.text)}
          </div>
        ))}
      </pre>
      {cut && <p className="jp-Reprise-rest">{trans.__('More lines differ than are shown.')}</p>}
    </>
  );
}

/** Both states of a picture, which have to be built first. */
function Pictures(props: {
  change: IFileChange;
  comparison: Comparison;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { change, comparison, trans } = props;
  const [addresses, setAddresses] = React.useState<readonly [string, string] | null>(null);
  const [error, setError] = React.useState<unknown>(null);
  const { before, after } = comparison;
  React.useEffect(() => {
    let made: string[] = [];
    let current = true;
    Promise.all([
      comparison.file(change.path, Math.min(before, after)),
      comparison.file(change.path, Math.max(before, after))
    ]).then(
      ([old, now]) => {
        if (current) {
          // The server sends bytes without a type; the browser finds out which picture it is.
          const [a, b] = [URL.createObjectURL(old), URL.createObjectURL(now)];
          made = [a, b];
          setAddresses([a, b]);
        }
      },
      (reason: unknown) => current && setError(reason)
    );
    return () => {
      current = false;
      made.forEach(each => URL.revokeObjectURL(each));
    };
  }, [change.path, comparison, before, after]);
  if (error !== null) {
    return <ErrorNotice error={error} trans={trans} />;
  }
  if (addresses === null) {
    return <p role="status">{trans.__('Building both states of it…')}</p>;
  }
  return (
    <ImageDiff
      before={{ src: addresses[0], label: trans.__('Step %1', Math.min(before, after)) }}
      after={{ src: addresses[1], label: trans.__('Step %1', Math.max(before, after)) }}
      trans={trans}
    />
  );
}
