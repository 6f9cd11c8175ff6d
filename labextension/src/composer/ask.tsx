// A question at a cell, and its answer there: the same conversation as the chat's, in little.

import { ReactWidget } from '@jupyterlab/apputils';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import { closeIcon, UseSignal } from '@jupyterlab/ui-components';
import { Panel } from '@lumino/widgets';
import * as React from 'react';

import type { Part, Turn } from '../agent/model';
import { SafeMarkdown } from '../parts/markdown';
import type { InlineHost } from './inline';
import type { IComposer } from './tokens';

/** What an answer at a cell leads to. */
export interface ILeads {
  /** Show the conversation in the chat. */
  readonly chat: (conversation: string) => void;
  /** Show what waits for a person. */
  readonly question: () => void;
}

/** The input, and below it what came of the newest question that was asked here. */
export class AskPanel extends Panel {
  constructor(options: {
    readonly composer: IComposer;
    readonly host: InlineHost;
    readonly rendermime: IRenderMimeRegistry;
    readonly trans: TranslationBundle;
    readonly name: string;
    readonly leads: ILeads;
    readonly close: () => void;
  }) {
    super();
    const { composer, host, rendermime, trans, name, leads, close } = options;
    this._host = host;
    this.addClass('jp-Reprise-ask');
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', trans.__('Ask about %1', name));
    const head = ReactWidget.create(
      <div className="jp-Reprise-ask-head">
        <span>{trans.__('Ask about %1', name)}</span>
        <button
          type="button"
          className="jp-Reprise-composer-small"
          title={trans.__('Close')}
          aria-label={trans.__('Close')}
          onClick={close}
        >
          <closeIcon.react tag="span" aria-hidden="true" />
        </button>
      </div>
    );
    const answer = ReactWidget.create(
      <UseSignal signal={host.changed}>
        {() => <AskAnswer host={host} rendermime={rendermime} trans={trans} leads={leads} />}
      </UseSignal>
    );
    this.addWidget(head);
    this.addWidget(composer.widget);
    this.addWidget(answer);
  }

  override dispose(): void {
    super.dispose();
    this._host.dispose();
  }

  private readonly _host: InlineHost;
}

/** The turn that a message began. */
function turnOf(host: InlineHost): Turn | null {
  const turns = host.shown?.model.turns ?? [];
  return host.sent === null
    ? null
    : ([...turns].reverse().find(each => each.said === host.sent) ?? null);
}

function AskAnswer(props: {
  host: InlineHost;
  rendermime: IRenderMimeRegistry;
  trans: TranslationBundle;
  leads: ILeads;
}): React.JSX.Element | null {
  const { host, rendermime, trans, leads } = props;
  const conversation = host.shown;
  const turn = turnOf(host);
  if (conversation === null || turn === null) {
    return null;
  }
  const calls = turn.parts.filter(each => each.part === 'call').length;
  const newest = turn === conversation.model.turns.at(-1);
  const asks = newest && conversation.model.questions.length > 0;
  return (
    <div className="jp-Reprise-ask-answer">
      {turn.parts.map(part => (
        <Words key={part.key} part={part} rendermime={rendermime} />
      ))}
      {newest && turn.ended === null && (
        // A signal that is another is connected by a component that is another.
        <UseSignal key={conversation.id} signal={conversation.streamed}>
          {() => (
            <>
              {conversation.draft
                .filter(each => each.kind === 'text' && each.text !== '')
                .map(each => (
                  <SafeMarkdown key={each.index} rendermime={rendermime} text={each.text} />
                ))}
            </>
          )}
        </UseSignal>
      )}
      <p className="jp-Reprise-ask-foot">
        <span role="status">
          {asks
            ? trans.__('The agent asks you something.')
            : turn.ended === null
              ? trans.__('Answering…')
              : turn.ended === 'done'
                ? calls > 0
                  ? trans._n(
                      'Done, with %1 call of a tool.',
                      'Done, with %1 calls of tools.',
                      calls
                    )
                  : trans.__('Done.')
                : (turn.why ?? trans.__('It did not come to its end.'))}
        </span>
        {asks && (
          <button type="button" className="jp-mod-styled" onClick={leads.question}>
            {trans.__('Show the question')}
          </button>
        )}
        <button type="button" className="jp-mod-styled" onClick={() => leads.chat(conversation.id)}>
          {trans.__('Open in the chat')}
        </button>
      </p>
    </div>
  );
}

function Words(props: { part: Part; rendermime: IRenderMimeRegistry }): React.JSX.Element | null {
  const { part, rendermime } = props;
  return part.part === 'text' ? <SafeMarkdown rendermime={rendermime} text={part.text} /> : null;
}
