/** The conversations of a notebook: searched, opened, renamed, exported, deleted. */

import * as React from 'react';

import type { ConversationInfo, IAgent } from '../agent/tokens';
import { Empty, ErrorNotice, Loading } from '../parts/notices';
import { exact, moment } from '../parts/words';
import { useAct, useSurroundings } from './context';
import type { Desk } from './desk';
import { askDelete, askTitle } from './dialogs';

/** Milliseconds after the last key of a search until it is asked. */
const PAUSE = 250;

export function List(props: {
  agent: IAgent;
  desk: Desk;
  save: (info: ConversationInfo, as: 'markdown' | 'json') => Promise<void>;
}): React.JSX.Element {
  const { agent, desk, save } = props;
  const { trans } = useSurroundings();
  const [words, setWords] = React.useState('');
  const [found, setFound] = React.useState<readonly ConversationInfo[] | null>(null);
  const [error, setError] = React.useState<unknown>(null);
  const asked = React.useRef(0);
  const look = React.useCallback(() => {
    asked.current += 1;
    const number = asked.current;
    desk.list(words).then(
      list => {
        if (number === asked.current) {
          setFound(list);
          setError(null);
        }
      },
      (failed: unknown) => {
        if (number === asked.current) {
          setError(failed);
        }
      }
    );
  }, [desk, words]);
  React.useEffect(() => {
    const timer = setTimeout(look, words === '' ? 0 : PAUSE);
    agent.listChanged.connect(look);
    return () => {
      clearTimeout(timer);
      agent.listChanged.disconnect(look);
    };
  }, [agent, look, words]);
  React.useEffect(
    () => () => {
      asked.current += 1;
    },
    []
  );
  return (
    <div className="jp-Reprise-chats">
      {/* A plain field: the button in JupyterLab's FilterBox has no name for readers. */}
      <input
        className="jp-mod-styled jp-Reprise-chats-search"
        type="search"
        value={words}
        maxLength={200}
        placeholder={trans.__('Search what was said')}
        aria-label={trans.__('Search what was said')}
        onChange={event => setWords(event.target.value)}
      />
      {error !== null && <ErrorNotice error={error} trans={trans} again={look} />}
      {found === null && error === null && <Loading trans={trans} />}
      {found?.length === 0 &&
        (words === '' ? (
          <Empty
            lines={[trans.__('No conversation yet.')]}
            action={{ label: trans.__('Begin one'), run: () => desk.fresh() }}
          />
        ) : (
          <Empty lines={[trans.__('Nothing that was said holds these words.')]} />
        ))}
      {found !== null && found.length > 0 && (
        <ul className="jp-Reprise-chats-list">
          {found.map(info => (
            <Row key={info.id} info={info} agent={agent} desk={desk} save={save} />
          ))}
        </ul>
      )}
    </div>
  );
}

function Row(props: {
  info: ConversationInfo;
  agent: IAgent;
  desk: Desk;
  save: (info: ConversationInfo, as: 'markdown' | 'json') => Promise<void>;
}): React.JSX.Element {
  const { info, agent, desk, save } = props;
  const { trans } = useSurroundings();
  const acting = useAct();
  const shown = titleOf(info.title, trans.__('Untitled conversation'));
  const here = desk.conversation?.id === info.id;
  const elsewhere = desk.notebook?.id != null && info.session !== desk.notebook.id;
  return (
    <li className={`jp-Reprise-chats-row${here ? ' jp-mod-current' : ''}`}>
      <button
        className="jp-Reprise-chats-open"
        aria-current={here}
        onClick={() => desk.choose(info.id)}
      >
        <span className="jp-Reprise-chats-title">{exact(shown)}</span>
        <span className="jp-Reprise-secondary">
          {[
            trans._n('1 turn', '%1 turns', info.turns),
            moment(new Date(info.last_at)),
            elsewhere ? trans.__('in another session') : ''
          ]
            .filter(each => each !== '')
            .join(' · ')}
        </span>
      </button>
      <div className="jp-Reprise-chats-ways">
        <button
          className="jp-Reprise-quiet-button"
          disabled={acting.busy}
          onClick={() => acting.act(() => askTitle(agent, info, shown, trans))}
        >
          {trans.__('Rename')}
        </button>
        <button
          className="jp-Reprise-quiet-button"
          disabled={acting.busy}
          onClick={() => acting.act(() => save(info, 'markdown'))}
        >
          {trans.__('Export')}
        </button>
        <button
          className="jp-Reprise-quiet-button"
          disabled={acting.busy}
          onClick={() =>
            acting.act(async () => {
              if (await askDelete(agent, info, shown, trans)) {
                desk.forget(info.id);
              }
            })
          }
        >
          {trans.__('Delete')}
        </button>
      </div>
      {acting.error !== null && <ErrorNotice error={acting.error} trans={trans} />}
    </li>
  );
}

export function titleOf(title: string, otherwise: string): string {
  return title.trim() === '' ? otherwise : title.trim();
}
