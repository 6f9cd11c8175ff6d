/** Below the list: one step whole, with what was asked, what came of it, and what can be done. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { closeIcon, ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import type { IApi } from '../api/tokens';
import { useAsked } from '../parts/asked';
import { ErrorNotice, Loading, Notice } from '../parts/notices';
import type { ISafeRendering } from '../parts/tokens';
import { count, exact, moment, size } from '../parts/words';
import { Outputs } from './outputs';
import { asEntry, asOutputs, firstLines } from './shown';
import { asStep } from './step';
import type { IFact, IStep } from './step';
import { text } from './told';
import type { TimelineState } from './state';
import { TimelineCommands } from './tokens';
import type { IStepRow } from './tokens';
import { actorSentence, causeSentence, endSentence, kindWord, outcomeWord, took } from './words';

/** Milliseconds that a step has to stay chosen before it is asked for. */
const QUIET = 120;
/** Lines of an input, and files of an upload, that are shown at first. */
const LINES = 60;
const FILES = 20;

export interface IDetailOptions {
  readonly api: IApi;
  readonly commands: CommandRegistry;
  readonly rendering: ISafeRendering;
  readonly state: TimelineState;
  readonly trans: TranslationBundle;
  /** Back to the list. */
  leave(): void;
  close(): void;
}

interface ILoaded {
  step: IStep;
  network: readonly Network[];
}

type Network = Readonly<Record<string, unknown>>;

export class DetailWidget extends ReactWidget {
  constructor(private readonly _options: IDetailOptions) {
    super();
    this.addClass('jp-Reprise-Step');
  }

  /** Put the focus on the step's heading. */
  focusHeading(): void {
    this.node.querySelector<HTMLElement>('h3')?.focus();
  }

  protected override render(): React.JSX.Element {
    const { state } = this._options;
    return (
      <UseSignal signal={state.stepChanged}>
        {() =>
          state.step !== null && state.session !== null ? (
            <Detail
              key={`${state.session} ${state.step.seq}`}
              {...this._options}
              session={state.session}
              row={state.step}
            />
          ) : null
        }
      </UseSignal>
    );
  }
}

function Detail(
  props: IDetailOptions & { readonly session: string; readonly row: IStepRow }
): React.JSX.Element {
  const { session, row, trans, leave, close } = props;
  const [loaded, error, again] = useStep(props.api, session, row);
  const end = endSentence(trans, row.outcome);
  return (
    <article
      aria-label={trans.__('Step %1', row.seq)}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          leave();
        }
      }}
    >
      <header className="jp-Reprise-Step-head">
        <h3 tabIndex={-1}>{trans.__('Step %1', row.seq)}</h3>
        <span className="jp-Reprise-secondary">
          {[
            kindWord(trans, row.kind),
            outcomeWord(trans, row.outcome),
            took(row.duration_s),
            moment(new Date(row.at))
          ]
            .filter(Boolean)
            .join(' · ')}
        </span>
        <button
          className="jp-Reprise-iconButton"
          title={trans.__('Close this step')}
          aria-label={trans.__('Close this step')}
          onClick={close}
        >
          <closeIcon.react tag="span" width="16px" />
        </button>
      </header>
      <StepActs {...props} />
      {end !== null && (
        <Notice kind={row.outcome === 'lost' || row.outcome === 'died' ? 'error' : 'warning'}>
          {[causeSentence(trans, row.cause), end].filter(Boolean).join(' ')}
        </Notice>
      )}
      {error !== null && <ErrorNotice error={error} trans={trans} again={again} />}
      {loaded === null && error === null && <Loading trans={trans} />}
      {loaded !== null && <StepBody {...props} loaded={loaded} />}
    </article>
  );
}

/** Fetches a step once it has stayed chosen, and again when it has ended. */
function useStep(api: IApi, session: string, row: IStepRow): [ILoaded | null, unknown, () => void] {
  const [loaded, setLoaded] = React.useState<ILoaded | null>(null);
  const [error, setError] = React.useState<unknown>(null);
  const [tries, again] = React.useReducer((n: number) => n + 1, 0);
  const { seq, outcome } = row;
  React.useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const path = { session, seq };
      const { signal } = abort;
      Promise.all([
        api.get('/sessions/{session}/steps/{seq}', { params: { path }, signal }),
        api.get('/sessions/{session}/network', {
          params: { path: { session }, query: { from: seq, to: seq } },
          signal
        })
      ]).then(
        ([step, { network }]) => {
          setError(null);
          setLoaded({ step: asStep(step), network });
        },
        (reason: unknown) => {
          if (!signal.aborted) {
            setError(reason);
          }
        }
      );
    }, QUIET);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
    // `outcome`: what ran has ended, so what it showed is whole now.
  }, [api, session, seq, outcome, tries]);
  return [loaded, error, again];
}

/** What can be done with a step, in the words of its buttons and its menu. */
export function stepActs(trans: TranslationBundle): (readonly [string, string])[] {
  return [
    [TimelineCommands.viewStep, trans.__('View here')],
    [TimelineCommands.filesAt, trans.__('Files here')],
    [TimelineCommands.fork, trans.__('Fork here')],
    [TimelineCommands.rewind, trans.__('Rewind to here')],
    [TimelineCommands.runAgain, trans.__('Run again')],
    [TimelineCommands.verifyFrom, trans.__('Verify from here')]
  ];
}

/** What can be done with a step; what cannot says why. */
function StepActs(
  props: IDetailOptions & { readonly session: string; readonly row: IStepRow }
): React.JSX.Element {
  const { commands, session, row, trans } = props;
  const args = { session, step: row.seq };
  const acts = stepActs(trans).filter(([id]) => commands.hasCommand(id));
  return (
    <div className="jp-Reprise-actions jp-Reprise-Step-acts">
      {acts.map(([id, label]) => (
        <button
          key={id}
          className="jp-Reprise-textButton"
          disabled={!commands.isEnabled(id, args)}
          title={commands.caption(id, args)}
          onClick={() => void commands.execute(id, args)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}

function StepBody(
  props: IDetailOptions & {
    readonly session: string;
    readonly loaded: ILoaded;
  }
): React.JSX.Element {
  const { trans, commands, session, loaded } = props;
  const { step, network } = loaded;
  const { actor } = step;
  return (
    <>
      <Section title={trans.__('Asked by %1', actorSentence(trans, actor))}>
        {actor.kind === 'agent' && actor.conversation !== undefined && (
          <button
            className="jp-Reprise-textButton"
            onClick={() =>
              void commands.execute('reprise:show-turn', {
                conversation: actor.conversation ?? null,
                turn: actor.turn ?? null
              })
            }
          >
            {trans.__('Open the conversation')}
          </button>
        )}
        {step.input !== '' && <Input step={step} trans={trans} />}
        {step.facts.length > 0 && (
          <dl className="jp-Reprise-facts">
            {step.facts.map(fact => (
              <Fact key={`${fact.what} ${fact.name ?? ''}`} fact={fact} trans={trans} />
            ))}
          </dl>
        )}
        {step.brought.length > 0 && <Brought step={step} trans={trans} />}
      </Section>
      {(step.outputs.length > 0 || step.leftOut.length > 0 || step.more) && (
        <Section title={trans.__('Showed')}>
          <Shown {...props} step={step} />
        </Section>
      )}
      {step.kind !== 'upload' && step.seq > 0 && (
        <Section title={trans.__('Files')}>
          <button
            className="jp-Reprise-textButton"
            onClick={() =>
              void commands.execute(TimelineCommands.compare, {
                session,
                before: step.seq - 1,
                after: step.seq
              })
            }
          >
            {trans.__('See what it changed')}
          </button>
        </Section>
      )}
      {network.length > 0 && (
        <Section title={trans.__('Network')}>
          <ul className="jp-Reprise-Step-network">
            {network.map((row, index) => (
              <li key={index}>{networkWords(trans, row)}</li>
            ))}
          </ul>
        </Section>
      )}
      <Section title={trans.__('Record')}>
        <dl className="jp-Reprise-facts">
          <dt>{trans.__('Digest')}</dt>
          <dd>
            <code>{step.digest}</code>
          </dd>
          {step.chain !== null && (
            <>
              <dt>{trans.__('Chain')}</dt>
              <dd>
                <code>{step.chain}</code>
              </dd>
            </>
          )}
          <dt>{trans.__('Environment')}</dt>
          <dd>
            <code>{step.environment.slice(0, 12)}</code>
          </dd>
        </dl>
      </Section>
    </>
  );
}

/** What the step showed, as the router published it: of a static session nothing is an original. */
function Shown(
  props: IDetailOptions & { readonly session: string; readonly step: IStep }
): React.JSX.Element {
  const { api, session, step, rendering, trans } = props;
  const { seq, outcome, execution_count: number } = step;
  const asked = useAsked(`${session} ${seq} ${outcome}`, async signal => {
    const told = await api.get('/sessions/{session}/steps/{seq}/shown', {
      params: { path: { session, seq } },
      signal
    });
    return { outputs: asOutputs(told.messages.map(asEntry), number), left: told.left_out };
  });
  if (asked.value === undefined) {
    return asked.error === undefined ? (
      <Loading trans={trans} />
    ) : (
      <ErrorNotice error={asked.error} trans={trans} again={asked.again} />
    );
  }
  const { outputs, left } = asked.value;
  return (
    <>
      <Outputs outputs={outputs} rendermime={rendering.rendermime} trans={trans} />
      {left !== null && (
        <p className="jp-Reprise-rest">
          {trans.__(
            '%1 of it is too large to show here. It stands whole in the log.',
            size(left.bytes)
          )}
        </p>
      )}
    </>
  );
}

function Section(props: { title: string; children: React.ReactNode }): React.JSX.Element {
  return (
    <section className="jp-Reprise-Step-section">
      <h4>{props.title}</h4>
      {props.children}
    </section>
  );
}

/** What was asked for to its last byte, long texts cut with the way to the rest. */
function Input(props: { step: IStep; trans: TranslationBundle }): React.JSX.Element {
  const { step, trans } = props;
  const [whole, setWhole] = React.useState(false);
  const first = firstLines(step.input, LINES);
  const cut = !whole && first.total > LINES;
  return (
    <>
      <pre className="jp-Reprise-Step-input" tabIndex={0} aria-label={trans.__('Input')}>
        {exact(cut ? first.text : step.input)}
      </pre>
      {cut && (
        <p className="jp-Reprise-rest">
          {trans.__('%1 of %2 lines.', LINES, count(first.total))}{' '}
          <button className="jp-Reprise-textButton" onClick={() => setWhole(true)}>
            {trans.__('Show all')}
          </button>
        </p>
      )}
    </>
  );
}

function Fact(props: { fact: IFact; trans: TranslationBundle }): React.JSX.Element {
  const { fact, trans } = props;
  const words: Record<IFact['what'], string> = {
    target: trans.__('Mounted at'),
    skill: trans.__('Skill'),
    tree: trans.__('Tree'),
    emptied: trans.__('Files'),
    kept: trans.__('Files'),
    folder: trans.__('Folder'),
    variable: fact.name ?? '',
    stdin: trans.__('Its input')
  };
  const value =
    fact.what === 'emptied'
      ? trans.__('were removed')
      : fact.what === 'kept'
        ? trans.__('stayed')
        : fact.value;
  return (
    <>
      <dt>{words[fact.what]}</dt>
      <dd>{exact(value)}</dd>
    </>
  );
}

function Brought(props: { step: IStep; trans: TranslationBundle }): React.JSX.Element {
  const { step, trans } = props;
  const [whole, setWhole] = React.useState(false);
  const { brought } = step;
  const shown = whole ? brought : brought.slice(0, FILES);
  return (
    <>
      <ul className="jp-Reprise-Step-files">
        {shown.map(each => (
          <li key={each.path}>
            <span>{exact(each.path)}</span>
            <span className="jp-Reprise-secondary">
              {each.removed ? trans.__('removed') : each.size === null ? '' : size(each.size)}
            </span>
          </li>
        ))}
      </ul>
      {shown.length < brought.length && (
        <p className="jp-Reprise-rest">
          {trans.__('%1 of %2 files.', FILES, count(brought.length))}{' '}
          <button className="jp-Reprise-textButton" onClick={() => setWhole(true)}>
            {trans.__('Show all')}
          </button>
        </p>
      )}
    </>
  );
}

/** `allowed · pypi.org:443 · 2 kB`, with the reason of a refusal. */
export function networkWords(trans: TranslationBundle, row: Network): string {
  const place = `${String(row['host'])}:${String(row['port'])}`;
  const bytes = Number(row['bytes_up']) + Number(row['bytes_down']);
  switch (row['verdict']) {
    case 'allowed':
      return trans.__('allowed · %1 · %2', exact(place), size(bytes));
    case 'refused':
      return trans.__('refused · %1 · %2', exact(place), exact(text(row['reason'])));
    default:
      return trans.__('failed · %1 · %2', exact(place), exact(text(row['reason'])));
  }
}
