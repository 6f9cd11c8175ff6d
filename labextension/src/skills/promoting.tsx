// Promotion: asking that a team or the organisation get a version, and deciding what others asked for.

import { Dialog, ReactWidget } from '@jupyterlab/apputils';
import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ConnectionNotice, ErrorNotice, Loading, Notice } from '../parts/notices';
import { exact, moment } from '../parts/words';
import { useAsked } from '../parts/asked';
import { useChanges } from './changing';
import { Badge, StandingBadge } from './badges';
import { Changes } from './changes';
import { Context, IContext, useSkills } from './context';
import { failed } from './judging';
import { nameOf, short } from './names';
import { ISkills } from './tokens';
import { WideTab } from './wide';
import { decided, scope as scopeWord, state } from './words';

const MOST_NOTE = 4_000;

/** Asks for whom, and asks them. */
export async function promote(context: IContext, version: ISkills.Version): Promise<void> {
  const { skills, trans, open } = context;
  try {
    const scopes = (await skills.scopes())
      .map(each => each.scope)
      .filter(each => each !== 'personal' && each !== version.scope);
    const said = { to: scopes[0] ?? '', note: '' };
    const body = ReactWidget.create(
      <Context.Provider value={context}>
        <Ask version={version} scopes={scopes} said={said} />
      </Context.Provider>
    );
    body.addClass('jp-Reprise');
    const dialog = new Dialog({
      title: trans.__('Promote %1 v%2?', version.name, version.number),
      body,
      defaultButton: 0,
      buttons:
        scopes.length === 0
          ? [Dialog.cancelButton({ label: trans.__('Close') })]
          : [
              Dialog.cancelButton({ label: trans.__('Cancel') }),
              Dialog.okButton({ label: trans.__('Ask for it') })
            ]
    });
    dialog.addClass('jp-Reprise-skill-dialog');
    const { button } = await dialog.launch();
    if (button.accept) {
      open.promotion((await skills.promote(version, said.to, said.note)).id);
    }
  } catch (error) {
    await failed(error, context);
  }
}

function Ask(props: {
  version: ISkills.Version;
  scopes: readonly string[];
  said: { to: string; note: string };
}): React.JSX.Element {
  const { version, scopes, said } = props;
  const { trans } = useSkills();
  if (scopes.length === 0) {
    return (
      <p>
        {trans.__(
          'You are in no team. Teams and the organisation need a Postgres server with a login for each person.'
        )}
      </p>
    );
  }
  return (
    <div className="jp-Reprise-skill-question">
      <p>
        {trans.__(
          'Exactly this content (sha256 %1) is asked for. Another person there decides; until then nobody gets it.',
          short(version.digest)
        )}
      </p>
      <label className="jp-Reprise-skill-for">
        {trans.__('For')}
        <HTMLSelect
          aria-label={trans.__('For whom')}
          onChange={event => {
            said.to = event.currentTarget.value;
          }}
          options={scopes.map(each => ({ value: each, label: scopeWord(each, trans) }))}
        />
      </label>
      <label className="jp-Reprise-skill-why">
        {trans.__('Note')}
        <textarea
          className="jp-mod-styled"
          rows={2}
          maxLength={MOST_NOTE}
          placeholder={trans.__('what it is good for')}
          onChange={event => {
            said.note = event.target.value;
          }}
        />
      </label>
    </div>
  );
}

export class PromotionTab extends WideTab {
  constructor(
    context: IContext,
    readonly promotion: string
  ) {
    super(context, PromotionTab.idOf(promotion), context.trans.__('Promotion'));
  }

  static idOf(promotion: string): string {
    return `jp-reprise-promotion-${promotion}`;
  }

  protected override body(): React.JSX.Element {
    return (
      <Body
        id={this.promotion}
        named={name => {
          this.title.label = this.context.trans.__('Promotion of %1', name);
        }}
      />
    );
  }
}

function Body(props: { id: string; named: (name: string) => void }): React.JSX.Element {
  const { id, named } = props;
  const { skills, api, trans } = useSkills();
  const asked = useAsked(id, async () => {
    const [promotion, me, scopes] = await Promise.all([
      skills.promotion(id),
      skills.me(),
      skills.scopes()
    ]);
    return { promotion, me, scopes };
  });
  const name = asked.value?.promotion.version.name;
  React.useEffect(() => {
    if (name !== undefined) {
      named(name);
    }
  }, [name, named]);
  useChanges(skills, change => (change.name ?? name) === name, asked.again);
  return (
    <div className="jp-Reprise-skill-body" role="region" aria-label={trans.__('Promotion')}>
      <ConnectionNotice connection={api.connection} trans={trans} />
      {asked.error !== undefined && (
        <ErrorNotice error={asked.error} trans={trans} again={asked.again} />
      )}
      {asked.value === undefined ? (
        asked.error === undefined && <Loading trans={trans} rows={5} />
      ) : (
        <Promotion {...asked.value} again={asked.again} />
      )}
    </div>
  );
}

/** Whether this person may decide it, and the reason that is said where not. */
export function mayDecide(
  promotion: ISkills.Promotion,
  me: ISkills.Me,
  scopes: readonly ISkills.Membership[]
): 'yes' | 'own' | 'role' | 'server' {
  if (promotion.by === me.login || promotion.version.by === me.login) {
    return 'own';
  }
  if (!me.governance.may) {
    return 'server';
  }
  const role = scopes.find(each => each.scope === promotion.to)?.role;
  return role === 'reviewer' || role === 'admin' ? 'yes' : 'role';
}

function Promotion(props: {
  promotion: ISkills.Promotion;
  me: ISkills.Me;
  scopes: readonly ISkills.Membership[];
  again: () => void;
}): React.JSX.Element {
  const { promotion, me, scopes, again } = props;
  const context = useSkills();
  const { skills, trans, open } = context;
  const { version } = promotion;
  const [reason, setReason] = React.useState('');
  const [busy, setBusy] = React.useState(false);
  const may = mayDecide(promotion, me, scopes);
  const waits = promotion.decided === null;
  const act = async (work: () => Promise<unknown>): Promise<void> => {
    setBusy(true);
    try {
      await work();
      again();
    } catch (error) {
      await failed(error, context);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <div className="jp-Reprise-skill-head">
        <div className="jp-Reprise-skill-titles">
          <h2>
            {exact(version.name)} <span aria-hidden="true">→</span>
            <span className="jp-sr-only">{trans.__('to')}</span> {scopeWord(promotion.to, trans)}
          </h2>
          <Badge of={decided(promotion, trans)} />
          <StandingBadge standing={version.standing} />
        </div>
        <p className="jp-Reprise-secondary">
          {trans.__('Asked for by %1, %2.', exact(promotion.by), moment(new Date(promotion.at)))}{' '}
          <span title={version.digest}>{trans.__('sha256 %1', short(version.digest))}</span>{' '}
          <button
            type="button"
            className="jp-Reprise-link"
            onClick={() => open.skill({ ...nameOf(version), view: 'files' })}
          >
            {trans.__('All its files')}
          </button>
        </p>
        {promotion.note !== '' && <p>{exact(promotion.note)}</p>}
        <Steps version={version} />
        {!waits && promotion.decided !== 'withdrawn' && (
          <p>
            {trans.__('Decided by %1.', exact(promotion.decided_by ?? ''))}{' '}
            {promotion.reason !== '' && exact(promotion.reason)}
          </p>
        )}
        {waits && (
          <>
            {may === 'own' ? (
              <Notice
                kind="info"
                actions={
                  promotion.by === me.login && (
                    <button
                      type="button"
                      className="jp-mod-styled"
                      disabled={busy}
                      onClick={() => void act(() => skills.withdraw(promotion))}
                    >
                      {trans.__('Withdraw')}
                    </button>
                  )
                }
              >
                {trans.__('Another reviewer must approve.')}
              </Notice>
            ) : may === 'yes' ? (
              <div className="jp-Reprise-skill-decide">
                <label className="jp-Reprise-skill-why">
                  {trans.__('Reason')}
                  <input
                    type="text"
                    className="jp-mod-styled"
                    maxLength={MOST_NOTE}
                    value={reason}
                    onChange={event => setReason(event.target.value)}
                  />
                </label>
                <div className="jp-Reprise-actions">
                  <button
                    type="button"
                    className="jp-mod-styled jp-mod-reject"
                    disabled={busy}
                    onClick={() =>
                      void act(() => skills.decide(promotion, { approve: false, reason }))
                    }
                  >
                    {trans.__('Refuse')}
                  </button>
                  <button
                    type="button"
                    className="jp-mod-styled"
                    disabled={busy}
                    onClick={() =>
                      void act(() => skills.decide(promotion, { approve: true, reason }))
                    }
                  >
                    {trans.__('Approve…')}
                  </button>
                  <button
                    type="button"
                    className="jp-mod-styled jp-mod-accept"
                    disabled={busy}
                    onClick={() =>
                      void act(() =>
                        skills.decide(promotion, { approve: true, release: true, reason })
                      )
                    }
                  >
                    {trans.__('Approve and release…')}
                  </button>
                </div>
              </div>
            ) : (
              <Notice
                kind="info"
                actions={
                  <button type="button" className="jp-mod-styled" onClick={() => open.teams()}>
                    {trans.__('Ask one')}
                  </button>
                }
              >
                {may === 'server'
                  ? exact(me.governance.why)
                  : trans.__('Only a team reviewer can publish.')}
              </Notice>
            )}
          </>
        )}
        {promotion.decided === 'approved' && version.state === 'reviewed' && (
          <div className="jp-Reprise-actions">
            <button
              type="button"
              className="jp-mod-styled jp-mod-accept"
              onClick={() => void open.judge('release', version)}
            >
              {trans.__('Release…')}
            </button>
          </div>
        )}
      </div>
      <section className="jp-Reprise-skill-view" aria-label={trans.__('What it changes')}>
        <h3>{trans.__('What it changes there')}</h3>
        <Changes
          of={promotion.id}
          ask={offset => skills.promotionDifferences(promotion.id, offset)}
        />
      </section>
    </>
  );
}

/** draft → reviewed → published. */
function Steps(props: { version: ISkills.Version }): React.JSX.Element {
  const { trans } = useSkills();
  const states = ['draft', 'reviewed', 'published'] as const;
  return (
    <ol className="jp-Reprise-skill-states" aria-label={trans.__('State')}>
      {states.map(each => (
        <li key={each} aria-current={each === props.version.state ? 'step' : undefined}>
          {state({ ...props.version, state: each }, trans).word}
        </li>
      ))}
    </ol>
  );
}
