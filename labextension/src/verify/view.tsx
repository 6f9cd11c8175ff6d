// The tab of a verify: how far it is, what it found out, and what to do when there is nothing (left).

import { ReactWidget } from '@jupyterlab/apputils';
import { ISignal, Signal } from '@lumino/signaling';
import { UseSignal } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ConnectionNotice, Empty, ErrorNotice, Loading, Notice } from '../parts/notices';
import { duration, moment } from '../parts/words';
import { Context, IContext, useVerify } from './context';
import { States } from './states';
import { Steps } from './table';
import { ReportHead } from './tokens';
import { countsLine, VERDICTS } from './words';

export class VerifyTab extends ReactWidget {
  constructor(private readonly _context: IContext) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-verify');
    this.node.tabIndex = -1;
    this.disposed.connect(() => _context.verification.dispose());
  }

  get context(): IContext {
    return this._context;
  }

  /** Emitted when the name that the tab should carry is known. */
  get named(): ISignal<this, string> {
    return this._named;
  }

  protected override onActivateRequest(): void {
    this.node.focus();
  }

  protected override render(): React.JSX.Element {
    const { verification } = this._context;
    return (
      <Context.Provider value={this._context}>
        <UseSignal signal={verification.changed}>
          {() => {
            const title = verification.head?.title;
            if (typeof title === 'string') {
              this._tell(title);
            }
            return <Report />;
          }}
        </UseSignal>
      </Context.Provider>
    );
  }

  private _tell(title: string): void {
    const name = title.split('/').pop() ?? title;
    if (name !== this._name) {
      this._name = name;
      // Not while React draws.
      queueMicrotask(() => this._named.emit(name));
    }
  }

  private _name = '';
  private readonly _named = new Signal<this, string>(this);
}

function Report(): React.JSX.Element {
  const { api, verification, trans } = useVerify();
  return (
    <>
      <ConnectionNotice connection={api.connection} trans={trans} />
      <Body key={verification.state === 'done' ? 'done' : 'other'} />
    </>
  );
}

function Body(): React.JSX.Element {
  const { verification, trans } = useVerify();
  const { state, failure, head } = verification;
  const again = { label: trans.__('Verify'), run: () => void verification.begin() };
  switch (state) {
    case 'looking':
      return <Loading trans={trans} rows={6} />;
    case 'none':
      return failure === null ? (
        <Empty
          lines={[
            trans.__('Does this history still give what it gave?'),
            trans.__('Every step is played again in a fresh sandbox and compared.'),
            trans.__('Your notebook is not touched.')
          ]}
          action={again}
        />
      ) : (
        <ErrorNotice error={failure} trans={trans} again={() => void verification.look()} />
      );
    case 'lost':
      return (
        <Notice
          kind="warning"
          actions={
            <button className="jp-mod-styled jp-mod-accept" onClick={again.run}>
              {trans.__('Verify again')}
            </button>
          }
        >
          {trans.__(
            'The report is not on the server any more: it restarted, or the report was older than an hour. The session is as it was. Nothing runs.'
          )}
        </Notice>
      );
    case 'stopped':
      return (
        <Notice
          kind="info"
          actions={
            <button className="jp-mod-styled jp-mod-accept" onClick={again.run}>
              {trans.__('Verify again')}
            </button>
          }
        >
          {verification.stoppedHere
            ? trans.__('Stopped. Its sandbox is gone, and your notebook was not touched.')
            : trans.__(
                'It was stopped, by somebody else or because the server ended. Its sandbox is gone, and your notebook was not touched.'
              )}
        </Notice>
      );
    case 'failed':
      return (
        <>
          <ErrorNotice
            error={failure ?? new Error(trans.__('It failed, and did not say why.'))}
            trans={trans}
            again={again.run}
          />
          <p className="jp-Reprise-secondary jp-Reprise-verify-none">
            {trans.__('Your notebook and its session are as they were.')}
          </p>
        </>
      );
    case 'done':
      return head === null ? <Loading trans={trans} /> : <Found head={head} />;
    default:
      return <Running />;
  }
}

function Running(): React.JSX.Element {
  const { verification, trans } = useVerify();
  const { progress, state, failure } = verification;
  const { done, total } = progress;
  const known = done !== null && total !== null && total > 0;
  const playing = known && done > 0;
  const words =
    state === 'queued'
      ? trans.__('Waiting for its turn. Your notebook is not touched.')
      : state === 'stopping'
        ? trans.__('Stopping: its sandbox still ends.')
        : playing
          ? trans.__(
              'Playing step %1 of %2. Your notebook is not touched.',
              Math.min(done + 1, total).toLocaleString(),
              total.toLocaleString()
            )
          : trans.__('%1 Your notebook is not touched.', sentence(progress.text));
  const counts = Object.values(progress.counts).some(each => each > 0);
  return (
    <div className="jp-Reprise-verify-running">
      <p role="status">{words}</p>
      <div
        className="jp-Reprise-verify-bar"
        role="progressbar"
        aria-label={trans.__('Verify')}
        aria-valuemin={0}
        aria-valuemax={total ?? 1}
        aria-valuenow={known ? done : undefined}
        aria-valuetext={words}
      >
        <div style={{ inlineSize: known ? `${(100 * done) / total}%` : 0 }} />
      </div>
      {counts && total !== null && (
        <p className="jp-Reprise-secondary">
          {trans.__('So far: %1', countsLine(done ?? 0, progress.counts, trans))}
        </p>
      )}
      {failure !== null && <ErrorNotice error={failure} trans={trans} />}
      <div className="jp-Reprise-actions">
        <button
          className="jp-mod-styled"
          disabled={state === 'stopping'}
          onClick={() => void verification.stop()}
        >
          {trans.__('Stop')}
        </button>
      </div>
    </div>
  );
}

function Found(props: { head: ReportHead }): React.JSX.Element {
  const { head } = props;
  const { verification, trans } = useVerify();
  const { newer, endedAt } = verification;
  return (
    <>
      <div className={`jp-Reprise-verify-head ${head.ok ? 'jp-mod-ok' : 'jp-mod-wrong'}`}>
        <p className="jp-Reprise-verify-counts">{countsLine(head.steps, head.counts, trans)}</p>
        <h2>{head.sentence}</h2>
        <Strip head={head} />
        <p className="jp-Reprise-secondary">
          {[
            head.from > 0 ? trans.__('From step %1 on', head.from) : '',
            head.replays > 1 ? trans.__('Played twice') : trans.__('Played once'),
            trans.__('in %1', duration(head.took_s, trans)),
            head.backend,
            endedAt === null ? '' : moment(endedAt)
          ]
            .filter(each => each !== '')
            .join(' · ')}
        </p>
        {newer !== null && newer > 0 && (
          <Notice kind="info">
            {trans._n(
              '%2 step came since, and is not in this report.',
              '%2 steps came since, and are not in this report.',
              newer,
              newer.toLocaleString()
            )}
          </Notice>
        )}
        <Acts head={head} />
      </div>
      <Steps head={head} />
      <States head={head} />
      <Notes head={head} />
    </>
  );
}

/** How much of it came out how. The words above say the same. */
function Strip(props: { head: ReportHead }): React.JSX.Element | null {
  const { head } = props;
  if (head.steps === 0) {
    return null;
  }
  return (
    <div className="jp-Reprise-verify-strip" aria-hidden="true">
      {VERDICTS.filter(verdict => (head.counts[verdict] ?? 0) > 0).map(verdict => (
        <span
          key={verdict}
          className={`jp-mod-${verdict.replace(/ /g, '-')}`}
          style={{ flexGrow: head.counts[verdict] }}
        />
      ))}
    </div>
  );
}

function Acts(props: { head: ReportHead }): React.JSX.Element {
  const { verification, trans } = useVerify();
  const [error, setError] = React.useState<unknown>(undefined);
  const [busy, setBusy] = React.useState(false);
  const save = async (form: 'html' | 'json'): Promise<void> => {
    setError(undefined);
    setBusy(true);
    try {
      const { name, data } = await verification.save(form);
      download(name, data);
    } catch (failed) {
      setError(failed);
    } finally {
      setBusy(false);
    }
  };
  const tooMany = props.head.page_bytes === null;
  return (
    <>
      <div className="jp-Reprise-actions">
        <button className="jp-mod-styled" onClick={() => void verification.begin()}>
          {trans.__('Verify again')}
        </button>
        <button
          className="jp-mod-styled"
          disabled={busy || tooMany}
          onClick={() => void save('html')}
        >
          {trans.__('Save as HTML')}
        </button>
        <button className="jp-mod-styled" disabled={busy} onClick={() => void save('json')}>
          {trans.__('Save as JSON')}
        </button>
      </div>
      {tooMany && (
        <p className="jp-Reprise-secondary">
          {trans.__(
            'Too many steps for one page here. `reprise verify --html FILE` in a terminal makes one.'
          )}
        </p>
      )}
      {error !== undefined && <ErrorNotice error={error} trans={trans} />}
    </>
  );
}

function Notes(props: { head: ReportHead }): React.JSX.Element | null {
  const { head } = props;
  const { trans } = useVerify();
  if (head.environment_changes.length + head.not_compared.length === 0) {
    return null;
  }
  return (
    <section aria-label={trans.__('Notes')}>
      <h3>{trans.__('Notes')}</h3>
      <ul className="jp-Reprise-verify-notes">
        {head.environment_changes.map((each, index) => (
          <li key={`e${index}`}>{trans.__('The environment is not the recorded one: %1', each)}</li>
        ))}
        {head.not_compared.map((each, index) => (
          <li key={`n${index}`}>{each}</li>
        ))}
      </ul>
    </section>
  );
}

/** Offered for saving, as a click on a link is. */
export function download(name: string, data: Blob): void {
  const address = URL.createObjectURL(data);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  document.body.appendChild(link);
  link.click();
  link.remove();
  // The browser has taken it by then.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** The server's words as a sentence: "starting a fresh sandbox …". */
function sentence(words: string): string {
  const plain = words.replace(/\s*…$/, '').trim();
  return plain === '' ? '' : `${plain.slice(0, 1).toUpperCase()}${plain.slice(1)}.`;
}
