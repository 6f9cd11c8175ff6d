// The editor of one scope's policy: findings as one types, the test box, a save that is pressed.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import * as React from 'react';

import { ApiError } from '../api/tokens';
import { ErrorNotice, Notice } from '../parts/notices';
import { TextBox } from '../parts/textbox';
import { exact } from '../parts/words';
import { useCheck } from './checking';
import { usePolicies } from './context';
import { placed } from './placed';
import { IChange, Policy, Problem } from './tokens';
import { Trying } from './trying';
import { Versions } from './versions';
import { decisionWord, trialWords } from './words';
import { FIRST, rulesText } from './yaml';

/** Calls that would come out otherwise, shown at first. */
const SHOWN = 5;

export function Editor(props: { scope: string; binding: Policy | null }): React.JSX.Element {
  const { scope } = props;
  const { policies, drafts, trans, editors, announcer } = usePolicies();
  const [made, setMade] = React.useState<Policy | null>(null);
  // What was set here binds, whether the page has heard of it by now or not.
  const binding = (made?.version ?? 0) > (props.binding?.version ?? 0) ? made : props.binding;
  const version = binding?.version ?? 0;
  const bound = binding === null ? FIRST : rulesText(binding.rules);
  const [kept] = React.useState(() => drafts.get(scope));
  const [text, setText] = React.useState(kept?.text ?? bound);
  const [after, setAfter] = React.useState(kept?.after ?? version);
  const [turn, begin] = React.useReducer((count: number) => count + 1, 0);
  const [notKept, setNotKept] = React.useState(false);
  const [note, setNote] = React.useState('');
  const [saving, setSaving] = React.useState(false);
  const [error, setError] = React.useState<unknown>(undefined);
  const [saved, setSaved] = React.useState<number | null>(null);
  const dirty = text !== bound;
  const check = useCheck(policies, scope, text);
  const { findings, current } = check;
  const wrong = findings === null || findings.rules === null || !current;
  const marks = React.useMemo(
    () => (findings === null || !current ? [] : placed(text, findings.problems, findings.advice)),
    [findings, current, text]
  );

  // What binds has changed, and nothing was written: the newest is shown.
  const shown = React.useRef(bound);
  React.useEffect(() => {
    if (shown.current !== bound && text === shown.current) {
      setText(bound);
      setAfter(version);
      begin();
    }
    shown.current = bound;
  }, [bound, version, text]);

  const newest = React.useRef(text);
  React.useEffect(() => {
    newest.current = text;
  }, [text]);
  const typed = (next: string): void => {
    newest.current = next;
    setText(next);
    setSaved(null);
    setNotKept(!drafts.keep(scope, next === bound ? null : { text: next, after }));
  };
  const start = (next: string, from: number): void => {
    setText(next);
    setAfter(from);
    setSaved(null);
    setError(undefined);
    drafts.keep(scope, next === bound ? null : { text: next, after: from });
    begin();
  };
  const save = async (): Promise<void> => {
    setSaving(true);
    setError(undefined);
    try {
      const set = await policies.set(scope, text, note, after);
      setMade(set);
      setNote('');
      setAfter(set.version ?? 0);
      setSaved(set.version);
      shown.current = rulesText(set.rules);
      if (newest.current === text) {
        drafts.keep(scope, null);
        setText(shown.current);
        begin();
      } else {
        // Written on while it was on its way: a change of what binds now.
        drafts.keep(scope, { text: newest.current, after: set.version ?? 0 });
      }
      announcer?.polite(trans.__('Saved. It counts from the next call on.'));
    } catch (failed) {
      setError(failed);
    } finally {
      setSaving(false);
    }
  };
  const throwAway = async (): Promise<void> => {
    const { button } = await showDialog({
      title: trans.__('Throw away what you wrote?'),
      body: trans.__('What binds stays as it is.'),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Throw away') })]
    });
    if (button.accept) {
      start(bound, version);
    }
  };
  const overtaken = dirty && !saving && after !== version;

  return (
    <>
      {kept !== null && dirty && turn === 0 && (
        <Notice kind="info">{trans.__('You go on with what you had not saved.')}</Notice>
      )}
      {notKept && (
        <Notice kind="warning">
          {trans.__('This browser keeps nothing more. Save before you close the page.')}
        </Notice>
      )}
      {overtaken && (
        <Notice
          kind="warning"
          actions={
            <>
              <button className="jp-mod-styled" onClick={() => start(bound, version)}>
                {trans.__('Show version %1', version)}
              </button>
              <button
                className="jp-mod-styled"
                onClick={() => {
                  setAfter(version);
                  drafts.keep(scope, { text, after: version });
                }}
              >
                {trans.__('Go on with mine')}
              </button>
            </>
          }
        >
          {trans.__(
            'Somebody has set version %1 since you began. What you wrote is still here.',
            version
          )}
        </Notice>
      )}
      <div className="jp-Reprise-policy-columns">
        <div>
          <TextBox
            editors={editors}
            className="jp-Reprise-policy-textbox"
            mimeType="text/x-yaml"
            text={text}
            begun={`${scope} ${turn}`}
            label={trans.__('Policy of %1', scope)}
            scrollPastEnd={false}
            placed={marks}
            typed={typed}
          />
          <div className="jp-Reprise-policy-save">
            <label>
              <span className="jp-sr-only">{trans.__('Why it changes')}</span>
              <input
                className="jp-mod-styled"
                type="text"
                maxLength={2000}
                value={note}
                placeholder={trans.__('Why it changes')}
                onChange={event => setNote(event.target.value)}
              />
            </label>
            <button
              className="jp-mod-styled jp-mod-accept"
              disabled={saving || wrong || (!dirty && binding !== null) || overtaken}
              onClick={() => void save()}
            >
              {trans.__('Save…')}
            </button>
            <button
              className="jp-mod-styled"
              disabled={saving || !dirty}
              onClick={() => void throwAway()}
            >
              {trans.__('Throw away…')}
            </button>
          </div>
          {error !== undefined && !(error instanceof ApiError && error.code === 'cancelled') && (
            <ErrorNotice error={error} trans={trans} />
          )}
          {saved !== null && (
            <Notice kind="info">
              {trans.__(
                'Saved as version %1. It counts from the next call on, in conversations that are open, too.',
                saved
              )}
            </Notice>
          )}
          {check.error !== undefined && <ErrorNotice error={check.error} trans={trans} />}
          {findings !== null && (
            <>
              <Findings problems={findings.problems} advice={findings.advice} />
              {findings.rules !== null && (
                <Trial
                  words={trialWords(findings.trial, trans)}
                  changes={findings.trial?.changes ?? []}
                />
              )}
            </>
          )}
        </div>
        <Trying scope={scope} text={text} wrong={wrong} />
      </div>
      <Versions
        scope={scope}
        newest={version}
        take={policy => start(rulesText(policy.rules), version)}
      />
    </>
  );
}

/** What is wrong, and what a policy may not do as meant: at their lines, and here in words. */
function Findings(props: {
  problems: readonly Problem[];
  advice: readonly Problem[];
}): React.JSX.Element | null {
  const { problems, advice } = props;
  const { trans } = usePolicies();
  if (problems.length + advice.length === 0) {
    return null;
  }
  return (
    <div role="status" aria-label={trans.__('Findings')}>
      {[
        ...problems.map(each => ['error', each] as const),
        ...advice.map(each => ['warning', each] as const)
      ].map(([kind, each], index) => (
        <div key={index} className={`jp-Reprise-policy-finding jp-mod-${kind}`}>
          {each.line > 0 && (
            <span className="jp-Reprise-secondary">{trans.__('Line %1: ', each.line)}</span>
          )}
          {exact(each.text)} {exact(each.mend)}
        </div>
      ))}
    </div>
  );
}

/** The calls of before that would come out otherwise. */
function Trial(props: { words: string; changes: readonly IChange[] }): React.JSX.Element {
  const { words, changes } = props;
  const { trans } = usePolicies();
  const [whole, setWhole] = React.useState(false);
  const shown = whole ? changes : changes.slice(0, SHOWN);
  return (
    <div className="jp-Reprise-policy-trial">
      <p>{words}</p>
      {shown.length > 0 && (
        <ul>
          {shown.map((each, index) => (
            <li key={index}>
              <code>{exact(each.tool)}</code> {exact(each.title)}:{' '}
              {each.before !== null && decisionWord(each.before.decision, trans).toLowerCase()}
              {' → '}
              {decisionWord(each.now.decision, trans).toLowerCase()},{' '}
              {trans.__('by %1', each.now.rule)}
            </li>
          ))}
        </ul>
      )}
      {changes.length > shown.length && (
        <button className="jp-mod-styled" onClick={() => setWhole(true)}>
          {trans.__('Show all %1', changes.length.toLocaleString())}
        </button>
      )}
    </div>
  );
}
