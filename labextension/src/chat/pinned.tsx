/** What waits for a person, pinned above the composer: approvals in their frame, the model's questions. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { decidedOf } from '../agent/bodies';
import type { Decided, Entry, Question } from '../agent/model';
import type { IConversation } from '../agent/tokens';
import { DecisionFrame } from '../parts/decision';
import { ErrorNotice, Notice } from '../parts/notices';
import { clock, exact } from '../parts/words';
import { useAct, useClock, useConversation, useSurroundings } from './context';
import { Prose } from './prose';

export function Pinned(props: { conversation: IConversation }): React.JSX.Element | null {
  const { conversation } = props;
  const { trans } = useSurroundings();
  const questions = useConversation(conversation, each => each.model.questions);
  const [answered] = React.useState(() => new Set<string>());
  const settled = useSettledElsewhere(conversation, answered);
  const [first] = questions;
  if (first === undefined && settled === null) {
    return null;
  }
  return (
    <section className="jp-Reprise-pinned" aria-label={trans.__('Waits for you')}>
      {first === undefined ? (
        <p className="jp-Reprise-settled">{settled}</p>
      ) : (
        <>
          {questions.length > 1 && (
            <p className="jp-Reprise-pinned-count">
              {trans.__('%1 questions wait; this is the oldest.', questions.length)}
            </p>
          )}
          {first.act === null ? (
            <OwnQuestion
              key={first.id}
              question={first}
              conversation={conversation}
              pressed={id => answered.add(id)}
            />
          ) : (
            <Approval
              key={first.id}
              question={first}
              conversation={conversation}
              denied={id => answered.add(id)}
            />
          )}
        </>
      )}
    </section>
  );
}

/** An approval: pressed in its frame, or a sentence that says why not here. */
function Approval(props: {
  question: Question;
  conversation: IConversation;
  /** Called as it is denied without its frame. */
  denied: (question: string) => void;
}): React.JSX.Element {
  const { question, conversation, denied } = props;
  const { trans, api, themes } = useSurroundings();
  const pressed = useConversation(conversation, each => each.pressed(question.id));
  const path = useConversation(conversation, each => each.model.notebook);
  const title = trans.__('Agent wants to %1', question.act?.title ?? '');
  const decided = React.useCallback(() => undefined, []);
  if (pressed?.yours !== true) {
    return (
      <Told title={title} question={question}>
        {pressed === null
          ? trans.__('It is asked for…')
          : trans.__('Waiting for the owner. Only who began this conversation answers it.')}
      </Told>
    );
  }
  // The server shows frames to browsers that say where they are for: over HTTPS, and on this machine.
  if (!window.isSecureContext) {
    return (
      <Told
        title={title}
        question={question}
        deny={() => {
          denied(question.id);
          return conversation.deny(question.id, null);
        }}
      >
        {trans.__(
          'Approving here needs HTTPS or localhost. Nothing ran. Use `reprise agent` in a terminal.'
        )}
      </Told>
    );
  }
  if (pressed.decision === null || pressed.frame === null) {
    return (
      <Told title={title} question={question}>
        {trans.__('It is answered where its turn runs: in another program, such as a terminal.')}
      </Told>
    );
  }
  return (
    <div className="jp-Reprise-approval" data-question={question.id}>
      {question.act?.tool === 'edit_notebook' && path !== null && (
        <AtItsCells path={path} question={question.id} />
      )}
      <DecisionFrame
        api={api}
        themes={themes}
        trans={trans}
        decision={pressed.decision}
        frame={pressed.frame}
        title={title}
        decided={decided}
      />
    </div>
  );
}

function AtItsCells(props: { path: string; question: string }): React.JSX.Element {
  const { trans, showCell } = useSurroundings();
  return (
    <button
      className="jp-Reprise-quiet-button"
      onClick={() => void showCell(props.path, props.question)}
    >
      {trans.__('Show in notebook')}
    </button>
  );
}

/** What is asked, exactly, for whoever cannot press here. deny: a denial needs no frame. */
function Told(props: {
  title: string;
  question: Question;
  deny?: () => Promise<void>;
  children: React.ReactNode;
}): React.JSX.Element {
  const { title, question, deny } = props;
  const { trans } = useSurroundings();
  const now = useClock(true);
  const left = question.untilUs / 1e6 - now / 1e3;
  const denying = useAct();
  return (
    <div className="jp-Reprise-question" data-question={question.id}>
      <header>
        <h3>{exact(title)}</h3>
        <span className="jp-Reprise-clock">{trans.__('denied in %1', clock(left))}</span>
      </header>
      <pre tabIndex={0} aria-label={trans.__('Exact input')}>
        {exact(JSON.stringify(question.act?.input ?? {}, null, 2))}
      </pre>
      <p>{trans.__('Why asked: %1', exact(question.verdict?.why ?? question.text))}</p>
      <Notice
        kind="info"
        actions={
          deny && (
            <button
              className="jp-mod-styled jp-mod-reject"
              disabled={denying.busy}
              onClick={() => denying.act(deny)}
            >
              {trans.__('Deny')}
            </button>
          )
        }
      >
        {props.children}
      </Notice>
      {denying.error !== null && <ErrorNotice error={denying.error} trans={trans} />}
    </div>
  );
}

/** Words of the model's: options to press, or words of one's own. Nothing that it asks approves anything. */
function OwnQuestion(props: {
  question: Question;
  conversation: IConversation;
  /** Called as it is answered. */
  pressed: (question: string) => void;
}): React.JSX.Element {
  const { question, conversation, pressed } = props;
  const { trans } = useSurroundings();
  const now = useClock(true);
  const [words, setWords] = React.useState('');
  const answering = useAct();
  const yours = conversation.yours;
  const answer = (given: string): void => {
    if (given.trim() !== '') {
      pressed(question.id);
      answering.act(() => conversation.answer(question.id, given));
    }
  };
  const left = question.untilUs / 1e6 - now / 1e3;
  return (
    <div className="jp-Reprise-question" data-question={question.id}>
      <header>
        <h3>{trans.__('Agent asks you')}</h3>
        <span className="jp-Reprise-clock">{trans.__('goes on in %1', clock(left))}</span>
      </header>
      <Prose text={question.text} open={false} />
      {yours ? (
        <>
          {question.options.length > 0 && (
            <div className="jp-Reprise-options">
              {question.options.map(option => (
                <button
                  key={option}
                  className="jp-mod-styled"
                  disabled={answering.busy}
                  onClick={() => answer(option)}
                >
                  {exact(option)}
                </button>
              ))}
            </div>
          )}
          <form
            className="jp-Reprise-answer"
            onSubmit={event => {
              event.preventDefault();
              answer(words);
            }}
          >
            <input
              className="jp-mod-styled"
              value={words}
              maxLength={4000}
              onChange={event => setWords(event.target.value)}
              placeholder={trans.__('In your own words')}
              aria-label={trans.__('Answer in your own words')}
            />
            <button
              className="jp-mod-styled jp-mod-accept"
              disabled={answering.busy || words.trim() === ''}
            >
              {trans.__('Answer')}
            </button>
          </form>
        </>
      ) : (
        <p>{trans.__('Waiting for the owner.')}</p>
      )}
      {answering.error !== null && <ErrorNotice error={answering.error} trans={trans} />}
    </div>
  );
}

/**
 * How the approval that stood here ended, if it was not pressed in this page; until the next thing
 * happens. answered: those that were answered here without a frame.
 */
function useSettledElsewhere(
  conversation: IConversation,
  answered: ReadonlySet<string>
): string | null {
  const { trans } = useSurroundings();
  const [words, setWords] = React.useState<string | null>(null);
  React.useEffect(() => {
    setWords(null);
    const heard = (_: IConversation, entry: Entry): void => {
      if (entry.kind === 'decided') {
        const decided = decidedOf(entry);
        const here = answered.has(decided.question) || pressedHere();
        if (answered.has(decided.question) || focused('.jp-Reprise-pinned')) {
          keepFocus();
        }
        setWords(isOwn(conversation, decided.question) ? null : settledWords(decided, here, trans));
      } else if (entry.kind === 'said' || entry.kind === 'question' || entry.kind === 'ended') {
        setWords(null);
      }
    };
    conversation.entered.connect(heard);
    return () => {
      conversation.entered.disconnect(heard);
    };
  }, [conversation, answered, trans]);
  return words;
}

/** Whether it was a question of the model's own: the turn shows what became of it. */
function isOwn(conversation: IConversation, question: string): boolean {
  const parts = conversation.model.turns.at(-1)?.parts ?? [];
  return parts.some(part => part.part === 'asked' && part.question.id === question);
}

/** Whether the focus is in a frame of this very page, or at the cell that it is about: then that is
 * where the press came from. */
function pressedHere(): boolean {
  return document.hasFocus() && focused('.jp-Reprise-decision, .jp-Reprise-cellmark');
}

function focused(within: string): boolean {
  return document.activeElement?.closest(within) instanceof Element;
}

/** What had the focus goes away: it goes to where its answer comes, and never to another question. */
function keepFocus(): void {
  requestAnimationFrame(() =>
    requestAnimationFrame(() => {
      if (document.activeElement === null || document.activeElement === document.body) {
        document
          .querySelector<HTMLElement>('.jp-Reprise-chat .jp-Reprise-log')
          ?.focus({ preventScroll: true });
      }
    })
  );
}

function settledWords(
  decided: Pick<Decided, 'decision' | 'how'>,
  here: boolean,
  trans: TranslationBundle
): string | null {
  const { decision, how } = decided;
  if (how === 'timeout') {
    return trans.__('Not answered in time, so not run. The agent was told.');
  }
  if (how === 'cancelled' || here) {
    return null;
  }
  if (how === 'terminal') {
    return trans.__('Answered by a program, or in a terminal.');
  }
  const words: Readonly<Record<string, string>> = {
    once: trans.__('Allowed once in another tab.'),
    session: trans.__('Allowed for this session in another tab.'),
    pattern: trans.__('Allowed for a pattern in another tab.'),
    deny: trans.__('Denied in another tab.')
  };
  return words[decision] ?? null;
}
