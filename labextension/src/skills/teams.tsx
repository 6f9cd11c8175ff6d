// Teams and the organisation: who is in them with which role, appointing and dismissing.

import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';

import { confirmed } from '../parts/confirm';
import { ConnectionNotice, ErrorNotice, Loading, Notice } from '../parts/notices';
import { exact } from '../parts/words';
import { useAsked } from '../parts/asked';
import { useChanges } from './changing';
import { IContext, useSkills } from './context';
import { failed } from './judging';
import { ISkills } from './tokens';
import { WideTab } from './wide';
import { scope as scopeWord } from './words';

type Role = ISkills.Member['role'];
const ROLES: readonly Role[] = ['member', 'reviewer', 'admin'];
const TEAM = /^[a-z0-9]+([-_][a-z0-9]+)*$/;

export class TeamsTab extends WideTab {
  constructor(context: IContext) {
    super(context, TeamsTab.ID, context.trans.__('Teams'));
  }

  static readonly ID = 'jp-reprise-skill-teams';

  protected override body(): React.JSX.Element {
    return <Teams />;
  }
}

export function Teams(): React.JSX.Element {
  const { skills, api, trans } = useSkills();
  const asked = useAsked('teams', async () => {
    const [me, scopes] = await Promise.all([skills.me(), skills.scopes()]);
    return { me, scopes };
  });
  useChanges(skills, change => change.name === undefined, asked.again);
  const shared = asked.value?.scopes.filter(each => each.scope !== 'personal') ?? [];
  const me = asked.value?.me;
  const heads = shared.some(each => each.scope === 'organisation' && each.role === 'admin');
  return (
    <div className="jp-Reprise-skill-body" role="region" aria-label={trans.__('Teams')}>
      <ConnectionNotice connection={api.connection} trans={trans} />
      <div className="jp-Reprise-skill-view">
        <h2>{trans.__('Teams')}</h2>
        {asked.error !== undefined && (
          <ErrorNotice error={asked.error} trans={trans} again={asked.again} />
        )}
        {me === undefined && asked.error === undefined && <Loading trans={trans} />}
        {me !== undefined && !me.governance.may && (
          <Notice kind="info">{exact(me.governance.why)}</Notice>
        )}
        {me?.governance.may && shared.length === 0 && (
          <p>{trans.__('You are in no team. An admin of a team appoints you.')}</p>
        )}
        {me !== undefined &&
          shared.map(each => <Scope key={each.scope} membership={each} me={me} heads={heads} />)}
        {heads && <NewTeam done={asked.again} />}
      </div>
    </div>
  );
}

function Scope(props: {
  membership: ISkills.Membership;
  me: ISkills.Me;
  heads: boolean;
}): React.JSX.Element {
  const { membership, me, heads } = props;
  const context = useSkills();
  const { skills, trans } = context;
  const { scope, role } = membership;
  const members = useAsked(scope, () => skills.members(scope));
  useChanges(skills, change => (change.scope ?? scope) === scope, members.again);
  const admin = me.governance.may && (role === 'admin' || heads);
  const [login, setLogin] = React.useState('');
  const [as, setAs] = React.useState<Role>('member');
  const act = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
      members.again();
    } catch (error) {
      await failed(error, context);
    }
  };
  const title = scopeWord(scope, trans);
  const dismiss = async (login: string): Promise<void> => {
    const leaves = login === me.login;
    const asked = {
      title: leaves
        ? trans.__('Leave “%1”?', title)
        : trans.__('Dismiss “%1” from “%2”?', exact(login), title),
      body: leaves
        ? trans.__('Its skills are no longer offered to you. An admin can appoint you again.')
        : trans.__('Its skills are no longer offered to them. An admin can appoint them again.'),
      label: leaves ? trans.__('Leave') : trans.__('Dismiss')
    };
    if (await confirmed(asked, trans)) {
      await act(() => skills.dismiss(scope, login));
    }
  };
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      {members.error !== undefined && (
        <ErrorNotice error={members.error} trans={trans} again={members.again} />
      )}
      <table className="jp-Reprise-skill-table">
        <caption className="jp-sr-only">{trans.__('Members of %1', title)}</caption>
        <thead>
          <tr>
            <th scope="col">{trans.__('Login')}</th>
            <th scope="col">{trans.__('Role')}</th>
            <th scope="col">
              <span className="jp-sr-only">{trans.__('Actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {(members.value ?? []).map(each => (
            <tr key={each.login}>
              <th scope="row">
                {exact(each.login)} {each.login === me.login && `(${trans.__('you')})`}
              </th>
              <td>{roleWord(each.role, trans)}</td>
              <td>
                {(admin || each.login === me.login) && (
                  <button
                    type="button"
                    className="jp-mod-styled"
                    onClick={() => void dismiss(each.login)}
                  >
                    {each.login === me.login ? trans.__('Leave') : trans.__('Dismiss')}
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {admin ? (
        <form
          className="jp-Reprise-skill-choices"
          onSubmit={event => {
            event.preventDefault();
            void act(async () => {
              await skills.appoint(scope, login.trim(), as);
              setLogin('');
            });
          }}
        >
          <label>
            {trans.__('Login')}
            <input
              type="text"
              className="jp-mod-styled"
              value={login}
              maxLength={63}
              spellCheck={false}
              onChange={event => setLogin(event.target.value)}
            />
          </label>
          <label>
            {trans.__('Role')}
            <HTMLSelect
              value={as}
              onChange={event => setAs(event.currentTarget.value as Role)}
              options={ROLES.map(each => ({ value: each, label: roleWord(each, trans) }))}
            />
          </label>
          <button type="submit" className="jp-mod-styled" disabled={login.trim() === ''}>
            {trans.__('Appoint…')}
          </button>
        </form>
      ) : (
        <p className="jp-Reprise-secondary">
          {trans.__('Only an admin appoints: %1.', admins(members.value ?? [], trans))}
        </p>
      )}
    </section>
  );
}

function NewTeam(props: { done: () => void }): React.JSX.Element {
  const context = useSkills();
  const { skills, trans } = context;
  const [team, setTeam] = React.useState('');
  return (
    <form
      className="jp-Reprise-skill-choices"
      aria-label={trans.__('New team')}
      onSubmit={event => {
        event.preventDefault();
        skills.createTeam(team).then(
          () => {
            setTeam('');
            props.done();
          },
          (error: unknown) => void failed(error, context)
        );
      }}
    >
      <label>
        {trans.__('New team')}
        <input
          type="text"
          className="jp-mod-styled"
          value={team}
          maxLength={64}
          spellCheck={false}
          placeholder={trans.__('lowercase letters, digits, hyphens')}
          onChange={event => setTeam(event.target.value)}
        />
      </label>
      <button type="submit" className="jp-mod-styled" disabled={!TEAM.test(team)}>
        {trans.__('Create…')}
      </button>
    </form>
  );
}

function roleWord(role: Role, trans: IContext['trans']): string {
  return {
    member: trans.__('member'),
    reviewer: trans.__('reviewer'),
    admin: trans.__('admin')
  }[role];
}

function admins(members: readonly ISkills.Member[], trans: IContext['trans']): string {
  const found = members.filter(each => each.role === 'admin').map(each => exact(each.login));
  return found.length === 0 ? trans.__('there is none') : found.join(', ');
}
