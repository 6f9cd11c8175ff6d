// The files of a skill: all of them by path, the chosen one beside them, scripts to be run.

import * as React from 'react';

import { Empty, ErrorNotice, Loading } from '../parts/notices';
import { moved } from '../parts/roving';
import { count, exact, size } from '../parts/words';
import { useAsked } from '../parts/asked';
import { useSkills } from './context';
import { reference } from './names';
import { Preview } from './preview';
import { RunScript } from './run';
import { ISkills } from './tokens';

/** Files that are listed at first, and more each time. */
const STEP = 500;
/** Rows that Page Up and Page Down go by. */
const PAGE = 10;

export function Files(props: {
  named: ISkills.IName;
  digest: string;
  standing: ISkills.Standing;
  /** Which file is shown, and which line of it; changes when somebody follows a finding. */
  at: { path: string; line: number | null } | null;
}): React.JSX.Element {
  const { named, digest, standing, at } = props;
  const { skills, trans } = useSkills();
  const files = useAsked(`${reference(named)} ${digest}`, () => skills.files(named));
  const [chosen, choose] = React.useState<{ path: string; line: number | null } | null>(at);
  const [most, setMost] = React.useState(STEP);
  const list = React.useRef<HTMLDivElement>(null);
  React.useEffect(() => {
    if (at !== null) {
      choose(at);
    }
  }, [at]);

  if (files.value === undefined) {
    return files.error === undefined ? (
      <Loading trans={trans} rows={5} />
    ) : (
      <ErrorNotice error={files.error} trans={trans} again={files.again} />
    );
  }
  const all = files.value;
  if (all.length === 0) {
    return <Empty lines={[trans.__('It has no files.')]} />;
  }
  const file = all.find(each => each.path === chosen?.path) ?? all[0];
  const row = file === undefined ? 0 : all.indexOf(file);
  const go = (event: React.KeyboardEvent): void => {
    const to = moved(event.key, row, Math.min(all.length, most), PAGE);
    const found = to === null ? undefined : all[to];
    if (to !== null && found !== undefined) {
      event.preventDefault();
      choose({ path: found.path, line: null });
      list.current?.querySelector<HTMLElement>(`[data-row="${to}"]`)?.focus();
    }
  };
  return (
    <div className="jp-Reprise-skill-split">
      <div className="jp-Reprise-skill-side">
        <p className="jp-Reprise-secondary">
          {trans._n('%2 file', '%2 files', all.length, count(all.length))}
          {', '}
          {size(all.reduce((total, each) => total + each.size, 0))}
        </p>
        <div
          role="listbox"
          aria-label={trans.__('Files')}
          className="jp-Reprise-skill-paths"
          ref={list}
          onKeyDown={go}
        >
          {all.slice(0, most).map((each, index) => (
            <div
              key={each.path}
              role="option"
              className="jp-Reprise-skill-path"
              data-row={index}
              aria-selected={index === row}
              tabIndex={index === row ? 0 : -1}
              onClick={() => choose({ path: each.path, line: null })}
            >
              <span className="jp-Reprise-skill-file" title={exact(each.path)}>
                {exact(each.path)}
              </span>
              {each.executable && (
                <span className="jp-Reprise-skill-runs">{trans.__('can run')}</span>
              )}
              <span className="jp-Reprise-secondary">{size(each.size)}</span>
            </div>
          ))}
        </div>
        {all.length > most && (
          <button type="button" className="jp-mod-styled" onClick={() => setMost(most + STEP)}>
            {trans.__('Show more')}
          </button>
        )}
      </div>
      <div className="jp-Reprise-skill-main">
        {file && (
          <>
            {file.executable && (
              <RunScript
                key={file.path}
                reference={reference(named)}
                script={file.path}
                standing={standing}
              />
            )}
            <Preview
              named={named}
              file={file}
              line={chosen?.path === file.path ? chosen.line : null}
            />
          </>
        )}
      </div>
    </div>
  );
}
