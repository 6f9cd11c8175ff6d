// Who used a skill, how often, in which sessions, and what each part of it costs in tokens.

import * as React from 'react';

import { ErrorNotice, Loading } from '../parts/notices';
import { count, exact, moment } from '../parts/words';
import { useAsked } from '../parts/asked';
import { useSkills } from './context';
import { reference } from './names';
import { ISkills } from './tokens';
import { tokens } from './words';

/** Sessions that are named. */
const MOST_SESSIONS = 20;
/** Files whose cost is listed. */
const MOST_FILES = 100;

export function Usage(props: { entry: ISkills.IEntry }): React.JSX.Element {
  const { entry } = props;
  return (
    <>
      <Costs entry={entry} />
      {entry.version && <Uses version={entry.version} named={entry.named} />}
    </>
  );
}

function Costs(props: { entry: ISkills.IEntry }): React.JSX.Element {
  const { skills, trans } = useSkills();
  const { entry } = props;
  const cost = useAsked(`${entry.digest} ${entry.standing}`, () => skills.cost(entry));
  return (
    <section aria-label={trans.__('Token cost')}>
      <h3>{trans.__('Token cost')}</h3>
      {cost.value === undefined ? (
        cost.error === undefined ? (
          <Loading trans={trans} />
        ) : (
          <ErrorNotice error={cost.error} trans={trans} again={cost.again} />
        )
      ) : (
        <CostTable cost={cost.value} counted={cost.value.counted} />
      )}
    </section>
  );
}

/** Also of a skill that is being written. */
export function CostTable(props: {
  cost: NonNullable<ISkills.IChecked['cost']>;
  counted: boolean;
}): React.JSX.Element {
  const { cost, counted } = props;
  const { trans } = useSkills();
  const files = cost.files.slice(0, MOST_FILES);
  const row = (name: string, when: string, value: number | null): React.JSX.Element => (
    <tr key={name}>
      <th scope="row">{name}</th>
      <td className="jp-Reprise-secondary">{when}</td>
      <td className="jp-Reprise-skill-figure">
        {value === null ? trans.__('no text') : tokens(value, counted, trans)}
      </td>
    </tr>
  );
  return (
    <>
      <table className="jp-Reprise-skill-table">
        <caption className="jp-sr-only">{trans.__('What each part costs a conversation')}</caption>
        <tbody>
          {row(trans.__('Its line in the list'), trans.__('in each request'), cost.listed)}
          {row('SKILL.md', trans.__('once it is loaded'), cost.loaded)}
          {files.map(each => row(exact(each.path), trans.__('once it is read'), each.tokens))}
        </tbody>
      </table>
      {cost.files.length > files.length && (
        <p className="jp-Reprise-secondary">
          {trans.__('%1 of %2 files.', count(files.length), count(cost.files.length))}
        </p>
      )}
      {!counted && (
        <p className="jp-Reprise-secondary">
          {trans.__('Estimated (~); an estimate leans to too much.')}
        </p>
      )}
    </>
  );
}

function Uses(props: { version: ISkills.Version; named: ISkills.IName }): React.JSX.Element {
  const { version, named } = props;
  const { skills, trans, open } = useSkills();
  const usage = useAsked(reference(named), () => skills.usage(named));
  const sessions = useAsked(`${reference(named)} sessions`, () => skills.sessions(named));
  return (
    <>
      <section aria-label={trans.__('Use')}>
        <h3>{trans.__('Use')}</h3>
        {usage.value === undefined ? (
          usage.error === undefined ? (
            <Loading trans={trans} />
          ) : (
            <ErrorNotice error={usage.error} trans={trans} again={usage.again} />
          )
        ) : (
          <table className="jp-Reprise-skill-table">
            <caption className="jp-sr-only">{trans.__('How often each version was used')}</caption>
            <thead>
              <tr>
                <th scope="col">{trans.__('Version')}</th>
                <th scope="col">{trans.__('Loaded')}</th>
                <th scope="col">{trans.__('Mounted')}</th>
                <th scope="col">{trans.__('Run')}</th>
                <th scope="col">{trans.__('Failed')}</th>
                <th scope="col">{trans.__('Sessions')}</th>
                <th scope="col">{trans.__('Last')}</th>
              </tr>
            </thead>
            <tbody>
              {usage.value.map(each => (
                <tr key={each.reference}>
                  <th scope="row">{each.reference.replace(/^.*@/, 'v')}</th>
                  {[each.loads, each.mounts, each.runs, each.failures, each.sessions].map(
                    (number, index) => (
                      <td key={index} className="jp-Reprise-skill-figure">
                        {count(number)}
                      </td>
                    )
                  )}
                  <td>{each.last_at === null ? '–' : moment(new Date(each.last_at))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        {version.scope !== 'personal' && (
          <p className="jp-Reprise-secondary">
            {trans.__(
              'Uses by everybody in the scope count; which sessions they were is their own.'
            )}
          </p>
        )}
      </section>
      <section aria-label={trans.__('Your sessions')}>
        <h3>{trans.__('Your sessions with v%1', version.number)}</h3>
        {sessions.error !== undefined && (
          <ErrorNotice error={sessions.error} trans={trans} again={sessions.again} />
        )}
        {sessions.value?.length === 0 && (
          <p className="jp-Reprise-secondary">{trans.__('None has used it.')}</p>
        )}
        <ul className="jp-Reprise-skill-sessions">
          {(sessions.value ?? []).slice(0, MOST_SESSIONS).map(each => (
            <li key={each}>
              <button
                type="button"
                className="jp-Reprise-link"
                title={trans.__('Show it in the timeline')}
                onClick={() => open.timeline(each)}
              >
                <code>{each}</code>
              </button>
            </li>
          ))}
        </ul>
        {(sessions.value?.length ?? 0) > MOST_SESSIONS && (
          <p className="jp-Reprise-secondary">
            {trans.__('%1 of %2.', MOST_SESSIONS, count(sessions.value?.length ?? 0))}
          </p>
        )}
      </section>
    </>
  );
}
