// Running a script of a skill as a step of the current notebook's session, with what it shows.

import * as React from 'react';

import { ErrorNotice, Notice } from '../parts/notices';
import { exact } from '../parts/words';
import type { INotebookSession, ISessions } from '../sessions/tokens';
import { argumentsOf } from './arguments';
import { useSkills } from './context';
import { failureOf } from './importing';
import { ISkills } from './tokens';

// eslint-disable-next-line no-control-regex -- colours of a terminal are what is meant
const COLOURS = /\u001b\[[0-9;]*m/g;
/** Characters of output that are kept here; the step's record has all. */
const MOST_SHOWN = 100_000;

interface IRun {
  readonly session: string;
  readonly job: ISkills.Job;
  readonly shown: string;
}

export function RunScript(props: {
  reference: string;
  script: string;
  standing: ISkills.Standing;
}): React.JSX.Element {
  const { trans, sessions } = useSkills();
  const session = useCurrent(sessions);
  if (sessions === null) {
    return <NoSession />;
  }
  if (props.standing === 'revoked') {
    return (
      <Notice kind="warning">
        {trans.__('It was revoked, so it is mounted and run nowhere any more.')}
      </Notice>
    );
  }
  return session?.id ? (
    <Runner {...props} session={session.id} notebook={session.path} />
  ) : (
    <NoSession />
  );
}

/** The current notebook's session; drawn anew when that, its id (a rewind) or its path changes. */
function useCurrent(sessions: ISessions | null): INotebookSession | null {
  const [, redraw] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    let followed: INotebookSession | null = null;
    const follow = (): void => {
      followed?.statusChanged.disconnect(redraw);
      followed = sessions?.current ?? null;
      followed?.statusChanged.connect(redraw);
      redraw();
    };
    follow();
    sessions?.currentChanged.connect(follow);
    return () => {
      sessions?.currentChanged.disconnect(follow);
      followed?.statusChanged.disconnect(redraw);
    };
  }, [sessions]);
  return sessions?.current ?? null;
}

function NoSession(): React.JSX.Element {
  const { trans } = useSkills();
  return (
    <p className="jp-Reprise-secondary">
      {trans.__('To run it, open a notebook with a Reprise kernel: it runs there, as a step.')}
    </p>
  );
}

function Runner(props: {
  reference: string;
  script: string;
  standing: ISkills.Standing;
  session: string;
  notebook: string;
}): React.JSX.Element {
  const { reference, script, standing, session, notebook } = props;
  const { skills, trans, open, announcer } = useSkills();
  const [given, setGiven] = React.useState('');
  const [run, setRun] = React.useState<IRun | null>(null);
  const [error, setError] = React.useState<unknown>(undefined);
  const [busy, setBusy] = React.useState(false);
  const here = React.useRef(true);
  React.useEffect(() => {
    here.current = true;
    return () => {
      here.current = false;
    };
  }, []);

  const args = argumentsOf(given);
  const start = async (): Promise<void> => {
    if (typeof args === 'string') {
      return;
    }
    setBusy(true);
    setError(undefined);
    setRun(null);
    try {
      let job = await skills.run(session, reference, script, args);
      let shown = '';
      let after = -1;
      while (here.current) {
        setRun({ session, job, shown });
        const more = await skills.outputs(job.id, after);
        after = more.next;
        shown = (shown + more.text).slice(-MOST_SHOWN);
        setRun({ session, job, shown });
        if (more.ended) {
          job = await skills.job(job.id);
          break;
        }
      }
      if (here.current) {
        setRun({ session, job, shown });
        announcer.polite(
          job.state === 'done' ? trans.__('The script has ended.') : trans.__('The script failed.')
        );
      }
    } catch (failed) {
      setError(failed);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      className="jp-Reprise-skill-run"
      onSubmit={event => {
        event.preventDefault();
        void start();
      }}
    >
      <label>
        {trans.__('Arguments')}
        <input
          type="text"
          className="jp-mod-styled"
          value={given}
          spellCheck={false}
          placeholder={trans.__('as in a shell: %1', '{workspace}/data.csv --rows 5')}
          onChange={event => setGiven(event.target.value)}
        />
      </label>
      <button type="submit" className="jp-mod-styled" disabled={busy || typeof args === 'string'}>
        {busy ? trans.__('Running…') : trans.__('Run as a step')}
      </button>
      {busy && run && (
        <button
          type="button"
          className="jp-mod-styled jp-mod-warn"
          onClick={() => void skills.cancelJob(run.job.id).catch(setError)}
        >
          {trans.__('Interrupt')}
        </button>
      )}
      <p className="jp-Reprise-secondary">
        {typeof args === 'string'
          ? trans.__('The quote %1 is not closed.', args)
          : standing === 'untrusted'
            ? trans.__(
                'It runs in the session of %1. Nobody has approved it: only where there is no network, and what is shown afterwards is static.',
                exact(notebook)
              )
            : trans.__('It runs in the session of %1, on its files.', exact(notebook))}
      </p>
      {error !== undefined && <ErrorNotice error={error} trans={trans} />}
      {run && <Outcome run={run} busy={busy} step={open.step} />}
    </form>
  );
}

function Outcome(props: {
  run: IRun;
  busy: boolean;
  step: (session: string, seq: number) => boolean;
}): React.JSX.Element {
  const { run, busy, step } = props;
  const { trans } = useSkills();
  const summary = (run.job.summary ?? {}) as Readonly<Record<string, unknown>>;
  const seq = typeof summary.seq === 'number' ? summary.seq : null;
  const outcome = typeof summary.outcome === 'string' ? summary.outcome : null;
  return (
    <div className="jp-Reprise-skill-outcome">
      {run.shown !== '' && (
        <pre
          className="jp-Reprise-skill-source"
          tabIndex={0}
          role="region"
          aria-label={trans.__('What it shows')}
        >
          {exact(run.shown.replace(COLOURS, ''))}
        </pre>
      )}
      <p role="status">
        {busy
          ? exact(run.job.progress.text || trans.__('Running…'))
          : run.job.error
            ? exact(failureOf(run.job) ?? run.job.state)
            : outcome === 'ok'
              ? trans.__('It ended well.')
              : trans.__('It ended: %1.', exact(outcome ?? run.job.state))}{' '}
        {!busy && seq !== null && (
          <button type="button" className="jp-mod-styled" onClick={() => step(run.session, seq)}>
            {trans.__('Step %1', seq)}
          </button>
        )}
      </p>
    </div>
  );
}
