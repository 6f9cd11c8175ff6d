/** Variables that are other than before, in a table. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { count, exact } from '../parts/words';
import type { IVariableChange, IVariableSide } from './differences';

/** Variables that are listed at first. */
const LISTED = 200;

export function Variables(props: {
  changes: readonly IVariableChange[];
  before: number;
  after: number;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { changes, before, after, trans } = props;
  const [whole, setWhole] = React.useState(false);
  const shown = whole ? changes : changes.slice(0, LISTED);
  return (
    <>
      <table className="jp-Reprise-Compare-variables">
        <thead>
          <tr>
            <th scope="col">{trans.__('Name')}</th>
            <th scope="col">{trans.__('Step %1', before)}</th>
            <th scope="col">{trans.__('Step %1', after)}</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(each => (
            <tr key={each.name}>
              <th scope="row">{exact(each.name)}</th>
              <td>{side(each.before, trans)}</td>
              <td>{side(each.after, trans)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length < changes.length && (
        <p className="jp-Reprise-rest">
          {trans.__('%1 of %2 variables.', count(shown.length), count(changes.length))}{' '}
          <button className="jp-Reprise-textButton" onClick={() => setWhole(true)}>
            {trans.__('Show all')}
          </button>
        </p>
      )}
    </>
  );
}

function side(value: IVariableSide | null, trans: TranslationBundle): React.JSX.Element {
  return value === null ? (
    <span className="jp-Reprise-secondary">{trans.__('not there')}</span>
  ) : (
    <>
      <code>{exact(value.text)}</code>{' '}
      <span className="jp-Reprise-secondary">{exact(value.type)}</span>
    </>
  );
}
