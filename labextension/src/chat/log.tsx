/** The turns of a conversation in a scrolled log: the newest ones mounted, its end followed. */

import * as React from 'react';

import type { IConversation } from '../agent/tokens';
import { Loading } from '../parts/notices';
import { count } from '../parts/words';
import { useConversation, useSurroundings } from './context';
import { TurnView } from './turn';

/** Turns that are mounted, and as many more on demand. */
export const TURNS = 30;
/** CSS pixels from the end within which the end is followed. */
const NEAR = 40;

/** sent: how many messages were sent from this page. */
export function Log(props: { conversation: IConversation; sent: number }): React.JSX.Element {
  const { conversation } = props;
  const { trans } = useSurroundings();
  const turns = useConversation(conversation, each => each.model.turns);
  const whole = useConversation(conversation, each => each.whole);
  const opening = useConversation(conversation, each => each.model.seq < 0);
  const [most, setMost] = React.useState(TURNS);
  const end = useEnd();
  const below = useBelow(conversation, end.following);
  const hidden = Math.max(0, turns.length - most);
  const last = turns.at(-1);
  const { follow } = end;
  // Whoever says something looks at what comes of it.
  React.useLayoutEffect(follow, [follow, props.sent]);
  return (
    <div className="jp-Reprise-log-frame">
      <div
        className="jp-Reprise-log"
        role="log"
        aria-live="off"
        aria-label={trans.__('Conversation')}
        tabIndex={0}
        ref={end.scroller}
      >
        <div className="jp-Reprise-log-turns" ref={end.content}>
          {opening && <Loading trans={trans} />}
          {!whole && !opening && <Loading trans={trans} rows={1} />}
          {hidden > 0 && (
            <button
              className="jp-Reprise-quiet-button jp-Reprise-more"
              onClick={() => setMost(most + TURNS)}
            >
              {trans.__(
                'Show %1 more turns (%2 are above)',
                Math.min(TURNS, hidden),
                count(hidden)
              )}
            </button>
          )}
          {turns.slice(hidden).map(turn => (
            <TurnView
              key={turn.turn}
              turn={turn}
              newest={turn === last}
              conversation={conversation}
            />
          ))}
        </div>
      </div>
      {!end.following && (
        <button className="jp-Reprise-below jp-mod-styled" onClick={end.follow}>
          {below > 0 ? trans.__('New below (%1)', below) : trans.__('To the end')}
        </button>
      )}
    </div>
  );
}

interface End {
  readonly scroller: React.RefCallback<HTMLDivElement>;
  readonly content: React.RefCallback<HTMLDivElement>;
  readonly following: boolean;
  readonly follow: () => void;
}

/**
 * Keeps the end in view while it is followed. It is scrolled when the content's size was found to be
 * another one, between layout and paint: nothing is measured that is not laid out already.
 */
function useEnd(): End {
  const [following, setFollowing] = React.useState(true);
  const state = React.useRef<{ node: HTMLElement | null; follows: boolean; top: number }>({
    node: null,
    follows: true,
    top: 0
  });
  const toEnd = React.useCallback(() => {
    const { node, follows } = state.current;
    if (node !== null && follows) {
      node.scrollTop = node.scrollHeight;
      state.current.top = node.scrollTop;
    }
  }, []);
  const observer = React.useMemo(() => new ResizeObserver(toEnd), [toEnd]);
  React.useEffect(() => () => observer.disconnect(), [observer]);
  const scrolled = React.useCallback(() => {
    const { node } = state.current;
    if (node !== null) {
      const near = node.scrollHeight - node.clientHeight - node.scrollTop <= NEAR;
      // Only a person scrolls up: what comes makes the end go away, and moves nothing.
      const up = node.scrollTop < state.current.top - 1;
      state.current.top = node.scrollTop;
      if (near || up) {
        state.current.follows = near;
        setFollowing(near);
      }
    }
  }, []);
  const scroller = React.useCallback(
    (node: HTMLDivElement | null) => {
      state.current.node?.removeEventListener('scroll', scrolled);
      state.current.node = node;
      if (node !== null) {
        node.addEventListener('scroll', scrolled, { passive: true });
        observer.observe(node);
      }
    },
    [observer, scrolled]
  );
  const content = React.useCallback(
    (node: HTMLDivElement | null) => {
      if (node !== null) {
        observer.observe(node);
      }
    },
    [observer]
  );
  const follow = React.useCallback(() => {
    state.current.follows = true;
    setFollowing(true);
    toEnd();
  }, [toEnd]);
  return { scroller, content, following, follow };
}

/** Parts that came since the end was left. */
function useBelow(conversation: IConversation, following: boolean): number {
  const parts = useConversation(conversation, each => {
    const turn = each.model.turns.at(-1);
    return (turn?.parts.length ?? 0) + each.model.turns.length * 1_000_000;
  });
  const left = React.useRef(parts);
  if (following) {
    left.current = parts;
  }
  const more = parts - left.current;
  return more >= 1_000_000 ? 1 : Math.max(0, more);
}
