// All versions of a skill in its scope, two of them compared, and who did what with them.

import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ErrorNotice, Loading } from '../parts/notices';
import { exact, moment } from '../parts/words';
import { IAsked, useAsked } from '../parts/asked';
import { useChanges } from './changing';
import { StandingBadge, StateBadges } from './badges';
import { Changes } from './changes';
import { useSkills } from './context';
import { every, reference, short } from './names';
import { ISkills } from './tokens';
import { act, origin } from './words';

export function Versions(props: {
  version: ISkills.Version;
  versions: IAsked<readonly ISkills.Version[]>;
  /** The number that this one is compared with; null: the one before it. */
  since: number | null;
}): React.JSX.Element {
  const { version, versions, since } = props;
  const { skills, trans, open } = useSkills();
  const all = versions.value;
  if (all === undefined) {
    return versions.error === undefined ? (
      <Loading trans={trans} rows={4} />
    ) : (
      <ErrorNotice error={versions.error} trans={trans} again={versions.again} />
    );
  }
  return (
    <>
      <table className="jp-Reprise-skill-table">
        <caption className="jp-sr-only">{trans.__('Versions, the newest first')}</caption>
        <thead>
          <tr>
            <th scope="col">{trans.__('Version')}</th>
            <th scope="col">{trans.__('Stands')}</th>
            <th scope="col">{trans.__('Added')}</th>
            <th scope="col">{trans.__('Note')}</th>
            <th scope="col">
              <span className="jp-sr-only">{trans.__('Actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {all.map(each => (
            <tr key={each.number} aria-current={each.number === version.number || undefined}>
              <th scope="row">
                <button
                  type="button"
                  className="jp-Reprise-link"
                  title={each.digest}
                  onClick={() =>
                    open.skill({
                      skill: `${each.name}@${each.number}`,
                      scope: each.scope,
                      view: 'versions'
                    })
                  }
                >
                  {`v${each.number}`}
                </button>
                <code className="jp-Reprise-secondary">{short(each.digest)}</code>
              </th>
              <td>
                <StateBadges version={each} /> <StandingBadge standing={each.standing} />
              </td>
              <td>
                {exact(each.by)}, <time dateTime={each.at}>{moment(new Date(each.at))}</time>
                <br />
                <span className="jp-Reprise-secondary">{exact(origin(each, trans))}</span>
              </td>
              <td>{exact(each.note)}</td>
              <td>
                <div className="jp-Reprise-actions">
                  {each.number !== all[0]?.number && (
                    <button
                      type="button"
                      className="jp-mod-styled"
                      title={trans.__('Make its content the newest version')}
                      onClick={() => void open.judge('restore', each)}
                    >
                      {trans.__('Restore…')}
                    </button>
                  )}
                  <button
                    type="button"
                    className="jp-mod-styled"
                    onClick={() =>
                      void open.judge(each.deprecated ? 'undeprecate' : 'deprecate', each)
                    }
                  >
                    {each.deprecated ? trans.__('Undo deprecation') : trans.__('Deprecate…')}
                  </button>
                </div>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {all.length > 1 && <Compared skills={skills} version={version} all={all} since={since} />}
      <History version={version} />
    </>
  );
}

function Compared(props: {
  skills: ISkills;
  version: ISkills.Version;
  all: readonly ISkills.Version[];
  since: number | null;
}): React.JSX.Element {
  const { skills, version, all, since } = props;
  const { trans } = useSkills();
  const before = all.find(each => each.number < version.number) ?? all[all.length - 1];
  const [old, setOld] = React.useState(since ?? before?.number ?? version.number);
  const [new_, setNew] = React.useState(version.number);
  React.useEffect(() => {
    setNew(version.number);
    setOld(since ?? before?.number ?? version.number);
  }, [version.number, since, before?.number]);
  const choice = (
    label: string,
    value: number,
    choose: (number: number) => void
  ): React.JSX.Element => (
    <label>
      {label}
      <HTMLSelect
        value={String(value)}
        onChange={event => choose(Number(event.currentTarget.value))}
        options={all.map(each => ({ label: `v${each.number}`, value: String(each.number) }))}
      />
    </label>
  );
  const name = every({ skill: version.name, scope: version.scope });
  const from = `${reference(name)}@${old}`;
  const to = `${reference(name)}@${new_}`;
  return (
    <section className="jp-Reprise-skill-compare" aria-label={trans.__('Compare versions')}>
      <h3>{trans.__('Compare')}</h3>
      <div className="jp-Reprise-skill-choices">
        {choice(trans.__('From'), old, setOld)}
        {choice(trans.__('to'), new_, setNew)}
      </div>
      {old === new_ ? (
        <p className="jp-Reprise-secondary">{trans.__('That is one version. Choose another.')}</p>
      ) : (
        <Changes of={`${from} ${to}`} ask={offset => skills.differences(from, to, offset)} />
      )}
    </section>
  );
}

function History(props: { version: ISkills.Version }): React.JSX.Element {
  const { skills, trans } = useSkills();
  const { name, scope } = props.version;
  const [opened, setOpened] = React.useState(false);
  const events = useAsked(`${scope} ${name} ${opened}`, () =>
    opened ? skills.history({ skill: name, scope }) : Promise.resolve([])
  );
  useChanges(skills, change => opened && (change.name ?? name) === name, events.again);
  return (
    <details
      className="jp-Reprise-skill-history"
      onToggle={event => setOpened(event.currentTarget.open)}
    >
      <summary>{trans.__('Who did what')}</summary>
      {events.error !== undefined && (
        <ErrorNotice error={events.error} trans={trans} again={events.again} />
      )}
      <ol>
        {[...(events.value ?? [])].reverse().map((each, index) => (
          <li key={`${each.at} ${index}`}>
            <time dateTime={each.at}>{moment(new Date(each.at))}</time>{' '}
            <strong>{exact(each.by)}</strong> {exact(act(each, trans))}
            {each.number !== null && ` v${each.number}`}
            {each.reason !== '' && `: ${exact(each.reason)}`}
          </li>
        ))}
      </ol>
    </details>
  );
}
