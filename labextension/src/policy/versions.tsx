// All versions of a scope's policy, each against the one before it.

import * as React from 'react';

import { useAsked } from '../parts/asked';
import { TextDiff } from '../parts/diff';
import { ErrorNotice, Loading } from '../parts/notices';
import { exact, moment } from '../parts/words';
import { usePolicies } from './context';
import { Policy } from './tokens';
import { rulesText } from './yaml';

/** Versions that are shown at first, and more each time. */
const SHOWN = 10;

export function Versions(props: {
  scope: string;
  /** Asked again when this changes. */
  newest: number;
  take: ((policy: Policy) => void) | null;
}): React.JSX.Element {
  const { scope, newest, take } = props;
  const { policies, trans } = usePolicies();
  const asked = useAsked(`${scope} ${newest}`, () => policies.versions(scope));
  const [shown, setShown] = React.useState(SHOWN);
  const all = asked.value;
  return (
    <section aria-label={trans.__('Versions')}>
      <h3>{trans.__('Versions')}</h3>
      {asked.error !== undefined && (
        <ErrorNotice error={asked.error} trans={trans} again={asked.again} />
      )}
      {all === undefined ? (
        asked.error === undefined && <Loading trans={trans} />
      ) : all.length === 0 ? (
        <p className="jp-Reprise-secondary">{trans.__('None was ever set here.')}</p>
      ) : (
        <>
          {all.slice(0, shown).map((policy, index) => (
            <Version
              key={policy.version ?? index}
              policy={policy}
              before={all[index + 1] ?? null}
              binds={index === 0}
              take={take}
            />
          ))}
          {all.length > shown && (
            <p className="jp-Reprise-secondary">
              {trans.__('%1 of %2.', shown, all.length.toLocaleString())}{' '}
              <button className="jp-mod-styled" onClick={() => setShown(shown + SHOWN)}>
                {trans.__('Show more')}
              </button>
            </p>
          )}
        </>
      )}
    </section>
  );
}

function Version(props: {
  policy: Policy;
  before: Policy | null;
  binds: boolean;
  take: ((policy: Policy) => void) | null;
}): React.JSX.Element {
  const { policy, before, binds, take } = props;
  const { trans, languages } = usePolicies();
  const [open, setOpen] = React.useState(false);
  const number = policy.version ?? 0;
  return (
    <details
      className="jp-Reprise-policy-version"
      onToggle={event => setOpen(event.currentTarget.open)}
    >
      <summary>
        <strong>{trans.__('Version %1', number)}</strong>
        {binds && ` · ${trans.__('binds')}`}
        {policy.at !== null && ` · ${moment(new Date(policy.at))}`}
        {policy.by !== null && ` · ${exact(policy.by)}`}
        {policy.note !== '' && <span> · {exact(policy.note)}</span>}
      </summary>
      {open && (
        <>
          <TextDiff
            before={before === null ? '' : rulesText(before.rules)}
            after={rulesText(policy.rules)}
            label={
              before === null
                ? trans.__('Version %1', number)
                : trans.__('Version %1 against version %2', number, before.version ?? 0)
            }
            trans={trans}
            languages={languages}
            language="text/x-yaml"
          />
          {take !== null && !binds && (
            <div className="jp-Reprise-actions">
              <button className="jp-mod-styled" onClick={() => take(policy)}>
                {trans.__('Put version %1 into the editor', number)}
              </button>
            </div>
          )}
        </>
      )}
    </details>
  );
}
