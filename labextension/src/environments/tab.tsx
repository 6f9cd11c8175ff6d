// The tab of an environment: what it stands on, packages, limits, network, who runs in it, a check.

import { ReactWidget } from '@jupyterlab/apputils';
import { UseSignal } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ApiError } from '../api/tokens';
import { useAsked } from '../parts/asked';
import { ConnectionNotice, ErrorNotice, Loading, Notice } from '../parts/notices';
import { exact, size } from '../parts/words';
import { AllowHost } from './allow';
import { Context, IContext, useEnvironments } from './context';
import { Checked, EnvironmentDetail, EnvironmentRow } from './tokens';
import { isolationWord, limits, networkWords, placeWord, standsOn } from './words';

/** Packages that are shown at first. */
const SHOWN = 30;

export class EnvironmentTab extends ReactWidget {
  constructor(
    private readonly _context: IContext,
    readonly environment: string
  ) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-environment');
    this.node.tabIndex = -1;
  }

  protected override onActivateRequest(): void {
    this.node.focus();
  }

  protected override render(): React.JSX.Element {
    return (
      <Context.Provider value={this._context}>
        <Whole name={this.environment} />
      </Context.Provider>
    );
  }
}

function Whole(props: { name: string }): React.JSX.Element {
  const { api, environments, trans } = useEnvironments();
  const asked = useAsked(props.name, () => environments.get(props.name));
  const { again } = asked;
  React.useEffect(() => {
    void environments.refresh();
    const changed = (): void => again();
    environments.changed.connect(changed);
    return () => {
      environments.changed.disconnect(changed);
    };
  }, [environments, again]);
  return (
    <>
      <ConnectionNotice connection={api.connection} trans={trans} />
      {asked.error !== undefined && (
        <ErrorNotice error={asked.error} trans={trans} again={asked.again} />
      )}
      {asked.value === undefined ? (
        asked.error === undefined && <Loading trans={trans} rows={8} />
      ) : (
        <UseSignal signal={environments.changed}>
          {() => (
            <Environment
              detail={asked.value as EnvironmentDetail}
              row={environments.list?.find(each => each.environment === props.name) ?? null}
            />
          )}
        </UseSignal>
      )}
    </>
  );
}

function Environment(props: {
  detail: EnvironmentDetail;
  row: EnvironmentRow | null;
}): React.JSX.Element {
  const { detail, row } = props;
  const { environments, trans, create } = useEnvironments();
  const { isolated, backend } = environments;
  const network = [...detail.network.allow, ...detail.network.private];
  return (
    <>
      <h2>{detail.environment}</h2>
      <p>
        {isolationWord(isolated, trans)} ({backend}) · {networkWords(network, isolated, trans)}
      </p>
      <p className="jp-Reprise-secondary">
        {standsOn(detail, trans)}
        {row?.bytes != null && ` · ${size(row.bytes)}`}
        {detail.environment === environments.usual && ` · ${trans.__('the usual one here')}`}
      </p>
      {row !== null && !row.here && (
        <Notice kind="warning">
          {trans.__(
            'What it stands on is not on this machine, so nothing starts in it. Build it again with `reprise env check %1 --repair` in a terminal.',
            detail.environment
          )}
        </Notice>
      )}
      {detail.missing !== null && <Notice kind="warning">{detail.missing}</Notice>}
      <div className="jp-Reprise-actions">
        <button className="jp-mod-styled jp-mod-accept" onClick={() => create(detail.environment)}>
          {trans.__('New notebook in it')}
        </button>
      </div>
      <Network detail={detail} network={network} />
      <Packages detail={detail} />
      <Limits detail={detail} />
      <Rest detail={detail} />
      <Check name={detail.environment} />
      <Used row={row} />
    </>
  );
}

function Section(props: { title: string; children: React.ReactNode }): React.JSX.Element {
  const id = React.useId();
  return (
    <section aria-labelledby={id}>
      <h3 id={id}>{props.title}</h3>
      {props.children}
    </section>
  );
}

/** Whether it is what its digest says. */
function Check(props: { name: string }): React.JSX.Element {
  const { environments, trans, announcer } = useEnvironments();
  const [doing, setDoing] = React.useState<string | null>(null);
  const [found, setFound] = React.useState<Checked | null>(null);
  const [error, setError] = React.useState<unknown>(undefined);
  const check = async (): Promise<void> => {
    setError(undefined);
    setFound(null);
    setDoing(trans.__('Checking …'));
    try {
      const said = await environments.check(props.name, setDoing);
      setFound(said);
      announcer?.polite(said.ok ? trans.__('The environment is whole.') : said.problems.join(' '));
    } catch (failed) {
      setError(failed);
    } finally {
      setDoing(null);
    }
  };
  return (
    <Section title={trans.__('Check')}>
      {doing === null ? (
        <div className="jp-Reprise-environment-line">
          <span>{trans.__('Is every file what its digest says?')}</span>
          <button className="jp-mod-styled" onClick={() => void check()}>
            {found === null ? trans.__('Check') : trans.__('Check again')}
          </button>
        </div>
      ) : (
        <p role="status">{exact(doing)}</p>
      )}
      {error !== undefined && (
        <ErrorNotice error={error} trans={trans} again={() => void check()} />
      )}
      {found !== null && (
        <Notice kind={found.ok ? 'info' : 'error'}>
          {found.ok
            ? trans.__('Whole: %1 files are what they should be.', found.files.toLocaleString())
            : found.problems.map(exact).join('\n')}
          {found.notes.length > 0 && `\n${found.notes.map(exact).join('\n')}`}
          {!found.ok &&
            `\n${trans.__('Mend it with `reprise env check %1 --repair` in a terminal.', props.name)}`}
        </Notice>
      )}
    </Section>
  );
}

function Network(props: {
  detail: EnvironmentDetail;
  network: readonly string[];
}): React.JSX.Element {
  const { detail, network } = props;
  const { environments, trans } = useEnvironments();
  const [error, setError] = React.useState<unknown>(undefined);
  const deny = async (place: string): Promise<void> => {
    setError(undefined);
    try {
      await environments.deny(detail.environment, place);
    } catch (failed) {
      setError(failed);
    }
  };
  if (!environments.isolated) {
    return (
      <Section title={trans.__('Network')}>
        <Notice kind="warning">
          {trans.__(
            "Not isolated: code here has this machine's network, whatever is allowed. No rule holds it back, and nothing is logged."
          )}
        </Notice>
      </Section>
    );
  }
  return (
    <Section title={trans.__('Network')}>
      {network.length === 0 ? (
        <p>{trans.__('No network: its sandboxes have no interface but their own loopback.')}</p>
      ) : (
        <ul className="jp-Reprise-environment-places">
          {network.map(place => (
            <li key={place}>
              <code>{exact(placeWord(place, trans))}</code>
              {detail.network.private.includes(place) && (
                <span className="jp-Reprise-secondary">{trans.__('also private addresses')}</span>
              )}
              {detail.network.secrets
                .filter(each => each.host === place)
                .map(each => (
                  <span key={each.header} className="jp-Reprise-secondary">
                    {trans.__('the proxy adds %1', exact(each.header))}
                  </span>
                ))}
              <button
                className="jp-mod-styled"
                aria-label={trans.__('Take back %1', place)}
                onClick={() => void deny(place)}
              >
                {trans.__('Take back')}
              </button>
            </li>
          ))}
        </ul>
      )}
      {error !== undefined && <ErrorNotice error={error} trans={trans} />}
      <AllowHost
        label={trans.__('Allow a host for all notebooks in it')}
        button={trans.__('Allow')}
        allow={place => environments.allow(detail.environment, place)}
      />
      <p className="jp-Reprise-secondary">
        {trans.__('Running kernels keep what they have; it counts from their next start on.')}{' '}
        {detail.network.record && trans.__('What hosts answer is recorded for replays.')}
      </p>
    </Section>
  );
}

function Limits(props: { detail: EnvironmentDetail }): React.JSX.Element {
  const { trans } = useEnvironments();
  return (
    <Section title={trans.__('Limits')}>
      <dl className="jp-Reprise-environment-facts">
        {limits(props.detail, trans).map(({ name, value, set }) => (
          <React.Fragment key={name}>
            <dt>{name}</dt>
            <dd>
              {value}
              {set && <span className="jp-Reprise-secondary"> · {trans.__('set here')}</span>}
            </dd>
          </React.Fragment>
        ))}
      </dl>
      <p className="jp-Reprise-secondary">
        {trans.__(
          'Changed with `reprise env limit memory 4GiB --environment %1` in a terminal.',
          props.detail.environment
        )}
      </p>
    </Section>
  );
}

function Packages(props: { detail: EnvironmentDetail }): React.JSX.Element {
  const { trans } = useEnvironments();
  const [words, setWords] = React.useState('');
  const [whole, setWhole] = React.useState(false);
  const all = React.useMemo(
    () => Object.entries(props.detail.packages).sort(([one], [other]) => one.localeCompare(other)),
    [props.detail]
  );
  const found = all.filter(([name]) => name.toLowerCase().includes(words.toLowerCase().trim()));
  const shown = whole ? found : found.slice(0, SHOWN);
  return (
    <Section title={trans.__('Packages (%1)', all.length.toLocaleString())}>
      {all.length > SHOWN && (
        <input
          className="jp-mod-styled jp-Reprise-environment-find"
          type="text"
          value={words}
          placeholder={trans.__('Find a package')}
          aria-label={trans.__('Find a package')}
          onChange={event => setWords(event.target.value)}
        />
      )}
      <ul className="jp-Reprise-environment-packages">
        {shown.map(([name, version]) => (
          <li key={name}>
            {exact(name)} <span className="jp-Reprise-secondary">{exact(version)}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && all.length > 0 && <p>{trans.__('No package is called so.')}</p>}
      {found.length > shown.length && (
        <p className="jp-Reprise-secondary">
          {trans.__('%1 of %2.', shown.length, found.length.toLocaleString())}{' '}
          <button className="jp-mod-styled" onClick={() => setWhole(true)}>
            {trans.__('Show all')}
          </button>
        </p>
      )}
    </Section>
  );
}

/** What is rarely set: shown where it is. */
function Rest(props: { detail: EnvironmentDetail }): React.JSX.Element | null {
  const { detail } = props;
  const { trans } = useEnvironments();
  const facts: [string, string][] = [
    ...(detail.team === null
      ? []
      : [[trans.__('Who may use it'), trans.__('Members of %1', detail.team)] as [string, string]]),
    ...(detail.skills === null
      ? []
      : [
          [
            trans.__('Skills'),
            detail.skills.length === 0 ? trans.__('none') : detail.skills.join(', ')
          ] as [string, string]
        ]),
    ...(detail.output === 'auto'
      ? []
      : [
          [
            trans.__('Scripts in outputs'),
            detail.output === 'live' ? trans.__('run, whatever ran before') : trans.__('never run')
          ] as [string, string]
        ]),
    ...(detail.reuse === 'session'
      ? []
      : [[trans.__('Interpreter'), trans.__('a new one for each step')] as [string, string]]),
    ...detail.mounts.map(each => [trans.__('Mounted data'), mountWords(each)] as [string, string]),
    ...Object.entries(detail.variables).map(
      ([name, value]) => [trans.__('Variable'), `${name}=${value}`] as [string, string]
    )
  ];
  if (facts.length === 0) {
    return null;
  }
  return (
    <Section title={trans.__('More')}>
      <dl className="jp-Reprise-environment-facts">
        {facts.map(([name, value], index) => (
          <React.Fragment key={index}>
            <dt>{name}</dt>
            <dd>{exact(value)}</dd>
          </React.Fragment>
        ))}
      </dl>
    </Section>
  );
}

function mountWords(mount: object): string {
  const { source, target } = mount as { source?: unknown; target?: unknown };
  return `${String(source)} → ${String(target)}`;
}

/** Who last ran in it. */
function Used(props: { row: EnvironmentRow | null }): React.JSX.Element {
  const { api, trans } = useEnvironments();
  const sessions = props.row?.sessions ?? null;
  const named = (sessions ?? []).slice(0, SHOWN);
  const asked = useAsked(named.join(' '), () =>
    Promise.all(
      named.map(async session => {
        try {
          const said = await api.get('/sessions/{session}', { params: { path: { session } } });
          return { session, title: said.name ?? said.notebook?.split('/').pop() ?? null };
        } catch (error) {
          if (error instanceof ApiError && error.status === 404) {
            return { session, title: null };
          }
          throw error;
        }
      })
    )
  );
  return (
    <Section title={trans.__('Who runs in it')}>
      {sessions === null ? (
        <p className="jp-Reprise-secondary">
          {trans.__(
            "It stands on this machine's own Python, which sessions do not name; so nobody knows which."
          )}
        </p>
      ) : sessions.length === 0 ? (
        <p className="jp-Reprise-secondary">{trans.__('No session yet.')}</p>
      ) : (
        <>
          {asked.error !== undefined && (
            <ErrorNotice error={asked.error} trans={trans} again={asked.again} />
          )}
          <ul className="jp-Reprise-environment-packages">
            {(asked.value ?? []).map(({ session, title }) => (
              <li key={session}>
                {title === null ? session : exact(title)}{' '}
                {title !== null && (
                  <span className="jp-Reprise-secondary">{session.slice(0, 8)}</span>
                )}
              </li>
            ))}
          </ul>
          {sessions.length > named.length && (
            <p className="jp-Reprise-secondary">
              {trans.__('%1 of %2.', named.length, sessions.length.toLocaleString())}
            </p>
          )}
        </>
      )}
    </Section>
  );
}
