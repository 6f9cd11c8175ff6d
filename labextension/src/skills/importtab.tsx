// Bringing skills in: dropped or picked files and a Git address; looked at first, then added by choice.

import * as React from 'react';

import { ErrorNotice, Loading, Notice } from '../parts/notices';
import { count, exact } from '../parts/words';
import { IContext, useSkills } from './context';
import { filesOfDrop, filesOfInput, IFound, IUpload, uploadsOf } from './dropped';
import { Git } from './importgit';
import { Candidate, candidates, chosenNames, IOutcome, outcomes } from './importing';
import { short } from './names';
import { WideTab } from './wide';

/** Files that are named as not taken. */
const MOST_NAMED = 50;

export class ImportTab extends WideTab {
  constructor(context: IContext) {
    super(context, ImportTab.ID, context.trans.__('Import skills'));
  }

  static readonly ID = 'jp-reprise-skill-import';

  /** Looks at what was dropped elsewhere. */
  look(dropped: Promise<readonly IFound[]>): void {
    this._dropped = dropped;
    this.update();
  }

  protected override body(): React.JSX.Element {
    return <Import dropped={this._dropped} />;
  }

  private _dropped: Promise<readonly IFound[]> | null = null;
}

interface ILooked {
  readonly upload: IUpload;
  readonly found: readonly Candidate[];
  readonly error: unknown;
}

function Import(props: { dropped: Promise<readonly IFound[]> | null }): React.JSX.Element {
  const { skills, trans } = useSkills();
  const [looked, setLooked] = React.useState<readonly ILooked[] | null>(null);
  const [busy, setBusy] = React.useState<string | null>(null);
  const [done, setDone] = React.useState<readonly IOutcome[] | null>(null);
  const [error, setError] = React.useState<unknown>(undefined);
  // What was dropped last is what is shown, however long what came before is looked at.
  const turn = React.useRef(0);

  const look = React.useCallback(
    async (files: Promise<readonly IFound[]>): Promise<void> => {
      const mine = ++turn.current;
      setError(undefined);
      setDone(null);
      setLooked(null);
      setBusy(trans.__('Looking at what was dropped…'));
      try {
        const uploads = await uploadsOf(await files, trans);
        const all: ILooked[] = [];
        for (const upload of uploads) {
          if (upload.archive.size === 0) {
            all.push({ upload, found: [], error: new Error(trans.__('It is empty.')) });
            continue;
          }
          try {
            const checked = await skills.checkArchive(upload.archive, upload.filename);
            all.push({ upload, found: candidates(checked), error: undefined });
          } catch (failed) {
            all.push({ upload, found: [], error: failed });
          }
        }
        if (mine === turn.current) {
          setLooked(all);
        }
      } catch (failed) {
        if (mine === turn.current) {
          setError(failed);
        }
      } finally {
        if (mine === turn.current) {
          setBusy(null);
        }
      }
    },
    [skills, trans]
  );
  React.useEffect(() => {
    if (props.dropped !== null) {
      void look(props.dropped);
    }
  }, [props.dropped, look]);

  const add = async (chosen: ReadonlySet<string>): Promise<void> => {
    const mine = ++turn.current;
    setBusy(trans.__('Adding…'));
    setError(undefined);
    const all: IOutcome[] = [];
    try {
      for (const [index, { upload, found }] of (looked ?? []).entries()) {
        const names = chosenNames(found, index, chosen);
        if (names !== null) {
          all.push(...outcomes(await skills.addArchive(upload.archive, upload.filename, names)));
        }
      }
    } catch (failed) {
      setError(failed);
    } finally {
      if (mine === turn.current) {
        setBusy(null);
        setDone(all);
        setLooked(null);
      }
    }
  };

  return (
    <div
      className="jp-Reprise-skill-body jp-Reprise-skill-import"
      role="region"
      aria-label={trans.__('Import skills')}
    >
      <h2>{trans.__('Import skills')}</h2>
      {error !== undefined && <ErrorNotice error={error} trans={trans} />}
      {busy !== null ? (
        <>
          <p role="status">{busy}</p>
          <Loading trans={trans} />
        </>
      ) : done !== null ? (
        <Done outcomes={done} more={() => setDone(null)} />
      ) : looked !== null ? (
        <Choose looked={looked} add={add} back={() => setLooked(null)} />
      ) : (
        <>
          <Pick look={look} />
          <Git
            done={found => {
              setError(undefined);
              setDone(found);
            }}
          />
        </>
      )}
    </div>
  );
}

function Pick(props: {
  look: (files: Promise<readonly IFound[]>) => Promise<void>;
}): React.JSX.Element {
  const { trans } = useSkills();
  const files = React.useRef<HTMLInputElement>(null);
  const folder = React.useRef<HTMLInputElement>(null);
  React.useEffect(() => {
    // React knows no such attribute.
    folder.current?.setAttribute('webkitdirectory', '');
  }, []);
  const picked = (event: React.ChangeEvent<HTMLInputElement>): void => {
    if (event.target.files?.length) {
      void props.look(Promise.resolve(filesOfInput(event.target.files)));
    }
  };
  return (
    <section
      className="jp-Reprise-skill-drop"
      aria-label={trans.__('From this computer')}
      onDragOver={event => event.preventDefault()}
      onDrop={event => {
        event.preventDefault();
        event.stopPropagation();
        void props.look(filesOfDrop(event.dataTransfer));
      }}
    >
      <h3>{trans.__('From this computer')}</h3>
      <p>
        {trans.__(
          'Drop a folder or an archive here (zip, .skill, tar, tar.gz, tar.zst). It may hold several skills.'
        )}
      </p>
      <div className="jp-Reprise-actions">
        <button type="button" className="jp-mod-styled" onClick={() => folder.current?.click()}>
          {trans.__('Choose a folder…')}
        </button>
        <button type="button" className="jp-mod-styled" onClick={() => files.current?.click()}>
          {trans.__('Choose an archive…')}
        </button>
      </div>
      <input ref={folder} type="file" hidden onChange={picked} aria-hidden="true" />
      <input ref={files} type="file" multiple hidden onChange={picked} aria-hidden="true" />
      <p className="jp-Reprise-secondary">
        {trans.__('Nothing of it is run. What comes is a draft of yours that nobody trusts yet.')}
      </p>
    </section>
  );
}

function Choose(props: {
  looked: readonly ILooked[];
  add: (chosen: ReadonlySet<string>) => Promise<void>;
  back: () => void;
}): React.JSX.Element {
  const { looked, add, back } = props;
  const { trans } = useSkills();
  const all = looked.flatMap(({ found }, index) =>
    found.filter(each => each.why_not === null).map(each => `${index} ${each.name}`)
  );
  const [chosen, choose] = React.useState<ReadonlySet<string>>(new Set(all));
  const toggle = (key: string): void => {
    const next = new Set(chosen);
    if (!next.delete(key)) {
      next.add(key);
    }
    choose(next);
  };
  return (
    <>
      {looked.map(({ upload, found, error }, index) => (
        <section key={index} aria-label={exact(upload.filename)}>
          <h3>{exact(upload.filename)}</h3>
          {error !== undefined && <ErrorNotice error={error} trans={trans} />}
          {error === undefined && found.length === 0 && (
            <Notice kind="warning">
              {trans.__('No skill was found in it: a skill is a folder with a SKILL.md.')}
            </Notice>
          )}
          <ul className="jp-Reprise-skill-candidates">
            {found.map((each, at) => {
              const key = `${index} ${each.name}`;
              return (
                <li key={at}>
                  {each.why_not === null ? (
                    <label>
                      <input
                        type="checkbox"
                        checked={chosen.has(key)}
                        onChange={() => toggle(key)}
                      />
                      <strong>{exact(each.name)}</strong>
                      {each.digest && <code>{short(each.digest)}</code>}
                      <span className="jp-Reprise-secondary">
                        {each.errors + each.warnings === 0
                          ? trans.__('keeps to every rule')
                          : trans.__(
                              '%1 errors, %2 warnings of the check',
                              each.errors,
                              each.warnings
                            )}
                      </span>
                    </label>
                  ) : (
                    <Notice kind="error">
                      <strong>{exact(each.folder || each.name)}</strong>: {exact(each.why_not)}
                    </Notice>
                  )}
                </li>
              );
            })}
          </ul>
          {upload.notTaken.length > 0 && (
            <details>
              <summary>
                {trans._n(
                  '%2 file is not taken',
                  '%2 files are not taken',
                  upload.notTaken.length,
                  count(upload.notTaken.length)
                )}
              </summary>
              <ul>
                {upload.notTaken.slice(0, MOST_NAMED).map(each => (
                  <li key={each.path}>
                    <code>{exact(each.path)}</code>: {each.why}
                  </li>
                ))}
              </ul>
              {upload.notTaken.length > MOST_NAMED && (
                <p>{trans.__('and %1 more', count(upload.notTaken.length - MOST_NAMED))}</p>
              )}
            </details>
          )}
        </section>
      ))}
      <div className="jp-Reprise-actions">
        <button type="button" className="jp-mod-styled" onClick={back}>
          {trans.__('Back')}
        </button>
        <button
          type="button"
          className="jp-mod-styled jp-mod-accept"
          disabled={chosen.size === 0}
          onClick={() => void add(chosen)}
        >
          {trans._n('Add %1 skill', 'Add %1 skills', chosen.size)}
        </button>
      </div>
    </>
  );
}

function Done(props: { outcomes: readonly IOutcome[]; more: () => void }): React.JSX.Element {
  const { outcomes: all, more } = props;
  const { trans, open } = useSkills();
  const words: Record<IOutcome['what'], string> = {
    new: trans.__('added'),
    changed: trans.__('added as a new version'),
    unchanged: trans.__('was there already'),
    refused: trans.__('not taken')
  };
  return (
    <section aria-label={trans.__('What became of it')}>
      <div role="status">
        <ul className="jp-Reprise-skill-candidates">
          {all.length === 0 && <li>{trans.__('Nothing was added.')}</li>}
          {all.map((each, index) => (
            <li key={index}>
              {each.named === null ? (
                <strong>{exact(each.name)}</strong>
              ) : (
                <button
                  type="button"
                  className="jp-Reprise-link"
                  onClick={() => each.named && open.skill(each.named)}
                >
                  {exact(each.name)}
                </button>
              )}{' '}
              {words[each.what]}
              {each.problem !== null && `: ${exact(each.problem)}`}
              {each.notes.map(note => (
                <p key={note} className="jp-Reprise-secondary">
                  {exact(note)}
                </p>
              ))}
            </li>
          ))}
        </ul>
      </div>
      <div className="jp-Reprise-actions">
        <button type="button" className="jp-mod-styled" onClick={more}>
          {trans.__('Import more')}
        </button>
      </div>
    </section>
  );
}
