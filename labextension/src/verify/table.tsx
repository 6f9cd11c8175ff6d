// The steps of a report as a table: failures first, a row opens what came out otherwise.

import * as React from 'react';

import { ErrorNotice, Loading } from '../parts/notices';
import { moved } from '../parts/roving';
import { exact } from '../parts/words';
import { useVerify } from './context';
import { Coded, StepDetail } from './step';
import { ReportHead, ReportRow, StepVerdict } from './tokens';
import { MARKS, took, VERDICTS, verdictMeaning, verdictWord } from './words';

/** Rows that are shown at first, and more each time. */
const PAGE = 100;
/** Rows that the keys PageUp and PageDown go. */
const JUMP = 10;

interface IRows {
  readonly steps: readonly ReportRow[];
  readonly found: number;
  readonly total: number;
}

export function Steps(props: { head: ReportHead }): React.JSX.Element {
  const { head } = props;
  const { verification, trans } = useVerify();
  const [only, setOnly] = React.useState<StepVerdict | null>(null);
  const [rows, setRows] = React.useState<IRows | null>(null);
  const [error, setError] = React.useState<unknown>(undefined);
  const [open, setOpen] = React.useState<ReadonlySet<number>>(new Set());
  const [at, setAt] = React.useState(0);
  const body = React.useRef<HTMLTableElement>(null);
  const turn = React.useRef(0);

  const fetch = React.useCallback(
    async (before: IRows | null): Promise<void> => {
      const mine = ++turn.current;
      setError(undefined);
      try {
        const offset = before?.steps.length ?? 0;
        const more = await verification.rows(only === null ? [] : [only], offset, PAGE);
        if (mine === turn.current) {
          setRows({ ...more, steps: [...(before?.steps ?? []), ...more.steps] });
          if (before === null) {
            // What one has to look at is open from the start, if that is one thing.
            const wrong = more.steps.filter(each => each.verdict === 'different');
            setOpen(new Set(wrong.length === 1 ? wrong.map(each => each.seq) : []));
            setAt(0);
          }
        }
      } catch (failed) {
        if (mine === turn.current) {
          setError(failed);
        }
      }
    },
    [verification, only]
  );
  React.useEffect(() => {
    setRows(null);
    void fetch(null);
  }, [fetch, head]);

  const toggle = (seq: number): void =>
    setOpen(before => {
      const after = new Set(before);
      if (!after.delete(seq)) {
        after.add(seq);
      }
      return after;
    });
  const go = (event: React.KeyboardEvent): void => {
    if (!(event.target instanceof HTMLElement) || event.target.dataset.row === undefined) {
      return; // a key within an open row is that row's
    }
    const to = moved(event.key, at, rows?.steps.length ?? 0, JUMP);
    if (to !== null) {
      event.preventDefault();
      event.stopPropagation();
      setAt(to);
      body.current?.querySelector<HTMLElement>(`[data-row="${to}"]`)?.focus();
    }
  };

  return (
    <section aria-label={trans.__('Steps')}>
      <h3 className="jp-sr-only">{trans.__('Steps')}</h3>
      <Filter head={head} only={only} show={setOnly} />
      {error !== undefined && (
        <ErrorNotice error={error} trans={trans} again={() => void fetch(rows)} />
      )}
      {rows === null ? (
        error === undefined && <Loading trans={trans} rows={6} />
      ) : rows.found === 0 ? (
        <p className="jp-Reprise-verify-none">
          {only === null
            ? trans.__('There was no step to compare.')
            : trans.__('No step is: %1.', verdictWord(only, trans))}
        </p>
      ) : (
        <>
          <table className="jp-Reprise-verify-table" ref={body} onKeyDown={go}>
            <thead>
              <tr>
                <th scope="col">{trans.__('Step')}</th>
                <th scope="col">{trans.__('Verdict')}</th>
                <th scope="col">{trans.__('What')}</th>
                <th scope="col" className="jp-Reprise-verify-time">
                  {trans.__('Time then → now')}
                </th>
              </tr>
            </thead>
            {rows.steps.map((row, index) => (
              <Row
                key={row.seq}
                row={row}
                index={index}
                focusable={index === at}
                open={open.has(row.seq)}
                toggle={() => toggle(row.seq)}
                came={() => setAt(index)}
              />
            ))}
          </table>
          {rows.steps.length < rows.found && (
            <p className="jp-Reprise-verify-rest">
              {trans.__(
                '%1 of %2 steps.',
                rows.steps.length.toLocaleString(),
                rows.found.toLocaleString()
              )}{' '}
              <button className="jp-mod-styled" onClick={() => void fetch(rows)}>
                {trans.__('Show more')}
              </button>
            </p>
          )}
        </>
      )}
    </section>
  );
}

/** All, or those of one verdict. */
function Filter(props: {
  head: ReportHead;
  only: StepVerdict | null;
  show: (only: StepVerdict | null) => void;
}): React.JSX.Element {
  const { head, only, show } = props;
  const { trans } = useVerify();
  const there = VERDICTS.filter(verdict => (head.counts[verdict] ?? 0) > 0);
  return (
    <div className="jp-Reprise-verify-filter" role="group" aria-label={trans.__('Which steps')}>
      <button
        className="jp-Reprise-verify-chip"
        aria-pressed={only === null}
        onClick={() => show(null)}
      >
        {trans.__('All %1', head.steps.toLocaleString())}
      </button>
      {there.map(verdict => (
        <button
          key={verdict}
          className="jp-Reprise-verify-chip"
          aria-pressed={only === verdict}
          title={verdictMeaning(verdict, trans)}
          onClick={() => show(only === verdict ? null : verdict)}
        >
          <Mark verdict={verdict} /> {verdictWord(verdict, trans)}{' '}
          {(head.counts[verdict] ?? 0).toLocaleString()}
        </button>
      ))}
    </div>
  );
}

export function Mark(props: { verdict: StepVerdict }): React.JSX.Element {
  return (
    <span
      className={`jp-Reprise-verify-mark jp-mod-${props.verdict.replace(/ /g, '-')}`}
      aria-hidden="true"
    >
      {MARKS[props.verdict]}
    </span>
  );
}

function Row(props: {
  row: ReportRow;
  index: number;
  focusable: boolean;
  open: boolean;
  toggle: () => void;
  came: () => void;
}): React.JSX.Element {
  const { row, index, focusable, open, toggle, came } = props;
  const { trans } = useVerify();
  const id = React.useId();
  const cause = row.causes[0];
  const played = row.verdict !== 'skipped' && row.verdict !== 'could not run';
  return (
    <tbody className={open ? 'jp-mod-open' : undefined}>
      <tr
        className="jp-Reprise-verify-row"
        onClick={event => {
          // The whole row, without taking away what one marks in it.
          if (window.getSelection()?.isCollapsed !== false && event.target instanceof Element) {
            if (event.target.closest('button') === null) {
              toggle();
            }
          }
        }}
      >
        <th scope="row">
          <button
            data-row={index}
            className="jp-Reprise-verify-toggle"
            aria-expanded={open}
            aria-controls={open ? id : undefined}
            tabIndex={focusable ? 0 : -1}
            onFocus={came}
            onClick={toggle}
            aria-label={trans.__('Step %1, %2', row.seq, verdictWord(row.verdict, trans))}
          >
            <span className="jp-Reprise-verify-twist" aria-hidden="true">
              {open ? '▾' : '▸'}
            </span>
            {row.seq}
          </button>
        </th>
        <td className="jp-Reprise-verify-verdict" title={verdictMeaning(row.verdict, trans)}>
          <Mark verdict={row.verdict} /> {verdictWord(row.verdict, trans)}
        </td>
        <td className="jp-Reprise-verify-what">
          <span className="jp-Reprise-verify-title">
            <span className="jp-Reprise-secondary">{row.kind}</span>{' '}
            <code>{exact(row.title) || trans.__('(empty)')}</code>
          </span>
          {!open && row.verdict !== 'same' && (cause !== undefined || row.reason !== null) && (
            <span className="jp-Reprise-verify-why">
              <Coded text={cause?.text ?? row.reason ?? ''} />
            </span>
          )}
        </td>
        <td className="jp-Reprise-verify-time">
          {took(row.recorded_s, trans)}
          {played && ` → ${took(row.took_s, trans)}`}
        </td>
      </tr>
      {open && (
        <tr id={id}>
          <td colSpan={4}>
            <StepDetail seq={row.seq} />
          </td>
        </tr>
      )}
    </tbody>
  );
}
