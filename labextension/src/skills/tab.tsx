// A skill's tab: what it is and how it stands, its five views, and what can be done with it.

import { Signal } from '@lumino/signaling';
import * as React from 'react';

import { copyText } from '../parts/clipboard';
import { ConnectionNotice, ErrorNotice, Loading, Notice } from '../parts/notices';
import { exact, moment } from '../parts/words';
import { useAsked } from '../parts/asked';
import { useChanges } from './changing';
import { StandingBadge, StateBadges } from './badges';
import { Act, IContext, IOpening, offline, useSkills, View } from './context';
import { Files } from './files';
import { Findings } from './findings';
import { bare, nameOf, reference } from './names';
import { Read } from './read';
import { panelId, tabId, Tabs } from './tabs';
import { ISkills } from './tokens';
import { Usage } from './usage';
import { Versions } from './versions';
import { WideTab } from './wide';
import { number, origin, scope } from './words';

export class SkillTab extends WideTab {
  constructor(context: IContext, opening: IOpening) {
    super(context, SkillTab.idOf(opening), bare(opening));
    this._opening = opening;
    this.title.caption = reference(opening);
  }

  /** One tab for a skill in a scope, whichever version it shows. */
  static idOf(opening: ISkills.IName): string {
    return `jp-reprise-skill-${(opening.scope ?? 'nearest').replace('/', '-')}-${bare(opening).replace(':', '-')}`;
  }

  get opening(): IOpening {
    return this._opening;
  }

  /** Shows another version or view. */
  reopen(opening: IOpening): void {
    this._opening = opening;
    this.title.caption = reference(opening);
    this._opened.emit();
  }

  protected override body(): React.JSX.Element {
    return <Body tab={this} opened={this._opened} />;
  }

  private _opening: IOpening;
  private readonly _opened = new Signal<this, void>(this);
}

function Body(props: { tab: SkillTab; opened: Signal<SkillTab, void> }): React.JSX.Element {
  const { tab, opened } = props;
  const { skills, api, trans } = useSkills();
  const [opening, setOpening] = React.useState(tab.opening);
  React.useEffect(() => {
    const show = (): void => setOpening(tab.opening);
    opened.connect(show);
    return () => {
      opened.disconnect(show);
    };
  }, [tab, opened]);
  const { skill, scope: where } = opening;
  const named = React.useMemo(
    () => (where === undefined ? { skill } : { skill, scope: where }),
    [skill, where]
  );
  const shown = useAsked(reference(named), () => skills.show(named));
  useChanges(
    skills,
    change => change.name === undefined || change.name === bare(named),
    shown.again
  );
  return (
    <div
      className="jp-Reprise-skill-body"
      role="region"
      aria-label={trans.__('Skill %1', bare(named))}
    >
      <ConnectionNotice connection={api.connection} trans={trans} />
      {shown.value === undefined ? (
        shown.error === undefined ? (
          <Loading trans={trans} rows={5} />
        ) : (
          <ErrorNotice error={shown.error} trans={trans} again={shown.again} />
        )
      ) : (
        <>
          {shown.error !== undefined && !offline(shown.error) && (
            <ErrorNotice error={shown.error} trans={trans} again={shown.again} />
          )}
          <Shown named={named} shown={shown.value} opening={opening} group={tab.id} />
        </>
      )}
    </div>
  );
}

function Shown(props: {
  named: ISkills.IName;
  shown: ISkills.IShown;
  opening: IOpening;
  group: string;
}): React.JSX.Element {
  const { shown, opening, group } = props;
  const { skills, trans } = useSkills();
  const { version, skill, standing } = shown;
  // What a name without a number leads to may be another one by the next request.
  const named = React.useMemo(
    () => (version === null ? props.named : nameOf(version)),
    [version, props.named]
  );
  const [view, setView] = React.useState<View>(opening.view ?? 'read');
  const [at, setAt] = React.useState<{ path: string; line: number | null } | null>(null);
  React.useEffect(() => {
    if (opening.view !== undefined) {
      setView(opening.view);
    }
  }, [opening]);
  const findings = useAsked(`${reference(named)} ${skill.digest}`, () => skills.findings(named));
  const versions = useAsked(
    `${reference(named)} ${version === null ? 'shipped' : standing} ${version?.state ?? ''} ${version?.deprecated ?? false}`,
    () => (version === null ? Promise.resolve([]) : skills.versions(named))
  );
  useChanges(
    skills,
    change => version !== null && (change.name === undefined || change.name === version.name),
    versions.again
  );
  const go = (path: string, line: number | null): void => {
    setAt({ path, line });
    setView('files');
  };
  const entry: ISkills.IEntry = {
    named,
    name: skill.name,
    description: skill.description,
    digest: skill.digest,
    standing,
    version
  };
  const newest = versions.value?.[0];
  return (
    <>
      <Head entry={entry} shown={shown} newest={newest ?? null} />
      <Tabs
        group={group}
        label={trans.__('Views of %1', skill.name)}
        tabs={[
          { id: 'read', label: trans.__('Read') },
          { id: 'files', label: trans.__('Files'), count: skill.files.length },
          ...(version === null
            ? []
            : [
                {
                  id: 'versions' as const,
                  label: trans.__('Versions'),
                  count: versions.value?.length
                }
              ]),
          { id: 'findings', label: trans.__('Findings'), count: findings.value?.length },
          { id: 'usage', label: trans.__('Usage') }
        ]}
        current={view}
        show={setView}
      />
      <div
        id={panelId(group)}
        role="tabpanel"
        aria-labelledby={tabId(group, view)}
        tabIndex={0}
        className={`jp-Reprise-skill-view jp-mod-${view}`}
      >
        {view === 'read' && (
          <Read
            named={named}
            shown={shown}
            findings={findings}
            toFindings={() => setView('findings')}
          />
        )}
        {view === 'files' && (
          <Files named={named} digest={skill.digest} standing={standing} at={at} />
        )}
        {view === 'versions' && version !== null && (
          <Versions version={version} versions={versions} since={opening.since ?? null} />
        )}
        {view === 'findings' && <Findings asked={findings} go={go} />}
        {view === 'usage' && <Usage entry={entry} />}
      </div>
    </>
  );
}

function Head(props: {
  entry: ISkills.IEntry;
  shown: ISkills.IShown;
  newest: ISkills.Version | null;
}): React.JSX.Element {
  const { entry, shown, newest } = props;
  const { trans, open } = useSkills();
  const { version } = entry;
  return (
    <div className="jp-Reprise-skill-head">
      <div className="jp-Reprise-skill-titles">
        <h2>{exact(entry.name)}</h2>
        <span className="jp-Reprise-skill-number">{number(version, trans)}</span>
        <StandingBadge standing={entry.standing} />
        {version && <StateBadges version={version} />}
      </div>
      <p className="jp-Reprise-secondary">
        {version === null
          ? trans.__('Comes with Reprise.')
          : trans.__(
              '%1, added by %2, %3. %4.',
              scope(version.scope, trans),
              exact(version.by),
              moment(new Date(version.at)),
              exact(origin(version, trans))
            )}{' '}
        <span title={entry.digest}>{trans.__('sha256 %1', `${entry.digest.slice(0, 16)}…`)}</span>{' '}
        <button
          type="button"
          className="jp-Reprise-link"
          onClick={() => void copyText(entry.digest)}
        >
          {trans.__('Copy digest')}
        </button>
      </p>
      {version !== null && newest !== null && newest.number > version.number && (
        <Notice
          kind="info"
          actions={
            <button
              type="button"
              className="jp-mod-styled"
              onClick={() => open.skill(nameOf(newest))}
            >
              {trans.__('Show v%1', newest.number)}
            </button>
          }
        >
          {trans.__('This is v%1. v%2 is newer.', version.number, newest.number)}
        </Notice>
      )}
      {shown.clashes.length > 0 && (
        <Notice kind="info">
          {trans.__('Other scopes have a skill of this name; the nearest one is meant by it:')}{' '}
          {shown.clashes.map(each => (
            <button
              key={each.reference}
              type="button"
              className="jp-Reprise-link"
              onClick={() => open.skill(nameOf(each))}
            >
              {each.reference}
            </button>
          ))}
        </Notice>
      )}
      <Actions entry={entry} />
    </div>
  );
}

function Actions(props: { entry: ISkills.IEntry }): React.JSX.Element {
  const { entry } = props;
  const { version, named, standing } = entry;
  const { skills, trans, open } = useSkills();
  const me = useAsked('me', () => skills.me());
  const scopes = useAsked('scopes', () => skills.scopes());
  const role = scopes.value?.find(each => each.scope === version?.scope)?.role;
  const reviews = role === 'reviewer' || role === 'admin' || role === 'owner';
  const shared = scopes.value?.some(
    each => each.scope !== 'personal' && each.scope !== version?.scope
  );
  const may = me.value?.personal.may ?? true;
  const act = (label: string, what: Act, look = ''): React.JSX.Element | null =>
    version === null ? null : (
      <button
        type="button"
        className={`jp-mod-styled ${look}`}
        disabled={!may}
        onClick={() => void open.judge(what, version)}
      >
        {label}
      </button>
    );
  const releases =
    version !== null &&
    (version.scope === 'personal' ? version.state === 'draft' : version.state === 'reviewed');
  return (
    <>
      <div className="jp-Reprise-skill-actions" role="toolbar" aria-label={trans.__('Actions')}>
        {standing === 'untrusted' && act(trans.__('Trust…'), 'trust', 'jp-mod-accept')}
        <button type="button" className="jp-mod-styled" onClick={() => open.edit(named)}>
          {trans.__('Edit')}
        </button>
        <button
          type="button"
          className="jp-mod-styled"
          onClick={() => void open.download(named, null)}
        >
          {trans.__('Export')}
        </button>
        {version !== null && shared && (
          <button
            type="button"
            className="jp-mod-styled"
            onClick={() => void open.promote(version)}
          >
            {trans.__('Promote…')}
          </button>
        )}
        {releases && reviews && act(trans.__('Release…'), 'release')}
        {standing === 'trusted' && act(trans.__('Take back trust…'), 'distrust')}
        {standing === 'revoked'
          ? act(trans.__('Reinstate…'), 'reinstate')
          : act(trans.__('Revoke…'), 'revoke')}
      </div>
      {me.value !== undefined && !may && <p role="note">{me.value.personal.why}</p>}
      {releases && scopes.value !== undefined && !reviews && (
        <p role="note" className="jp-Reprise-secondary">
          {trans.__('Only a team reviewer can publish.')}{' '}
          <button type="button" className="jp-Reprise-link" onClick={() => open.teams()}>
            {trans.__('Ask one')}
          </button>
        </p>
      )}
    </>
  );
}
