/** A card: one call of the agent's, what exactly it did, by what right, and what it showed. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { LabIcon, caretDownEmptyIcon, caretRightIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { CallPart } from '../agent/model';
import { linesShown } from '../agent/streams';
import type { IConversation } from '../agent/tokens';
import { errorIcon, infoIcon, okIcon, warningIcon } from '../parts/icons';
import { count, duration, exact } from '../parts/words';
import {
  type Drawn,
  LINES,
  changesOf,
  headline,
  inputOf,
  readsLine,
  seconds,
  shownOf,
  standingOf,
  tail,
  verdictOf
} from './cards';
import { Code } from './code';
import { useAct, useConversation, useSurroundings } from './context';
import { ErrorNotice } from '../parts/notices';
import { CopyButton } from './prose';

const TONES: Readonly<Record<'asks' | 'ok' | 'warning' | 'error', LabIcon>> = {
  asks: infoIcon,
  ok: okIcon,
  warning: warningIcon,
  error: errorIcon
};

/** What stands open by itself: what runs or waits for a person, and what went wrong. */
const OPEN = new Set(['running', 'asked', 'error', 'denied', 'lost']);

export const Card = React.memo(function Card(props: {
  call: CallPart;
  /** Nothing followed it: it stays open until the turn goes on. */
  newest: boolean;
  conversation: IConversation;
}): React.JSX.Element {
  const { call, newest, conversation } = props;
  const { trans } = useSurroundings();
  const [chosen, choose] = React.useState<boolean | null>(null);
  const read = call.act?.effect === 'read' && call.standing === 'ok';
  const open = chosen ?? (OPEN.has(call.standing) || (newest && !read));
  const id = React.useId();
  const { verb, line } = headline(call, trans);
  const standing = standingOf(call, trans);
  const took = seconds(call);
  const verdict = verdictOf(call, trans);
  return (
    <section className={`jp-Reprise-card jp-mod-${standing.tone}`} data-call={call.id}>
      <CardHead open={open} controls={id} press={() => choose(!open)}>
        <span className="jp-Reprise-card-verb">{verb}</span>
        {line !== '' && <code className="jp-Reprise-card-line">{exact(line)}</code>}
        <span className="jp-Reprise-card-end">
          <Tone tone={standing.tone} />
          {[standing.words, took === null ? '' : duration(took, trans), verdict]
            .filter(each => each !== '')
            .join(' · ')}
        </span>
      </CardHead>
      {open && (
        <div className="jp-Reprise-card-body" id={id}>
          <Body call={call} conversation={conversation} />
        </div>
      )}
    </section>
  );
});

/** The line that opens and closes a card. */
export function CardHead(props: {
  open: boolean;
  /** The id of what it opens. */
  controls: string;
  press: () => void;
  children: React.ReactNode;
}): React.JSX.Element {
  const Caret = props.open ? caretDownEmptyIcon : caretRightIcon;
  return (
    <button
      className="jp-Reprise-card-head"
      aria-expanded={props.open}
      aria-controls={props.controls}
      onClick={props.press}
    >
      <Caret.react tag="span" className="jp-Reprise-caret" />
      {props.children}
    </button>
  );
}

function Tone(props: { tone: 'busy' | 'asks' | 'ok' | 'warning' | 'error' }): React.JSX.Element {
  if (props.tone === 'busy') {
    return <span className="jp-Reprise-busy" aria-hidden="true" />;
  }
  const Icon = TONES[props.tone];
  return <Icon.react tag="span" className="jp-Reprise-tone" aria-hidden="true" />;
}

function Body(props: { call: CallPart; conversation: IConversation }): React.JSX.Element {
  const { call, conversation } = props;
  const { trans } = useSurroundings();
  return (
    <>
      <WhatItDoes call={call} path={conversation.model.notebook} />
      {call.problem !== null && <p className="jp-Reprise-card-note">{exact(call.problem)}</p>}
      {call.decided?.how === 'timeout' ? (
        <p className="jp-Reprise-card-note">{unanswered(call, trans)}</p>
      ) : (
        <Why call={call} />
      )}
      {call.standing === 'running' ? (
        <LiveLines call={call.id} conversation={conversation} />
      ) : (
        <Shown text={shownOf(call)} />
      )}
      {call.images.map((image, place) => (
        <img
          key={place}
          className="jp-Reprise-card-image"
          src={`data:${image.type};base64,${image.data}`}
          alt={trans.__('Image %1 of what this showed', place + 1)}
        />
      ))}
      {call.outside.length > 0 && (
        <ul className="jp-Reprise-card-outside">
          {call.outside.map((each, place) => (
            <li key={place}>{trans.__('outside: %1', exact(each))}</li>
          ))}
        </ul>
      )}
      <Ways call={call} conversation={conversation} />
    </>
  );
}

/** Edits by their cells, their exact input behind them; the exact input itself of all else. */
function WhatItDoes(props: { call: CallPart; path: string | null }): React.JSX.Element {
  const { call, path } = props;
  const { trans, cellNumber } = useSurroundings();
  const changes = React.useMemo(() => changesOf(call), [call]);
  if (changes.length === 0) {
    return <ExactInput call={call} />;
  }
  const words: Readonly<Record<string, string>> = {
    insert: trans.__('insert'),
    replace: trans.__('replace'),
    delete: trans.__('delete'),
    move: trans.__('move')
  };
  return (
    <>
      {changes.map((change, place) => {
        const number = cellNumber(path, change.cell);
        const name =
          number === null
            ? trans.__('cell %1', exact(change.cell))
            : trans.__('cell %1', count(number));
        return (
          <div key={place} className="jp-Reprise-change">
            <p>
              {name} · {words[change.what] ?? exact(change.what)}
              {change.type !== '' && change.type !== 'code' && ` · ${exact(change.type)}`}
            </p>
            {change.source !== null && (
              <Code
                code={exact(change.source)}
                language={change.type === 'code' ? 'python' : change.type}
                label={trans.__('What it will hold')}
              />
            )}
          </div>
        );
      })}
      <details className="jp-Reprise-exact">
        <summary>{trans.__('Exact input')}</summary>
        <ExactInput call={call} />
      </details>
    </>
  );
}

function ExactInput(props: { call: CallPart }): React.JSX.Element {
  const { trans } = useSurroundings();
  const input = React.useMemo(() => inputOf(props.call), [props.call]);
  if (input.as === 'code') {
    return (
      <div className="jp-Reprise-input">
        <pre tabIndex={0} aria-label={trans.__('Exact input')}>
          {input.prompt !== '' && (
            <span className="jp-Reprise-prompt" aria-hidden="true">
              {input.prompt}{' '}
            </span>
          )}
          {exact(input.code)}
        </pre>
        <CopyButton text={input.code} label={trans.__('Copy')} />
      </div>
    );
  }
  return (
    <dl className="jp-Reprise-fields">
      {input.fields.map(([name, value], place) => (
        <React.Fragment key={place}>
          <dt>{exact(name)}</dt>
          <dd>
            <pre tabIndex={value.length > 400 ? 0 : undefined}>{exact(value)}</pre>
          </dd>
        </React.Fragment>
      ))}
    </dl>
  );
}

function Why(props: { call: CallPart }): React.JSX.Element | null {
  const { trans } = useSurroundings();
  const { decided, verdict } = props.call;
  if (verdict === null) {
    return null;
  }
  const words = {
    allow: trans.__('Allowed by %1', verdict.rule),
    ask: trans.__('Asked by %1', verdict.rule),
    deny: trans.__('Denied by %1', verdict.rule)
  }[verdict.decision];
  return (
    <p className="jp-Reprise-card-why">
      {words}
      {verdict.why !== '' && `: ${verdict.why}`}
      {decided?.by != null && ` ${trans.__('Decided by %1.', decided.by)}`}
      {decided?.reason != null && ` ${trans.__('Reason: %1', decided.reason)}`}
    </p>
  );
}

function unanswered(call: CallPart, trans: TranslationBundle): string {
  const minutes = Math.round(((call.decided?.atUs ?? 0) - (call.askedUs ?? 0)) / 60e6);
  return minutes >= 1
    ? trans.__('Not answered in %1 min, so not run. The agent was told.', minutes)
    : trans.__('Not answered in time, so not run. The agent was told.');
}

/** The newest lines of what a running call shows. */
function LiveLines(props: { call: string; conversation: IConversation }): React.JSX.Element | null {
  const { trans } = useSurroundings();
  const output = useConversation(props.conversation, each => each.output(props.call));
  if (output === null) {
    return null;
  }
  const { lines, total } = linesShown(output);
  return (
    <>
      {total > lines.length && (
        <p className="jp-Reprise-card-total">
          {trans.__('the last %1 of %2 lines', count(lines.length), count(total))}
        </p>
      )}
      <Lines lines={lines} />
    </>
  );
}

function Shown(props: { text: string }): React.JSX.Element {
  const { trans } = useSurroundings();
  const [most, setMost] = React.useState(LINES);
  const { lines, total } = React.useMemo(() => tail(props.text, most), [props.text, most]);
  return (
    <>
      {total > lines.length && (
        <button className="jp-Reprise-quiet-button" onClick={() => setMost(most * 10)}>
          {trans.__('%1 earlier lines', count(total - lines.length))}
        </button>
      )}
      <Lines lines={lines} />
    </>
  );
}

function Lines(props: { lines: readonly string[] }): React.JSX.Element | null {
  const { trans } = useSurroundings();
  if (props.lines.length === 0) {
    return null;
  }
  return (
    <pre className="jp-Reprise-output" tabIndex={0} aria-label={trans.__('What it showed')}>
      {exact(props.lines.join('\n'))}
    </pre>
  );
}

/** Where one goes from a card. */
function Ways(props: { call: CallPart; conversation: IConversation }): React.JSX.Element | null {
  const { call, conversation } = props;
  const { trans, showStep, showCell } = useSurroundings();
  const path = useConversation(conversation, each => each.model.notebook);
  const edits = call.tool === 'edit_notebook' && call.edits.length > 0 && path !== null;
  const asking = useAct();
  const again = call.decided?.how === 'timeout' && conversation.yours;
  if (call.steps.length === 0 && !edits && !again) {
    return null;
  }
  return (
    <div className="jp-Reprise-card-ways">
      {call.steps.map(step => (
        <button
          key={step}
          className="jp-Reprise-quiet-button"
          onClick={() => showStep(call.session, step)}
        >
          {trans.__('Open step %1', step)}
        </button>
      ))}
      {edits && (
        <button className="jp-Reprise-quiet-button" onClick={() => void showCell(path, null)}>
          {trans.__('Show in notebook')}
        </button>
      )}
      {again && (
        <button
          className="jp-Reprise-quiet-button"
          disabled={asking.busy}
          onClick={() => asking.act(() => conversation.askAgain(call.id))}
        >
          {trans.__('Ask me again')}
        </button>
      )}
      {asking.error !== null && <ErrorNotice error={asking.error} trans={trans} />}
    </div>
  );
}

/** Reads in a row: one line that opens into their cards. */
export function Reads(props: {
  reads: Drawn & { drawn: 'reads' };
  conversation: IConversation;
}): React.JSX.Element {
  const { trans } = useSurroundings();
  const [open, setOpen] = React.useState(false);
  const id = React.useId();
  const { calls } = props.reads;
  return (
    <section className="jp-Reprise-card jp-mod-ok">
      <CardHead open={open} controls={id} press={() => setOpen(!open)}>
        <span className="jp-Reprise-card-verb">{readsLine(calls, trans)}</span>
        <span className="jp-Reprise-card-end">
          <Tone tone="ok" />
          {trans.__('ok')} · {trans.__('allowed')}
        </span>
      </CardHead>
      {open && (
        <div className="jp-Reprise-reads" id={id}>
          {calls.map(call => (
            <Card key={call.key} call={call} newest={false} conversation={props.conversation} />
          ))}
        </div>
      )}
    </section>
  );
}
