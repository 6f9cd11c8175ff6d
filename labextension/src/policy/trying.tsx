// The test box: what would happen if the agent did this, under what binds and with the draft.

import { HTMLSelect } from '@jupyterlab/ui-components';
import * as React from 'react';

import { useAsked } from '../parts/asked';
import { ErrorNotice } from '../parts/notices';
import { exact } from '../parts/words';
import { usePolicies } from './context';
import { IAct, IOutcome } from './tokens';
import { decisionWord, levelWord, outcomeWords } from './words';

/** Milliseconds after the last key. */
const TYPED = 400;

/** Which fields a tool has, by what it does. */
const FIELDS: Readonly<Record<string, readonly (keyof IAct)[]>> = {
  read_notebook: ['path'],
  edit_notebook: ['path'],
  run_cells: ['code'],
  run_command: ['shell'],
  read_file: ['path'],
  write_file: ['path'],
  list_files: ['path'],
  search_files: ['path'],
  load_skill: ['skill'],
  read_skill_file: ['skill'],
  run_skill: ['skill'],
  save_artifact: ['path']
};
const OTHER = 'mcp/';
const TAINTS = ['network', 'skill', 'mcp', 'named'] as const;

const FIRST: IAct = {
  tool: 'run_command',
  shell: '',
  code: '',
  path: '',
  host: '',
  skill: '',
  standing: 'trusted',
  environment: '',
  isolated: true,
  network: '',
  tainted: []
};

export function Trying(props: { scope: string; text: string; wrong: boolean }): React.JSX.Element {
  const { scope, text, wrong } = props;
  const { policies, trans } = usePolicies();
  const known = useAsked('tools', () => policies.tools());
  const [act, setAct] = React.useState(FIRST);
  const change = (more: Partial<IAct>): void => setAct(before => ({ ...before, ...more }));
  const isolated = known.value?.isolated;
  React.useEffect(() => {
    if (isolated !== undefined) {
      setAct(before => ({ ...before, isolated }));
    }
  }, [isolated]);
  const tool = act.tool.startsWith(OTHER) ? OTHER : act.tool;
  const fields = FIELDS[tool] ?? (tool === OTHER ? ['host'] : []);
  const id = React.useId();

  const field = (
    name: 'shell' | 'code' | 'path' | 'host' | 'skill' | 'environment' | 'network',
    label: string,
    placeholder: string
  ): React.JSX.Element => (
    <>
      <label htmlFor={`${id}-${name}`}>{label}</label>
      <input
        id={`${id}-${name}`}
        className="jp-mod-styled"
        type="text"
        spellCheck={false}
        autoComplete="off"
        value={act[name]}
        placeholder={placeholder}
        onChange={event => change({ [name]: event.target.value })}
      />
    </>
  );

  return (
    <section className="jp-Reprise-policy-trying" aria-labelledby={`${id}-title`}>
      <h3 id={`${id}-title`}>{trans.__('What would happen if…')}</h3>
      {known.error !== undefined && (
        <ErrorNotice error={known.error} trans={trans} again={known.again} />
      )}
      <div className="jp-Reprise-policy-form">
        <label htmlFor={`${id}-tool`}>{trans.__('The agent calls')}</label>
        <HTMLSelect
          id={`${id}-tool`}
          className="jp-Reprise-policy-select"
          value={tool}
          onChange={event =>
            change({
              tool: event.target.value === OTHER ? 'mcp/server/tool' : event.target.value
            })
          }
        >
          {(known.value?.tools ?? [{ tool: act.tool, effect: '' }]).map(each => (
            <option key={each.tool} value={each.tool}>
              {each.tool}
            </option>
          ))}
          <option value={OTHER}>{trans.__('a tool of an MCP server')}</option>
        </HTMLSelect>
        {tool === OTHER && (
          <>
            <label htmlFor={`${id}-mcp`}>{trans.__('Its name')}</label>
            <input
              id={`${id}-mcp`}
              className="jp-mod-styled"
              type="text"
              spellCheck={false}
              value={act.tool}
              onChange={event =>
                change({
                  tool: event.target.value.startsWith(OTHER) ? event.target.value : OTHER
                })
              }
            />
          </>
        )}
        {fields.includes('shell') && field('shell', trans.__('Command'), 'git log main')}
        {fields.includes('code') && field('code', trans.__('Code'), 'df.head()')}
        {fields.includes('path') && field('path', trans.__('Path'), 'data/raw/a.csv')}
        {fields.includes('host') && field('host', trans.__('Host'), 'a.example')}
        {fields.includes('skill') && (
          <>
            {field('skill', trans.__('Skill'), 'team/ml:count-rows')}
            <label htmlFor={`${id}-standing`}>{trans.__('It is')}</label>
            <HTMLSelect
              id={`${id}-standing`}
              className="jp-Reprise-policy-select"
              value={act.standing}
              onChange={event => change({ standing: event.target.value as IAct['standing'] })}
            >
              <option value="trusted">{trans.__('trusted')}</option>
              <option value="untrusted">{trans.__('untrusted')}</option>
              <option value="revoked">{trans.__('revoked')}</option>
            </HTMLSelect>
          </>
        )}
        {field('environment', trans.__('In the environment'), 'default')}
        {field('network', trans.__('Which reaches'), trans.__('no host'))}
        <fieldset>
          <legend>{trans.__('In the context is untrusted content of')}</legend>
          {TAINTS.map(kind => (
            <label key={kind}>
              <input
                type="checkbox"
                checked={act.tainted.includes(kind)}
                onChange={event =>
                  change({
                    tainted: event.target.checked
                      ? [...act.tainted, kind]
                      : act.tainted.filter(each => each !== kind)
                  })
                }
              />
              {
                {
                  network: trans.__('the network'),
                  skill: trans.__('a skill'),
                  mcp: trans.__('an MCP server'),
                  named: trans.__('a named file')
                }[kind]
              }
            </label>
          ))}
          <label>
            <input
              type="checkbox"
              checked={!act.isolated}
              onChange={event => change({ isolated: !event.target.checked })}
            />
            {trans.__('and nothing isolates')}
          </label>
        </fieldset>
      </div>
      <Outcome act={act} scope={scope} text={text} wrong={wrong} />
    </section>
  );
}

function Outcome(props: {
  act: IAct;
  scope: string;
  text: string;
  wrong: boolean;
}): React.JSX.Element {
  const { act, scope, text, wrong } = props;
  const { policies, trans } = usePolicies();
  const [said, setSaid] = React.useState<IOutcome | null>(null);
  const [error, setError] = React.useState<unknown>(undefined);
  const ready = !act.tool.startsWith('mcp/') || /^mcp\/[^/]+\/.+/.test(act.tool);
  React.useEffect(() => {
    if (!ready) {
      return undefined;
    }
    let current = true;
    const timer = setTimeout(() => {
      // A draft that is none yet: what binds is told, and the editor says what is wrong.
      policies.try(act, wrong ? null : { scope, text }).then(
        outcome => {
          if (current) {
            setSaid(outcome);
            setError(undefined);
          }
        },
        (failed: unknown) => {
          if (current) {
            setError(failed);
          }
        }
      );
    }, TYPED);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [policies, act, scope, text, wrong, ready]);
  if (error !== undefined) {
    return <ErrorNotice error={error} trans={trans} />;
  }
  if (said === null) {
    return <p className="jp-Reprise-secondary">{trans.__('Asking …')}</p>;
  }
  const other = said.now.decision !== said.verdict.decision || said.now.rule !== said.verdict.rule;
  return (
    <div
      className={`jp-Reprise-policy-outcome jp-mod-${said.verdict.decision}`}
      role="status"
      aria-label={trans.__('What would happen')}
    >
      <p className="jp-Reprise-policy-verdict">{outcomeWords(said, trans)}</p>
      <p>{exact(said.verdict.why)}</p>
      {said.compound && (
        <p>{trans.__('It is more than plain words for a shell, so no argv pattern matches it.')}</p>
      )}
      {other && (
        <p>
          {trans.__(
            'Now it is: %1, by %2.',
            decisionWord(said.now.decision, trans).toLowerCase(),
            said.now.rule
          )}
        </p>
      )}
      <ul>
        {said.levels.map(({ level, rule }) => (
          <li key={level}>
            {levelWord(level, trans)}:{' '}
            {rule === null
              ? trans.__('says nothing')
              : trans.__('%1, by %2', decisionWord(rule.decision, trans).toLowerCase(), rule.name)}
          </li>
        ))}
      </ul>
    </div>
  );
}
