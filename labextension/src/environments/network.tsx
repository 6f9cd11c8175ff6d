// The tab of a session's network: what it may reach, what was refused, each connection as it comes.

import { ReactWidget } from '@jupyterlab/apputils';
import { UseSignal } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ConnectionNotice, ErrorNotice, Loading, Notice } from '../parts/notices';
import { exact, moment, size } from '../parts/words';
import { AllowHost, Denied } from './allow';
import { Context, IContext, useEnvironments } from './context';
import { startAgain } from './moving';
import { pending, placeOf, ruleOf, waiting } from './places';
import { Chosen, IAskedHost } from './tokens';
import { Traffic } from './traffic';
import { networkWords, placeWord, refusal, verdictWord } from './words';

/** Rows that are shown at first, and more each time. */
const SHOWN = 100;
/** Refusals that stand above the table. */
const REFUSALS = 3;

export class NetworkTab extends ReactWidget {
  constructor(
    private readonly _context: IContext,
    readonly traffic: Traffic
  ) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-environment');
    this.addClass('jp-Reprise-network');
    this.node.tabIndex = -1;
    this.disposed.connect(() => traffic.dispose());
  }

  protected override onActivateRequest(): void {
    this.node.focus();
    void this.traffic.refresh();
  }

  protected override render(): React.JSX.Element {
    const { api, trans } = this._context;
    return (
      <Context.Provider value={this._context}>
        <ConnectionNotice connection={api.connection} trans={trans} />
        <UseSignal signal={this.traffic.changed}>
          {() => <Network traffic={this.traffic} />}
        </UseSignal>
      </Context.Provider>
    );
  }
}

function Network(props: { traffic: Traffic }): React.JSX.Element {
  const { traffic } = props;
  const { trans } = useEnvironments();
  const { chosen, failure } = traffic;
  return (
    <>
      {failure !== null && (
        <ErrorNotice error={failure} trans={trans} again={() => void traffic.refresh()} />
      )}
      {chosen === null ? (
        failure === null && <Loading trans={trans} rows={6} />
      ) : (
        <>
          <Reach traffic={traffic} chosen={chosen} />
          <Asked traffic={traffic} chosen={chosen} />
        </>
      )}
    </>
  );
}

/** What it may reach, and what is to change that. */
function Reach(props: { traffic: Traffic; chosen: Chosen }): React.JSX.Element {
  const { traffic, chosen } = props;
  const { environments, trans, open } = useEnvironments();
  const [error, setError] = React.useState<unknown>(undefined);
  const busy = React.useRef(false);
  const isolated = chosen.running?.isolated ?? environments.isolated;
  const now = chosen.running?.network ?? chosen.next.network;
  const name = chosen.running?.environment ?? chosen.next.environment;
  const own = [...chosen.allow, ...chosen.private];
  const act = async (work: () => Promise<Chosen>): Promise<void> => {
    // Pressed twice, it is asked once. Not disabled: the focus comes back here from the question.
    if (busy.current) {
      return;
    }
    busy.current = true;
    setError(undefined);
    try {
      traffic.take(await work());
    } catch (failed) {
      setError(failed);
    } finally {
      busy.current = false;
    }
  };
  return (
    <>
      <h2>{trans.__('Network of this session')}</h2>
      <p>
        {trans.__('Environment')}{' '}
        <button className="jp-Reprise-environment-link" onClick={() => open(name)}>
          {name}
        </button>
        {' · '}
        {networkWords(now, isolated, trans)}
      </p>
      {!isolated ? (
        <Notice kind="warning">
          {trans.__(
            "Not isolated: code here has this machine's network, whatever is allowed. No rule holds it back, and nothing is logged."
          )}
        </Notice>
      ) : (
        <>
          {chosen.gone !== null && <Notice kind="warning">{chosen.gone}</Notice>}
          <Pending chosen={chosen} session={traffic.session} />
          {waiting(traffic.rows, chosen.next.network)
            .slice(0, REFUSALS)
            .map(row => (
              <Notice
                key={placeOf(row)}
                kind="warning"
                actions={
                  <button
                    className="jp-mod-styled"
                    onClick={() =>
                      void act(() => environments.allowFor(traffic.session, placeOf(row)))
                    }
                  >
                    {trans.__('Allow for session')}
                  </button>
                }
              >
                {refusal(row, now, trans)}
              </Notice>
            ))}
          <Denied error={error} />
          {own.length > 0 && (
            <>
              <h3>{trans.__('Allowed for this session alone')}</h3>
              <ul className="jp-Reprise-environment-places">
                {own.map(place => (
                  <li key={place}>
                    <code>{exact(placeWord(place, trans))}</code>
                    <button
                      className="jp-mod-styled"
                      aria-label={trans.__('Take back %1', place)}
                      onClick={() => void act(() => environments.denyFor(traffic.session, place))}
                    >
                      {trans.__('Take back')}
                    </button>
                  </li>
                ))}
              </ul>
            </>
          )}
          <AllowHost
            label={trans.__('Allow a host for this session')}
            button={trans.__('Allow for session')}
            allow={async place => {
              traffic.take(await environments.allowFor(traffic.session, place));
            }}
          />
        </>
      )}
    </>
  );
}

/** What was chosen and does not hold yet, with the way to have it. */
function Pending(props: { chosen: Chosen; session: string }): React.JSX.Element | null {
  const { chosen, session } = props;
  const { trans, sessionOf, announcer } = useEnvironments();
  const [error, setError] = React.useState<unknown>(undefined);
  const [busy, setBusy] = React.useState(false);
  const { running, next } = chosen;
  if (running === null) {
    return null;
  }
  const more = pending(next.network, running.network);
  const less = pending(running.network, next.network);
  if (more.length + less.length === 0) {
    return null;
  }
  const open = sessionOf(session);
  const again = async (): Promise<void> => {
    if (open === null) {
      return;
    }
    setBusy(true);
    setError(undefined);
    try {
      await startAgain(open);
      announcer?.polite(trans.__('The kernel starts again; the session is played again.'));
    } catch (failed) {
      setError(failed);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Notice
        kind="info"
        actions={
          open === null ? undefined : (
            <button className="jp-mod-styled" disabled={busy} onClick={() => void again()}>
              {trans.__('Start again now')}
            </button>
          )
        }
      >
        {more.length > 0 &&
          trans.__('Allowed from the next start of its kernel on: %1.', more.map(exact).join(', '))}
        {more.length > 0 && less.length > 0 && '\n'}
        {less.length > 0 &&
          trans.__('Allowed until its kernel ends: %1.', less.map(exact).join(', '))}
        {`\n${
          open === null
            ? trans.__('Open its notebook to start it again.')
            : trans.__('Starting again plays the steps again, so variables and files stay.')
        }`}
      </Notice>
      {error !== undefined && <ErrorNotice error={error} trans={trans} />}
    </>
  );
}

/** Each connection, the newest first. */
function Asked(props: { traffic: Traffic; chosen: Chosen }): React.JSX.Element {
  const { traffic, chosen } = props;
  const { trans, showStep } = useEnvironments();
  const [shown, setShown] = React.useState(SHOWN);
  const rows = [...traffic.rows].reverse();
  const places = [...new Set([...(chosen.running?.network ?? []), ...chosen.next.network])];
  return (
    <section aria-label={trans.__('What was asked')}>
      <h3>{trans.__('What was asked')}</h3>
      {rows.length === 0 ? (
        <p className="jp-Reprise-secondary">
          {(chosen.running?.network ?? chosen.next.network).length === 0
            ? trans.__(
                'Nothing. Without a network there is nobody to ask: programs find no host at all.'
              )
            : trans.__('Nothing yet. Each connection of a step stands here, with its verdict.')}
        </p>
      ) : (
        <div
          className="jp-Reprise-verify-scroll"
          tabIndex={0}
          role="region"
          aria-label={trans.__('Connections')}
        >
          <table className="jp-Reprise-network-table">
            <thead>
              <tr>
                <th scope="col">{trans.__('Time')}</th>
                <th scope="col">{trans.__('Host')}</th>
                <th scope="col">{trans.__('Verdict')}</th>
                <th scope="col">{trans.__('Rule')}</th>
                <th scope="col">{trans.__('Step')}</th>
                <th scope="col">{trans.__('Sent, received')}</th>
              </tr>
            </thead>
            <tbody>
              {rows.slice(0, shown).map((row, index) => (
                <Row
                  key={`${row.at} ${index}`}
                  row={row}
                  rule={ruleOf(row, places)}
                  show={
                    showStep === null || row.seq === null
                      ? null
                      : () => showStep(traffic.session, row.seq ?? 0)
                  }
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {rows.length > shown && (
        <p className="jp-Reprise-secondary">
          {trans.__('%1 of %2.', shown.toLocaleString(), rows.length.toLocaleString())}{' '}
          <button className="jp-mod-styled" onClick={() => setShown(shown + SHOWN)}>
            {trans.__('Show more')}
          </button>
        </p>
      )}
      {traffic.dropped > 0 && (
        <p className="jp-Reprise-secondary">
          {trans.__(
            '%1 earlier ones are in the log: `reprise log SESSION --network`.',
            traffic.dropped.toLocaleString()
          )}
        </p>
      )}
    </section>
  );
}

function Row(props: {
  row: IAskedHost;
  rule: string | null;
  show: (() => void) | null;
}): React.JSX.Element {
  const { row, rule, show } = props;
  const { trans } = useEnvironments();
  return (
    <tr>
      <td>{moment(new Date(row.at))}</td>
      <th scope="row">
        <code>
          {exact(row.host)}:{row.port}
        </code>
        {row.request !== null && (
          <span className="jp-Reprise-network-request">{exact(row.request)}</span>
        )}
      </th>
      <td>
        <span className={`jp-Reprise-network-mark jp-mod-${row.verdict}`} aria-hidden="true">
          {{ allowed: '✓', refused: '✕', failed: '!', served: '↺' }[row.verdict]}
        </span>{' '}
        {verdictWord(row.verdict, trans)}
        {row.replay && ` · ${trans.__('replay')}`}
        {row.reason !== '' && (
          <span className="jp-Reprise-network-request">{exact(row.reason)}</span>
        )}
      </td>
      <td>
        {row.verdict === 'refused' ? (
          trans.__('none')
        ) : rule === null ? (
          '–'
        ) : (
          <code>{exact(rule)}</code>
        )}
      </td>
      <td>
        {row.seq === null ? (
          trans.__('between steps')
        ) : show === null ? (
          row.seq
        ) : (
          <button
            className="jp-Reprise-environment-link"
            aria-label={trans.__('Step %1 in the timeline', row.seq)}
            onClick={show}
          >
            {row.seq}
          </button>
        )}
      </td>
      <td>
        {size(row.up)}, {size(row.down)}
      </td>
    </tr>
  );
}
