/** The body of the chat panel: its log and what is pinned below, or the list, or what to do first. */

import { UseSignal } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { ConversationInfo, IAgent, IConversation, LineState } from '../agent/tokens';
import { ConnectionNotice, Empty, ErrorNotice, Loading, Notice } from '../parts/notices';
import { clock, moment } from '../parts/words';
import { useClock, useConversation, useSurroundings } from './context';
import type { Desk } from './desk';
import { List } from './list';
import { Log } from './log';
import { Pinned } from './pinned';

export interface ViewProps {
  readonly agent: IAgent;
  readonly desk: Desk;
  readonly save: (info: ConversationInfo, as: 'markdown' | 'json') => Promise<void>;
  /** Words into the composer: a suggestion of the empty panel. */
  readonly suggest: (text: string) => void;
  /** Makes a notebook; null where no part does. */
  readonly newNotebook: () => (() => void) | null;
}

export function View(props: ViewProps): React.JSX.Element {
  const { desk } = props;
  return (
    <UseSignal signal={desk.changed}>
      {() =>
        desk.listing ? (
          <List agent={props.agent} desk={desk} save={props.save} />
        ) : desk.conversation === null ? (
          <Nothing {...props} />
        ) : (
          <Shown key={desk.conversation.id} conversation={desk.conversation} {...props} />
        )
      }
    </UseSignal>
  );
}

function Shown(props: ViewProps & { conversation: IConversation }): React.JSX.Element {
  const { conversation } = props;
  const { trans, api } = useSurroundings();
  const line = useConversation(conversation, each => each.line);
  const notes = useConversation(conversation, each => each.notes);
  const client = useConversation(conversation, each => each.model.client);
  const scripted = useConversation(conversation, each => each.model.scripted);
  const none = useConversation(conversation, each => each.model.turns.length === 0 && each.whole);
  return (
    <>
      {api.connection.line.state !== 'online' || line.is === 'expired' ? (
        <ConnectionNotice connection={api.connection} trans={trans} />
      ) : (
        <OffLine line={line} conversation={conversation} desk={props.desk} />
      )}
      {client !== null && (
        <Notice kind="info">
          {trans.__(
            'A conversation of %1, which works in this session by the Model Context Protocol. Read only.',
            client
          )}
        </Notice>
      )}
      {scripted && (
        <Notice kind="info">
          {trans.__('No model answers here: what the agent says is a script.')}
        </Notice>
      )}
      {none ? (
        <Nothing {...props} />
      ) : (
        <Log conversation={conversation} sent={props.desk.host.sent} />
      )}
      {notes.map((note, place) => (
        <Notice key={place} kind="warning">
          {note}
        </Notice>
      ))}
      <Pinned conversation={conversation} />
    </>
  );
}

/** The line of this conversation alone does not stand, though the server answers. */
function OffLine(props: {
  line: LineState;
  conversation: IConversation;
  desk: Desk;
}): React.JSX.Element | null {
  const { line, conversation } = props;
  const { trans } = useSurroundings();
  const now = useClock(line.is === 'offline');
  if (line.is === 'refused') {
    return (
      <Notice
        kind="error"
        actions={
          <>
            <button className="jp-mod-styled" onClick={() => conversation.reconnect()}>
              {trans.__('Try again')}
            </button>
            <button className="jp-mod-styled" onClick={() => props.desk.fresh()}>
              {trans.__('New conversation')}
            </button>
          </>
        }
      >
        {line.why}
      </Notice>
    );
  }
  // What is back within a moment is no news.
  if (line.is !== 'offline' || now - line.since < 2_000) {
    return null;
  }
  const left = (line.nextTry - now) / 1e3;
  return (
    <Notice
      kind="warning"
      actions={
        <button className="jp-mod-styled" onClick={() => conversation.reconnect()}>
          {trans.__('Try now')}
        </button>
      }
    >
      {trans.__('Connection lost. What you see is as of %1.', moment(new Date(line.since)))}{' '}
      <span aria-hidden="true">{trans.__('Next try in %1.', clock(left))}</span>
    </Notice>
  );
}

/** Before anything was said: three lines, and suggestions that fit the notebook. */
function Nothing(props: ViewProps): React.JSX.Element {
  const { desk, suggest } = props;
  const { trans } = useSurroundings();
  const { notebook, finding, host } = desk;
  if (notebook === null) {
    const make = props.newNotebook();
    return (
      <Empty
        lines={[
          trans.__('Ask about a notebook.'),
          trans.__('Open one that runs on Reprise; the conversation is about it.')
        ]}
        action={make === null ? undefined : { label: trans.__('New notebook'), run: make }}
      />
    );
  }
  if (finding.is === 'failed') {
    return <ErrorNotice error={finding.error} trans={trans} again={() => desk.look()} />;
  }
  if (finding.is === 'looking' || notebook.id === null) {
    return <Loading trans={trans} />;
  }
  return (
    <div className="jp-Reprise-first">
      <Empty
        lines={[
          trans.__('Ask about this notebook.'),
          trans.__('What it does is a step: visible, undoable.')
        ]}
      />
      {host.why === '' && (
        <div className="jp-Reprise-suggestions">
          {suggestions(notebook.panel, trans).map(each => (
            <button key={each.label} className="jp-mod-styled" onClick={() => suggest(each.words)}>
              {each.label}
            </button>
          ))}
        </div>
      )}
      {host.why !== '' && <Notice kind="info">{host.why}</Notice>}
    </div>
  );
}

interface Suggestion {
  readonly label: string;
  readonly words: string;
}

/** Three at most, of what stands in the notebook: its last error first. */
function suggestions(
  panel: NonNullable<Desk['notebook']>['panel'],
  trans: ReturnType<typeof useSurroundings>['trans']
): readonly Suggestion[] {
  const cells = [...(panel.model?.cells ?? [])];
  const shows = (type: string): boolean =>
    cells.some(cell => {
      const outputs = cell.sharedModel.toJSON()['outputs'];
      return (
        Array.isArray(outputs) &&
        outputs.some(
          output =>
            typeof output === 'object' &&
            output !== null &&
            (output as Record<string, unknown>)['output_type'] === type
        )
      );
    });
  const code = cells.some(
    cell => cell.type === 'code' && cell.sharedModel.getSource().trim() !== ''
  );
  const all: readonly (Suggestion & { fits: boolean })[] = [
    {
      fits: shows('error'),
      label: trans.__('Explain the last error'),
      words: trans.__('Explain the last error in this notebook, and how to mend it.')
    },
    {
      fits: code,
      label: trans.__('Explain this notebook'),
      words: trans.__('Explain what this notebook does, cell by cell, in a few sentences.')
    },
    {
      fits: true,
      label: trans.__('What files are here?'),
      words: trans.__('Which files are in the workspace, and what is in them?')
    },
    {
      fits: code,
      label: trans.__('Run it from the top'),
      words: trans.__('Run all cells from the top, and tell me what fails.')
    }
  ];
  return all.filter(each => each.fits).slice(0, 3);
}
