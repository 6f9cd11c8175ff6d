// Asking before an act on a version: what exactly it is about, for whom, why; then the decision frame.

import { Dialog, ReactWidget, showDialog } from '@jupyterlab/apputils';
import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ApiError } from '../api/tokens';
import { ErrorNotice } from '../parts/notices';
import { count, exact, size } from '../parts/words';
import { Act, Context, IContext, useSkills } from './context';
import { nameOf, reference, short } from './names';
import { ISkills } from './tokens';
import { scope as scopeWord } from './words';

/** Files that are named in the dialog at once; it scrolls. */
const MOST_FILES = 1_000;
const MOST_REASON = 4_000;

/** What was said in the dialog. */
interface ISaid {
  scope: string;
  reason: string;
}

/** Acts that are of a content in a scope that is chosen. */
const CHOOSES: ReadonlySet<Act> = new Set(['trust', 'distrust', 'revoke', 'reinstate']);
/** Acts with a reason that others read. */
const REASONS: ReadonlySet<Act> = new Set([
  'trust',
  'revoke',
  'reinstate',
  'distrust',
  'deprecate'
]);

/**
 * Ask, and do it. Resolves when it was done, or when the person changed their mind; what failed is
 * shown.
 */
export async function judge(context: IContext, act: Act, version: ISkills.Version): Promise<void> {
  const { skills, trans, announcer } = context;
  try {
    const about = await lookedAt(skills, act, version);
    const said: ISaid = { scope: 'personal', reason: '' };
    const closing: { close: (() => void) | null } = { close: null };
    const body = ReactWidget.create(
      <Context.Provider value={context}>
        <Question about={about} said={said} diff={() => closing.close?.()} />
      </Context.Provider>
    );
    body.addClass('jp-Reprise');
    const label = pressing(act, version, trans);
    const dialog = new Dialog({
      title: asking(act, version, trans),
      body,
      // Enter in a field is no press.
      defaultButton: 0,
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        act === 'revoke' || act === 'distrust'
          ? Dialog.warnButton({ label })
          : Dialog.okButton({ label })
      ]
    });
    dialog.addClass('jp-Reprise-skill-dialog');
    closing.close = () => dialog.reject();
    const { button } = await dialog.launch();
    if (!button.accept) {
      return;
    }
    await done(skills, act, version, said);
    announcer.polite(trans.__('Done: %1 v%2', version.name, version.number));
  } catch (error) {
    await failed(error, context);
  }
}

/** Show what went wrong; that somebody changed their mind is nothing to be told. */
export async function failed(error: unknown, context: IContext): Promise<void> {
  if (error instanceof ApiError && (error.code === 'cancelled' || error.code === 'decided')) {
    return;
  }
  const { trans } = context;
  const body = ReactWidget.create(<ErrorNotice error={error} trans={trans} />);
  body.addClass('jp-Reprise');
  await showDialog({
    title: trans.__('It was not done'),
    body,
    buttons: [Dialog.okButton({ label: trans.__('Close') })]
  });
}

/** What a person should see of a version before deciding about it. */
interface IAbout {
  readonly act: Act;
  readonly version: ISkills.Version;
  readonly files: readonly ISkills.File[];
  /** The version that it is compared with, and how many files differ. */
  readonly since: { readonly version: ISkills.Version; readonly files: number } | null;
  /** Of the uses of this version. */
  readonly sessions: number;
  readonly scopes: readonly string[];
}

async function lookedAt(skills: ISkills, act: Act, version: ISkills.Version): Promise<IAbout> {
  const named = nameOf(version);
  const judged = CHOOSES.has(act);
  const [files, versions, usage, roles] = await Promise.all([
    act === 'trust' ? skills.files(named) : [],
    act === 'trust' ? skills.versions(named) : [],
    act === 'revoke' ? skills.usage(named) : [],
    judged ? skills.scopes() : []
  ]);
  const older = versions.filter(each => each.number < version.number);
  const before = older.find(each => each.standing === 'trusted') ?? older[0];
  const since =
    before === undefined
      ? null
      : {
          version: before,
          files: (await skills.differences(before.reference, version.reference)).total
        };
  const reviewed = roles.filter(
    each => each.scope !== 'personal' && (each.role === 'reviewer' || each.role === 'admin')
  );
  return {
    act,
    version,
    files,
    since,
    sessions: usage.find(each => each.digest === version.digest)?.sessions ?? 0,
    scopes: [
      'personal',
      ...reviewed
        .map(each => each.scope)
        // Trust for others is of what stands among them; a content is taken back wherever it stands.
        .filter(each => act === 'revoke' || act === 'reinstate' || each === version.scope)
    ]
  };
}

async function done(
  skills: ISkills,
  act: Act,
  version: ISkills.Version,
  { scope, reason }: ISaid
): Promise<void> {
  switch (act) {
    case 'trust':
    case 'distrust':
    case 'revoke':
    case 'reinstate':
      await skills[act](version, scope, reason);
      return;
    case 'release':
    case 'restore':
      await skills[act](version);
      return;
    case 'deprecate':
      await skills.deprecate(version, reason);
      return;
    case 'undeprecate':
      await skills.deprecate(version, '', true);
  }
}

type Words = IContext['trans'];

function asking(act: Act, { name, number }: ISkills.Version, trans: Words): string {
  switch (act) {
    case 'trust':
      return trans.__('Trust %1 v%2?', name, number);
    case 'distrust':
      return trans.__('Take back the trust in %1 v%2?', name, number);
    case 'revoke':
      return trans.__('Revoke %1 v%2?', name, number);
    case 'reinstate':
      return trans.__('Reinstate %1 v%2?', name, number);
    case 'release':
      return trans.__('Release %1 v%2?', name, number);
    case 'restore':
      return trans.__('Restore %1 v%2?', name, number);
    case 'deprecate':
      return trans.__('Deprecate %1 v%2?', name, number);
    case 'undeprecate':
      return trans.__('Undo the deprecation of %1 v%2?', name, number);
  }
}

function pressing(act: Act, { number }: ISkills.Version, trans: Words): string {
  switch (act) {
    case 'trust':
      return trans.__('Trust v%1', number);
    case 'distrust':
      return trans.__('Take back');
    case 'revoke':
      return trans.__('Revoke v%1', number);
    case 'reinstate':
      return trans.__('Reinstate v%1', number);
    case 'release':
      return trans.__('Release v%1', number);
    case 'restore':
      return trans.__('Restore v%1', number);
    case 'deprecate':
      return trans.__('Deprecate v%1', number);
    case 'undeprecate':
      return trans.__('Undo');
  }
}

function Question(props: { about: IAbout; said: ISaid; diff: () => void }): React.JSX.Element {
  const { about, said, diff } = props;
  const { trans } = useSkills();
  const { act, version, scopes } = about;
  const [scope, setScope] = React.useState('personal');
  return (
    <div className="jp-Reprise-skill-question">
      {act === 'trust' ? <Exactly about={about} diff={diff} /> : <Meaning about={about} />}
      {CHOOSES.has(act) && (
        <label className="jp-Reprise-skill-for">
          {trans.__('For')}
          {scopes.length === 1 ? (
            <span>{trans.__('yourself')}</span>
          ) : (
            <HTMLSelect
              value={scope}
              aria-label={trans.__('For whom')}
              onChange={event => {
                said.scope = event.currentTarget.value;
                setScope(said.scope);
              }}
              options={scopes.map(each => ({
                value: each,
                label: each === 'personal' ? trans.__('yourself') : scopeWord(each, trans)
              }))}
            />
          )}
        </label>
      )}
      {act === 'trust' && scope !== 'personal' && (
        <p className="jp-Reprise-secondary">
          {trans.__('Everybody in that scope may run it; whoever added it cannot decide this.')}
        </p>
      )}
      {REASONS.has(act) && (
        <label className="jp-Reprise-skill-why">
          {trans.__('Reason')}
          <textarea
            className="jp-mod-styled"
            rows={2}
            maxLength={MOST_REASON}
            placeholder={trans.__('others read it')}
            onChange={event => {
              said.reason = event.target.value;
            }}
          />
        </label>
      )}
      {(act === 'release' || act === 'restore' || act === 'trust' || act === 'reinstate') && (
        <p className="jp-Reprise-secondary">
          {trans.__(
            '%1 (sha256 %2) is then pressed in a frame of its own.',
            version.reference,
            short(version.digest)
          )}
        </p>
      )}
    </div>
  );
}

/** Trust is of exactly these files. */
function Exactly(props: { about: IAbout; diff: () => void }): React.JSX.Element {
  const { version, files, since } = props.about;
  const { trans, open } = useSkills();
  const run = files.filter(each => each.executable).length;
  return (
    <>
      <p>
        {trans._n(
          'Exactly this %2 file, sha256 %3;',
          'Exactly these %2 files, sha256 %3;',
          files.length,
          count(files.length),
          short(version.digest)
        )}{' '}
        {trans.__('%1 can run in the sandbox.', count(run))}
      </p>
      <ul className="jp-Reprise-skill-exactly" tabIndex={0} aria-label={trans.__('Its files')}>
        {files.slice(0, MOST_FILES).map(each => (
          <li key={each.path}>
            <span className="jp-Reprise-skill-file">{exact(each.path)}</span>
            {each.executable && (
              <span className="jp-Reprise-skill-runs">{trans.__('can run')}</span>
            )}
            <span className="jp-Reprise-secondary">{size(each.size)}</span>
          </li>
        ))}
        {files.length > MOST_FILES && (
          <li>{trans.__('and %1 more', count(files.length - MOST_FILES))}</li>
        )}
      </ul>
      <p className="jp-Reprise-skill-digest">
        sha256 <code>{version.digest}</code>
      </p>
      <p>
        {since !== null && (
          <>
            {trans._n(
              'Changed since v%3: %2 file',
              'Changed since v%3: %2 files',
              since.files,
              count(since.files),
              since.version.number
            )}{' '}
            {since.files > 0 && (
              <button
                type="button"
                className="jp-mod-styled"
                onClick={() => {
                  props.diff();
                  open.skill({
                    ...nameOf(version),
                    view: 'versions',
                    since: since.version.number
                  });
                }}
              >
                {trans.__('Diff')}
              </button>
            )}
            {since.files > 0 ? ' ' : '. '}
          </>
        )}
        {trans.__('Any change asks again.')}
      </p>
    </>
  );
}

function Meaning(props: { about: IAbout }): React.JSX.Element {
  const { act, version, sessions } = props.about;
  const { trans } = useSkills();
  const where = scopeWord(version.scope, trans);
  const said: Partial<Record<Act, string>> = {
    distrust: trans.__(
      'It can still be read. It runs only where there is no network, until somebody trusts it again.'
    ),
    revoke:
      sessions > 0
        ? trans._n(
            'No new mounts. %2 session used it; it goes on and is marked.',
            'No new mounts. %2 sessions used it; they go on and are marked.',
            sessions,
            count(sessions)
          )
        : trans.__('No new mounts. No session has used it. Nothing is deleted.'),
    reinstate: trans.__('It can be mounted again, as far as somebody trusts it.'),
    release:
      version.scope === 'personal'
        ? trans.__('Others\u2019 tools get it when you publish. Nobody else gets it here.')
        : trans.__('Everybody in %1 gets it from now on.', where),
    restore: trans.__(
      'Its content becomes the newest version of %1. No version goes away.',
      reference({ skill: version.name, scope: version.scope })
    ),
    deprecate: trans.__('It stays, and is marked as better not used any more.'),
    undeprecate: trans.__('The mark goes away.')
  };
  return <p>{said[act]}</p>;
}
