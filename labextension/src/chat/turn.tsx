/** One turn: what a person said, what the agent said and did. An article, drawn anew only when it changed. */

import * as React from 'react';

import { partKey } from '../agent/fold';
import type { AskedPart, MarkPart, Part, Turn, WaitPart } from '../agent/model';
import type { DraftBlock, IConversation } from '../agent/tokens';
import { ErrorNotice } from '../parts/notices';
import { count, duration, exact, moment } from '../parts/words';
import { Card, CardHead, Reads } from './card';
import { drawn } from './cards';
import { useAct, useConversation, useSurroundings } from './context';
import { useDialogs } from './dialogs';
import { TurnStanding, Undone } from './ends';
import { CopyButton, Prose } from './prose';
import { Said } from './said';

/** Parts of one turn that are mounted, and as many more on demand. */
const PARTS = 60;

const NO_DRAFT: readonly DraftBlock[] = [];

export const TurnView = React.memo(function TurnView(props: {
  turn: Turn;
  newest: boolean;
  conversation: IConversation;
}): React.JSX.Element {
  const { turn, newest, conversation } = props;
  const { trans } = useSurroundings();
  const [chosen, fold] = React.useState<boolean | null>(null);
  const folded = chosen ?? (turn.undone !== null && !newest);
  const label = React.useId();
  return (
    <article
      className={`jp-Reprise-turn${turn.undone === null ? '' : ' jp-mod-undone'}`}
      aria-labelledby={label}
      data-turn={turn.turn}
    >
      <h3 className="jp-sr-only" id={label}>
        {trans.__('Turn %1', turn.turn)}
      </h3>
      <You turn={turn} conversation={conversation} />
      {folded ? (
        <button className="jp-Reprise-quiet-button" onClick={() => fold(false)}>
          {trans.__('This turn was undone. Show it')}
        </button>
      ) : (
        <>
          <Agent turn={turn} newest={newest} conversation={conversation} />
          {newest ? <TurnStanding turn={turn} conversation={conversation} /> : <Past turn={turn} />}
        </>
      )}
    </article>
  );
});

/** Of a turn that others followed: how it ended, if not well. */
function Past(props: { turn: Turn }): React.JSX.Element | null {
  const { turn } = props;
  const { trans } = useSurroundings();
  if (turn.undone !== null) {
    return <Undone turn={turn} />;
  }
  if (turn.ended === null || turn.ended === 'done') {
    return null;
  }
  const words =
    turn.lastStep === null
      ? trans.__('Stopped. It had run no step.')
      : trans.__('Stopped after step %1.', turn.lastStep);
  return <p className="jp-Reprise-underway">{turn.why ?? words}</p>;
}

function You(props: { turn: Turn; conversation: IConversation }): React.JSX.Element {
  const { turn, conversation } = props;
  const { trans } = useSurroundings();
  const yours = useConversation(conversation, each => each.yours);
  const running = useConversation(conversation, each => each.running);
  const [editing, edit] = React.useState(false);
  const way = React.useRef<HTMLButtonElement>(null);
  const done = (): void => {
    edit(false);
    // Back to where the focus came from, where that is still there.
    requestAnimationFrame(() => way.current?.focus());
  };
  const client = conversation.model.client;
  const others = turn.by === conversation.owner ? null : turn.by;
  return (
    <div className="jp-Reprise-you">
      <header>
        <span className="jp-Reprise-who">
          {client ?? (others === null ? trans.__('You') : exact(others))}
        </span>
        <time className="jp-Reprise-secondary" dateTime={new Date(turn.atUs / 1e3).toISOString()}>
          {moment(new Date(turn.atUs / 1e3))}
        </time>
        <span className="jp-Reprise-you-ways">
          {yours && !running && !editing && (
            <button ref={way} className="jp-Reprise-quiet-button" onClick={() => edit(true)}>
              {trans.__('Edit and resend')}
            </button>
          )}
        </span>
      </header>
      {editing ? (
        <Editing turn={turn} conversation={conversation} done={done} />
      ) : (
        <Said text={turn.said} />
      )}
    </div>
  );
}

/** The words of a turn, to be said otherwise: it is undone first, and those after it. */
function Editing(props: {
  turn: Turn;
  conversation: IConversation;
  done: () => void;
}): React.JSX.Element {
  const { turn, conversation, done } = props;
  const { trans } = useSurroundings();
  const [words, setWords] = React.useState(turn.said);
  const sending = useAct();
  const dialogs = useDialogs(conversation);
  const send = (): void => {
    if (words.trim() !== '') {
      sending.act(async () => {
        if (await dialogs.resend(turn, words)) {
          done();
        }
      });
    }
  };
  return (
    <form
      className="jp-Reprise-editing"
      onSubmit={event => {
        event.preventDefault();
        send();
      }}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          done();
        } else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
          event.preventDefault();
          send();
        }
      }}
    >
      <textarea
        className="jp-mod-styled"
        autoFocus
        rows={Math.min(12, words.split('\n').length + 1)}
        value={words}
        onChange={event => setWords(event.target.value)}
        aria-label={trans.__('What you said in turn %1', turn.turn)}
      />
      <div className="jp-Reprise-actions">
        <button className="jp-mod-styled" type="button" onClick={done}>
          {trans.__('Cancel')}
        </button>
        <button
          className="jp-mod-styled jp-mod-accept"
          disabled={sending.busy || words.trim() === ''}
        >
          {trans.__('Undo and send…')}
        </button>
      </div>
      {sending.error !== null && <ErrorNotice error={sending.error} trans={trans} />}
    </form>
  );
}

function Agent(props: {
  turn: Turn;
  newest: boolean;
  conversation: IConversation;
}): React.JSX.Element {
  const { turn, newest, conversation } = props;
  const { trans, foldReads } = useSurroundings();
  const [most, setMost] = React.useState(PARTS);
  const parts = React.useMemo(() => drawn(turn.parts, foldReads), [turn.parts, foldReads]);
  const draft = useConversation(conversation, each => (newest ? each.draft : NO_DRAFT));
  const hidden = Math.max(0, parts.length - most);
  const last = newest && draft.length === 0 ? parts.at(-1) : undefined;
  return (
    <div className="jp-Reprise-agent">
      <header>
        <span className="jp-Reprise-who">{trans.__('Agent')}</span>
      </header>
      {hidden > 0 && (
        <button className="jp-Reprise-quiet-button" onClick={() => setMost(most + PARTS)}>
          {trans.__('Show %1 more of this turn (%2 are above)', Math.min(PARTS, hidden), hidden)}
        </button>
      )}
      {/* In one list: what comes keeps its place, and what was drawn of it, once it is stored. */}
      {[
        ...parts
          .slice(hidden)
          .map(each =>
            each.drawn === 'reads' ? (
              <Reads key={each.key} reads={each} conversation={conversation} />
            ) : (
              partView(each.part, each === last, conversation)
            )
          ),
        ...draft.map(block => draftView(block, partKey(turn.answers, block.index)))
      ]}
    </div>
  );
}

/** last: nothing followed it yet. */
function partView(part: Part, last: boolean, conversation: IConversation): React.JSX.Element {
  const { key } = part;
  switch (part.part) {
    case 'text':
      return <Words key={key} text={part.text} open={false} partial={part.partial} />;
    case 'thinking':
      return <Thinking key={key} text={part.text} open={false} />;
    case 'call':
      return <Card key={key} call={part} newest={last} conversation={conversation} />;
    case 'asked':
      return <Asked key={key} part={part} />;
    case 'wait':
      return <Waited key={key} part={part} />;
    case 'mark':
      return <Mark key={key} part={part} />;
  }
}

/** A piece of the answer that comes. */
function draftView(block: DraftBlock, key: string): React.JSX.Element {
  switch (block.kind) {
    case 'text':
      return <Words key={key} text={block.text} open={true} partial={false} />;
    case 'thinking':
      return <Thinking key={key} text={block.text} open={true} />;
    case 'tool':
      return <Writing key={key} name={block.name} size={block.text.length} />;
  }
}

const Words = React.memo(function Words(props: {
  text: string;
  open: boolean;
  partial: boolean;
}): React.JSX.Element {
  const { trans } = useSurroundings();
  return (
    <div className="jp-Reprise-words">
      <Prose text={props.text} open={props.open} />
      {props.partial && (
        <p className="jp-Reprise-secondary">{trans.__('Cut off here: its end did not come.')}</p>
      )}
      {!props.open && (
        <div className="jp-Reprise-words-ways">
          <CopyButton text={props.text} label={trans.__('Copy')} />
        </div>
      )}
    </div>
  );
});

/** A wait that is over; one that lasts stands at the end of the turn. */
function Waited(props: { part: WaitPart }): React.JSX.Element | null {
  const { part } = props;
  const { trans } = useSurroundings();
  if (part.overUs === null) {
    return null;
  }
  const took = duration((part.overUs - part.atUs) / 1e6, trans);
  return <p className="jp-Reprise-underway">{trans.__('Waited %1: %2', took, part.why)}</p>;
}

function Writing(props: { name: string; size: number }): React.JSX.Element {
  const { trans } = useSurroundings();
  return (
    <p className="jp-Reprise-underway">
      <span className="jp-Reprise-busy" aria-hidden="true" />{' '}
      {trans.__('Writes a call of %1', props.name)}
      {props.size > 200 && ` · ${trans.__('%1 characters', count(props.size))}`}
    </p>
  );
}

const Thinking = React.memo(function Thinking(props: {
  text: string;
  open: boolean;
}): React.JSX.Element {
  const { trans } = useSurroundings();
  const [open, setOpen] = React.useState(false);
  const id = React.useId();
  const newest = props.text.trimEnd().split('\n').at(-1) ?? '';
  return (
    <section className="jp-Reprise-thinking">
      <CardHead open={open} controls={id} press={() => setOpen(!open)}>
        <span className="jp-Reprise-card-verb">{trans.__('Thinking')}</span>
        {props.open && !open && <span className="jp-Reprise-card-line">{exact(newest)}</span>}
      </CardHead>
      {open && (
        <div className="jp-Reprise-thinking-text" id={id}>
          {exact(props.text)}
        </div>
      )}
    </section>
  );
});

/** A question of the model's own, and what it was told. */
function Asked(props: { part: AskedPart }): React.JSX.Element | null {
  const { question, decided } = props.part;
  const { trans } = useSurroundings();
  if (decided === null) {
    // It stands above the composer.
    return null;
  }
  const answer =
    decided.how === 'timeout'
      ? trans.__('Nobody answered in time. The agent was told.')
      : decided.how === 'cancelled'
        ? trans.__('Not asked any more.')
        : decided.decision;
  return (
    <div className="jp-Reprise-asked">
      <Prose text={question.text} open={false} />
      <p>
        <span className="jp-Reprise-who">{trans.__('You')}</span> {exact(answer)}
      </p>
    </div>
  );
}

function Mark(props: { part: MarkPart }): React.JSX.Element {
  const { part } = props;
  const { trans } = useSurroundings();
  const [open, setOpen] = React.useState(false);
  const id = React.useId();
  switch (part.mark) {
    case 'continued':
      return (
        <p className="jp-Reprise-chat-mark">
          <span>
            {part.why === '' ? trans.__('Continued') : trans.__('%1 Continued.', part.why)}
          </span>
        </p>
      );
    case 'session':
      return (
        <p className="jp-Reprise-chat-mark">
          <span>
            {part.why === 'rewind'
              ? trans.__('Rewound: goes on in a fork. The session that is left stays listed.')
              : trans.__('Goes on in another session (%1).', part.why)}
          </span>
        </p>
      );
    case 'compacted':
      return (
        <div className="jp-Reprise-chat-mark">
          <button
            className="jp-Reprise-quiet-button"
            aria-expanded={open}
            aria-controls={id}
            onClick={() => setOpen(!open)}
          >
            {trans.__('The context was full: what came before was summed up for the model')}
          </button>
          {open && (
            <div id={id}>
              <Prose text={part.text} open={false} />
            </div>
          )}
        </div>
      );
  }
}
