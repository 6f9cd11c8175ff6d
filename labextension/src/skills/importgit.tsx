// Skills of a Git repository: an address, a job with its progress, what became of it.

import * as React from 'react';

import { ErrorNotice } from '../parts/notices';
import { exact } from '../parts/words';
import { useSkills } from './context';
import { failureOf, IOutcome, outcomes } from './importing';
import { ISkills } from './tokens';

export function Git(props: { done: (outcomes: readonly IOutcome[]) => void }): React.JSX.Element {
  const { skills, trans } = useSkills();
  const [source, setSource] = React.useState('');
  const [ref, setRef] = React.useState('');
  const [subfolder, setSubfolder] = React.useState('');
  const [job, setJob] = React.useState<ISkills.Job | null>(null);
  const [error, setError] = React.useState<unknown>(undefined);
  const [busy, setBusy] = React.useState(false);
  const here = React.useRef(true);
  React.useEffect(() => {
    here.current = true;
    return () => {
      here.current = false;
    };
  }, []);
  const fetch_ = async (): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      let now = await skills.importGit(source.trim(), ref.trim(), subfolder.trim());
      while (here.current && (now.state === 'queued' || now.state === 'running')) {
        setJob(now);
        now = await skills.job(now.id, now.version);
      }
      if (!here.current) {
        return;
      }
      if (now.state === 'done') {
        props.done(outcomes(await skills.imported(now.id)));
      } else {
        setError(new Error(failureOf(now) ?? trans.__('It was cancelled. Nothing was added.')));
      }
    } catch (failed) {
      setError(failed);
    } finally {
      if (here.current) {
        setJob(null);
        setBusy(false);
      }
    }
  };
  const field = (
    label: string,
    value: string,
    set: (text: string) => void,
    placeholder: string
  ): React.JSX.Element => (
    <label>
      {label}
      <input
        type="text"
        className="jp-mod-styled"
        value={value}
        placeholder={placeholder}
        spellCheck={false}
        onChange={event => set(event.target.value)}
      />
    </label>
  );
  return (
    <section aria-label={trans.__('From Git')}>
      <h3>{trans.__('From Git')}</h3>
      <form
        onSubmit={event => {
          event.preventDefault();
          void fetch_();
        }}
      >
        {field(trans.__('Address'), source, setSource, 'https://example.org/team/skills.git')}
        <div className="jp-Reprise-skill-choices">
          {field(trans.__('Branch, tag or commit'), ref, setRef, trans.__('the default branch'))}
          {field(trans.__('Folder'), subfolder, setSubfolder, trans.__('all of it'))}
        </div>
        {error !== undefined && <ErrorNotice error={error} trans={trans} />}
        <div className="jp-Reprise-actions">
          <button
            type="submit"
            className="jp-mod-styled jp-mod-accept"
            disabled={busy || !source.trim().startsWith('https://')}
          >
            {trans.__('Import from Git')}
          </button>
          {job !== null && (
            <>
              <span role="status">{exact(job.progress.text || trans.__('Waiting…'))}</span>
              <button
                type="button"
                className="jp-mod-styled"
                onClick={() => void skills.cancelJob(job.id).catch(setError)}
              >
                {trans.__('Cancel')}
              </button>
            </>
          )}
        </div>
        {source.trim() !== '' && !source.trim().startsWith('https://') && (
          <p className="jp-Reprise-secondary">
            {trans.__(
              'An address begins with https:// here. Others go by `reprise skills import`.'
            )}
          </p>
        )}
      </form>
    </section>
  );
}
