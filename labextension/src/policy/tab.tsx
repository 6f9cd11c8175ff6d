// The tab of policies: the levels that bind one, an editor for the scopes that one may set.

import { ReactWidget } from '@jupyterlab/apputils';
import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';

import { useAsked } from '../parts/asked';
import { ConnectionNotice, ErrorNotice, Loading, Notice } from '../parts/notices';
import { exact, moment } from '../parts/words';
import { Context, IContext, usePolicies } from './context';
import { Editor } from './editor';
import { IScope, Policy } from './tokens';
import { conditions, decisionWord, levelWord } from './words';

/** Rules of a level that are shown at first. */
const SHOWN = 20;

export class PolicyTab extends ReactWidget {
  constructor(private readonly _context: IContext) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-policy');
    this.node.tabIndex = -1;
  }

  /** The scope in the editor; a new one is shown. */
  get scope(): string {
    return this._scope;
  }

  set scope(scope: string) {
    this._scope = scope;
    this.update();
  }

  protected override onActivateRequest(): void {
    this.node.focus();
  }

  protected override render(): React.JSX.Element {
    return (
      <Context.Provider value={this._context}>
        <Whole
          scope={this._scope}
          choose={scope => {
            this.scope = scope;
          }}
        />
      </Context.Provider>
    );
  }

  private _scope = 'personal';
}

function Whole(props: { scope: string; choose: (scope: string) => void }): React.JSX.Element {
  const { scope, choose } = props;
  const { api, policies, trans } = usePolicies();
  const levels = useAsked('levels', () => policies.list());
  const scopes = useAsked('scopes', () => policies.scopes());
  const { again } = levels;
  React.useEffect(() => {
    policies.changed.connect(again);
    return () => {
      policies.changed.disconnect(again);
    };
  }, [policies, again]);
  const chosen = scopes.value?.find(each => each.scope === scope) ?? scopes.value?.[0];
  const binding = levels.value?.find(each => each.level === chosen?.scope) ?? null;
  return (
    <>
      <ConnectionNotice connection={api.connection} trans={trans} />
      <h2>{trans.__('What the agent may do')}</h2>
      <p className="jp-Reprise-policy-said">
        {trans.__(
          'Each level has its say, and the strictest one stands: a level can tighten what stands above it, and never loosen it.'
        )}
      </p>
      {levels.error !== undefined && (
        <ErrorNotice error={levels.error} trans={trans} again={levels.again} />
      )}
      {levels.value === undefined ? (
        levels.error === undefined && <Loading trans={trans} />
      ) : (
        <Levels levels={levels.value} />
      )}
      {scopes.error !== undefined && (
        <ErrorNotice error={scopes.error} trans={trans} again={scopes.again} />
      )}
      {scopes.value !== undefined && levels.value !== undefined && chosen !== undefined && (
        <>
          <Chooser scopes={scopes.value} chosen={chosen} choose={choose} />
          {chosen.may ? (
            <Editor key={chosen.scope} scope={chosen.scope} binding={binding} />
          ) : (
            <Notice kind="info">
              {chosen.why ??
                trans.__('Only an admin of %1 can set its policy. Ask one.', chosen.scope)}
            </Notice>
          )}
        </>
      )}
    </>
  );
}

/** From the top; those without a policy are not there. */
function Levels(props: { levels: readonly Policy[] }): React.JSX.Element {
  const { trans } = usePolicies();
  return (
    <section aria-label={trans.__('Levels')} className="jp-Reprise-policy-levels">
      {props.levels.map(each => (
        <Level key={each.level} policy={each} />
      ))}
      <details className="jp-Reprise-policy-level">
        <summary>
          <strong>{levelWord('default', trans)}</strong> ·{' '}
          {trans.__('decides where no level says anything')}
        </summary>
        <ul>
          <li>{trans.__('Allow: reading, loading skills, asking you, saving artifacts.')}</li>
          <li>
            {trans.__(
              'Allow in a sandbox that isolates, else ask: editing, writing, running, forking, rewinding.'
            )}
          </li>
          <li>{trans.__('Ask: what acts outside.')}</li>
        </ul>
      </details>
    </section>
  );
}

function Level(props: { policy: Policy }): React.JSX.Element {
  const { policy } = props;
  const { trans } = usePolicies();
  const [whole, setWhole] = React.useState(false);
  const rules = policy.rules as readonly Readonly<Record<string, unknown>>[];
  const shown = whole ? rules : rules.slice(0, SHOWN);
  return (
    <details className="jp-Reprise-policy-level">
      <summary>
        <strong>{levelWord(policy.level, trans)}</strong>
        {` · ${trans._n('%2 rule', '%2 rules', rules.length, rules.length.toLocaleString())}`}
        {policy.version === null
          ? ` · ${trans.__("set in the server's file")}`
          : ` · ${trans.__('version %1', policy.version)}`}
        {policy.at !== null && ` · ${moment(new Date(policy.at))}`}
        {policy.by !== null && ` · ${exact(policy.by)}`}
      </summary>
      <ol>
        {shown.map((rule, index) => (
          <li key={index}>
            <strong>{decisionWord(text(rule.decision), trans)}</strong>{' '}
            <code>{exact(text(rule.name))}</code>
            <span className="jp-Reprise-secondary"> {exact(conditions(rule))}</span>
            {text(rule.why) !== '' && <span> {exact(text(rule.why))}</span>}
          </li>
        ))}
      </ol>
      {rules.length === 0 && (
        <p className="jp-Reprise-secondary">{trans.__('It has no rule, so it says nothing.')}</p>
      )}
      {rules.length > shown.length && (
        <button className="jp-mod-styled" onClick={() => setWhole(true)}>
          {trans.__('Show all %1', rules.length.toLocaleString())}
        </button>
      )}
    </details>
  );
}

function Chooser(props: {
  scopes: readonly IScope[];
  chosen: IScope;
  choose: (scope: string) => void;
}): React.JSX.Element {
  const { scopes, chosen, choose } = props;
  const { trans } = usePolicies();
  const id = React.useId();
  return (
    <div className="jp-Reprise-policy-chooser">
      <h3>
        <label htmlFor={id}>{trans.__('Edit the policy of')}</label>
      </h3>
      <HTMLSelect
        id={id}
        className="jp-Reprise-policy-select"
        value={chosen.scope}
        onChange={event => choose(event.target.value)}
      >
        {scopes.map(each => (
          <option key={each.scope} value={each.scope}>
            {levelWord(each.scope, trans)}
            {each.may ? '' : ` (${trans.__('read only')})`}
          </option>
        ))}
      </HTMLSelect>
    </div>
  );
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
