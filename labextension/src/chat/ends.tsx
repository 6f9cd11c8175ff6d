/** How the newest turn stands at its end: under way, waiting, being stopped, ended; and what to do. */

import * as React from 'react';

import type { Turn, WaitPart } from '../agent/model';
import type { IConversation } from '../agent/tokens';
import { ErrorNotice, Notice } from '../parts/notices';
import { duration } from '../parts/words';
import { useAct, useClock, useConversation, useSurroundings } from './context';
import { useDialogs } from './dialogs';

/** Below the newest turn. */
export function TurnStanding(props: {
  turn: Turn;
  conversation: IConversation;
}): React.JSX.Element | null {
  const { turn, conversation } = props;
  const running = useConversation(conversation, each => each.running);
  const stopping = useConversation(conversation, each => each.stopping);
  const yours = useConversation(conversation, each => each.yours);
  if (stopping) {
    return <Stopping turn={turn} conversation={conversation} yours={yours} />;
  }
  if (turn.ended === null) {
    return running ? (
      <UnderWay turn={turn} conversation={conversation} />
    ) : (
      <Elsewhere conversation={conversation} />
    );
  }
  return <Ended turn={turn} conversation={conversation} yours={yours} />;
}

function Stopping(props: {
  turn: Turn;
  conversation: IConversation;
  yours: boolean;
}): React.JSX.Element {
  const { turn, conversation, yours } = props;
  const { trans } = useSurroundings();
  const again = useAct();
  const runs = turn.parts.filter(part => part.part === 'call' && part.standing === 'running');
  return (
    <Notice
      kind="info"
      actions={
        yours && (
          <button
            className="jp-mod-styled"
            disabled={again.busy}
            onClick={() => again.act(() => conversation.cancel())}
          >
            {trans.__('Stop without waiting')}
          </button>
        )
      }
    >
      {runs.length > 0
        ? trans.__('Stopping: one command still ends')
        : trans.__('Stopping: the model is told')}
      {again.error !== null && <ErrorNotice error={again.error} trans={trans} />}
    </Notice>
  );
}

/** What is waited for, in a line: the model, a step, a wait before another attempt. */
function UnderWay(props: { turn: Turn; conversation: IConversation }): React.JSX.Element | null {
  const { turn, conversation } = props;
  const { trans } = useSurroundings();
  const draft = useConversation(conversation, each => each.draft.length > 0);
  const askedUs = useConversation(conversation, each => each.model.askedUs);
  const last = turn.parts.at(-1);
  if (last?.part === 'wait' && last.overUs === null && !draft) {
    return <Waiting wait={last} conversation={conversation} />;
  }
  if (draft || askedUs === null) {
    return null;
  }
  return (
    <p className="jp-Reprise-underway">
      <span className="jp-Reprise-busy" aria-hidden="true" /> {trans.__('Waiting for the model')}
      <Since us={askedUs} />
    </p>
  );
}

function Since(props: { us: number }): React.JSX.Element | null {
  const { trans } = useSurroundings();
  const now = useClock(true);
  const seconds = now / 1e3 - props.us / 1e6;
  return seconds < 3 ? null : (
    <span className="jp-Reprise-secondary"> · {duration(Math.floor(seconds), trans)}</span>
  );
}

function Waiting(props: { wait: WaitPart; conversation: IConversation }): React.JSX.Element {
  const { wait, conversation } = props;
  const { trans } = useSurroundings();
  const now = useClock(true);
  const stop = useAct();
  const left = Math.max(0, Math.ceil(wait.atUs / 1e6 + wait.seconds - now / 1e3));
  return (
    <Notice
      kind="warning"
      actions={
        conversation.yours && (
          <button
            className="jp-mod-styled"
            disabled={stop.busy}
            onClick={() => stop.act(() => conversation.cancel())}
          >
            {trans.__('Stop')}
          </button>
        )
      }
    >
      {wait.why}{' '}
      <span aria-hidden="true">
        {left > 0
          ? trans.__('It is asked again in %1 s (attempt %2).', left, wait.attempt)
          : trans.__('It is asked again now (attempt %1).', wait.attempt)}
      </span>
    </Notice>
  );
}

function Elsewhere(props: { conversation: IConversation }): React.JSX.Element {
  const { trans } = useSurroundings();
  const client = useConversation(props.conversation, each => each.model.client);
  return (
    <p className="jp-Reprise-underway">
      {client === null
        ? trans.__('Its turn runs in another program, such as a terminal. It is shown as it comes.')
        : trans.__('%1 works here by the Model Context Protocol. Read only.', client)}
    </p>
  );
}

function Ended(props: {
  turn: Turn;
  conversation: IConversation;
  yours: boolean;
}): React.JSX.Element {
  const { turn, conversation, yours } = props;
  const { trans } = useSurroundings();
  const going = useAct();
  const dialogs = useDialogs(conversation);
  const said = endedWords(turn, trans);
  const goOn = (
    <button
      className="jp-mod-styled jp-mod-accept"
      disabled={going.busy}
      onClick={() => going.act(() => conversation.goOn())}
    >
      {trans.__('Continue')}
    </button>
  );
  const undo = (
    <button className="jp-mod-styled" disabled={going.busy} onClick={() => going.act(dialogs.undo)}>
      {trans.__('Undo turn')}
    </button>
  );
  const retry = (
    <button
      className="jp-Reprise-quiet-button"
      disabled={going.busy}
      onClick={() => going.act(() => dialogs.retry(turn))}
    >
      {trans.__('Retry')}
    </button>
  );
  const error = going.error !== null && <ErrorNotice error={going.error} trans={trans} />;
  if (turn.undone !== null) {
    return (
      <>
        <Undone turn={turn} />
        {error}
      </>
    );
  }
  if (said === null || turn.ended === 'refused') {
    return (
      <>
        {said !== null && <Notice kind="warning">{said}</Notice>}
        {yours && (
          <div className="jp-Reprise-turn-ways">
            {retry}
            <button
              className="jp-Reprise-quiet-button"
              disabled={going.busy}
              onClick={() => going.act(dialogs.undo)}
            >
              {trans.__('Undo turn')}
            </button>
          </div>
        )}
        {error}
      </>
    );
  }
  return (
    <>
      <Notice
        kind={turn.ended === 'failed' ? 'error' : 'info'}
        actions={
          yours && (
            <>
              {goOn}
              {undo}
            </>
          )
        }
      >
        {said}
      </Notice>
      {error}
    </>
  );
}

function endedWords(turn: Turn, trans: ReturnType<typeof useSurroundings>['trans']): string | null {
  const why = turn.why ?? '';
  switch (turn.ended) {
    case 'cancelled':
      return turn.lastStep === null
        ? trans.__('Stopped. It had run no step.')
        : trans.__('Stopped after step %1.', turn.lastStep);
    case 'failed':
      return why === '' ? trans.__('The turn failed.') : why;
    case 'budget':
      return why === '' ? trans.__('The bound of this turn is reached.') : why;
    case 'interrupted':
      return why === '' ? trans.__('Interrupted.') : trans.__('Interrupted. %1', why);
    case 'refused':
      return why === '' ? trans.__('The model declined to answer.') : why;
    default:
      return null;
  }
}

/** What came back by the undo of a turn, and what did not. */
export function Undone(props: { turn: Turn }): React.JSX.Element | null {
  const { trans } = useSurroundings();
  const { undone } = props.turn;
  if (undone === null) {
    return null;
  }
  const kept = undone.kept.length;
  return (
    <Notice kind="info">
      {undone.at < 0
        ? trans.__('Undone: back before the first step.')
        : trans.__('Undone: back at step %1.', undone.at)}{' '}
      {undone.cells.length > 0 &&
        trans._n('1 cell is as it was.', '%1 cells are as they were.', undone.cells.length)}{' '}
      {kept > 0 &&
        trans._n(
          '1 cell that you edited since stays as it is.',
          '%1 cells that you edited since stay as they are.',
          kept
        )}
      {undone.outside.length > 0 && (
        <ul className="jp-Reprise-card-outside">
          {undone.outside.map((each, place) => (
            <li key={place}>{trans.__('Not undone: %1', each)}</li>
          ))}
        </ul>
      )}
    </Notice>
  );
}
