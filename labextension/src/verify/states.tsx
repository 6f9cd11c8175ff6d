// What the steps left behind: files and variables compared with each state that is known.

import * as React from 'react';

import { useAsked } from '../parts/asked';
import { ErrorNotice, Loading } from '../parts/notices';
import { exact } from '../parts/words';
import { useVerify } from './context';
import { Causes, Unified } from './step';
import { files, IThing, variables } from './things';
import { ReportHead, ReportState } from './tokens';
import { amounts, sides, stateTitle } from './words';

export function States(props: { head: ReportHead }): React.JSX.Element | null {
  const { trans } = useVerify();
  if (props.head.states.length === 0) {
    return null;
  }
  return (
    <section aria-label={trans.__('What the steps left behind')}>
      <h3>{trans.__('What the steps left behind')}</h3>
      {props.head.states.map(state => (
        <State key={state.number} state={state} />
      ))}
    </section>
  );
}

function State(props: { state: ReportHead['states'][number] }): React.JSX.Element {
  const { state } = props;
  const { trans } = useVerify();
  const nothing =
    state.files.different + state.files.volatile + state.files.not_compared === 0 &&
    state.variables.different + state.variables.volatile + state.variables.not_compared === 0;
  const [open, setOpen] = React.useState(state.verdict === 'different');
  return (
    <details
      className={`jp-Reprise-verify-state jp-mod-${state.verdict.replace(/ /g, '-')}`}
      open={open}
      onToggle={event => setOpen(event.currentTarget.open)}
    >
      <summary>
        <span
          className={`jp-Reprise-verify-mark jp-mod-${state.verdict.replace(/ /g, '-')}`}
          aria-hidden="true"
        >
          {{ same: '✓', volatile: '≈', different: '≠', 'not compared': '–' }[state.verdict]}
        </span>{' '}
        {stateTitle(state, trans)}
        <span className="jp-Reprise-verify-amounts">
          {trans.__('Files: %1.', amounts(state.files, trans))}{' '}
          {trans.__('Variables: %1.', amounts(state.variables, trans))}
        </span>
      </summary>
      {open &&
        (nothing ? (
          <p className="jp-Reprise-secondary">{trans.__('Nothing differs.')}</p>
        ) : (
          <StateDetail number={state.number} />
        ))}
    </details>
  );
}

function StateDetail(props: { number: number }): React.JSX.Element {
  const { verification, trans } = useVerify();
  const asked = useAsked(`${props.number}`, () => verification.stateOf(props.number));
  if (asked.value === undefined) {
    return asked.error === undefined ? (
      <Loading trans={trans} rows={2} />
    ) : (
      <ErrorNotice error={asked.error} trans={trans} again={asked.again} />
    );
  }
  const state = asked.value;
  return (
    <>
      <Things
        title={trans.__('Files')}
        found={state.files}
        things={files(state.files, trans)}
        against={state.against}
      />
      <Things
        title={trans.__('Variables')}
        found={state.variables}
        things={variables(state.variables, trans)}
        against={state.against}
      />
    </>
  );
}

function Things(props: {
  title: string;
  found: ReportState['files'];
  things: readonly IThing[];
  against: string;
}): React.JSX.Element | null {
  const { title, found, things, against } = props;
  const { trans } = useVerify();
  const unknown = Object.entries(found.not_compared);
  if (things.length === 0 && unknown.length === 0) {
    return null;
  }
  const [left, right] = sides(against, trans);
  return (
    <>
      {things.length > 0 && (
        <div className="jp-Reprise-verify-scroll" tabIndex={0} role="region" aria-label={title}>
          <table className="jp-Reprise-verify-things">
            <thead>
              <tr>
                <th scope="col">{title}</th>
                <th scope="col">{trans.__('How')}</th>
                <th scope="col">{left}</th>
                <th scope="col">{right}</th>
              </tr>
            </thead>
            <tbody>
              {things.map(each => (
                <Thing key={each.name} thing={each} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found.different_total > things.length && (
        <p className="jp-Reprise-secondary">
          {trans.__(
            '%1 of %2. Save the report as JSON to have all.',
            things.length.toLocaleString(),
            found.different_total.toLocaleString()
          )}
        </p>
      )}
      {unknown.length > 0 && (
        <details className="jp-Reprise-verify-more">
          <summary>
            {trans.__(
              '%1: %2 could not be compared',
              title,
              found.not_compared_total.toLocaleString()
            )}
          </summary>
          <ul>
            {unknown.map(([name, why]) => (
              <li key={name}>
                <code>{exact(name)}</code> {exact(why)}
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

function Thing(props: { thing: IThing }): React.JSX.Element {
  const { thing } = props;
  const { trans } = useVerify();
  const more = thing.diff !== '' || thing.causes.length > 0;
  return (
    <>
      <tr>
        <th scope="row">
          <code>{exact(thing.name)}</code>
        </th>
        <td>
          {thing.volatile && (
            <span className="jp-Reprise-verify-mark jp-mod-volatile" aria-hidden="true">
              ≈{' '}
            </span>
          )}
          {thing.what}
          {thing.volatile && `, ${trans.__('volatile')}`}
          {thing.since !== null && ` · ${trans.__('since step %1', thing.since)}`}
        </td>
        <td>{exact(thing.before)}</td>
        <td>{exact(thing.after)}</td>
      </tr>
      {more && (
        <tr>
          <td colSpan={4}>
            <Causes causes={thing.causes} />
            {thing.diff !== '' && <Unified text={thing.diff} />}
          </td>
        </tr>
      )}
    </>
  );
}
