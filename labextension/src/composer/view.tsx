// The composer as it is seen: input, list, chips, queue, meter. It is never disabled while a turn runs.

import type { TranslationBundle } from '@jupyterlab/translation';
import { closeIcon, editIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ErrorNotice } from '../parts/notices';
import type { IAnnouncer } from '../parts/tokens';
import { exact, firstLine } from '../parts/words';
import { optionId, SuggestionList } from './list';
import { IQuery, queryAt, replaced } from './mentions';
import { contentOf, type IItem } from './message';
import { Meter } from './meter';
import { ILimits, MeterView } from './meterview';
import { IFound, ISources, ISuggestion, suggestionsFor } from './suggestions';
import type { Writing } from './writing';

/** Milliseconds after the last letter of a query until readers are told how much fits it. */
const SETTLED = 800;

/** What a composer needs beside what is written. */
export interface IViewProps {
  readonly writing: Writing;
  readonly sources: ISources;
  readonly trans: TranslationBundle;
  readonly announcer: IAnnouncer | null;
  readonly limits: ILimits | null;
  readonly showMoney: boolean;
  /** One line high, without the meter. */
  readonly compact: boolean;
  /** For the input's own node, to be focused. */
  readonly input: React.RefObject<HTMLTextAreaElement>;
}

export function ComposerView(props: IViewProps): React.JSX.Element {
  const { writing, trans, compact } = props;
  const [, redraw] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    writing.changed.connect(redraw);
    redraw();
    return () => {
      writing.changed.disconnect(redraw);
    };
  }, [writing]);
  // One input for each writing: it keeps its node, and so the focus, when its conversation is begun.
  const shown = React.useRef({ writing, number: 0 });
  if (shown.current.writing !== writing) {
    shown.current = { writing, number: shown.current.number + 1 };
  }
  return (
    <div className="jp-Reprise-composer-body">
      {writing.error !== null && <ErrorNotice error={writing.error} trans={trans} />}
      <Queue writing={writing} trans={trans} />
      <Chips writing={writing} trans={trans} />
      {!compact && <Foot {...props} />}
      <Input key={shown.current.number} {...props} />
    </div>
  );
}

/** What waits for the end of the turn. */
function Queue(props: { writing: Writing; trans: TranslationBundle }): React.JSX.Element | null {
  const { writing, trans } = props;
  const waiting = writing.sending ? writing.queue.slice(1) : writing.queue;
  if (waiting.length === 0) {
    return null;
  }
  const first = writing.queue.length - waiting.length;
  return (
    <section className="jp-Reprise-composer-queue" aria-label={trans.__('Queued')}>
      <p>
        {writing.held
          ? trans.__('The turn did not come to its end, so this waits for you.')
          : trans.__('Sent when this turn has ended:')}
        {writing.held && (
          <button type="button" className="jp-mod-styled" onClick={() => void writing.sendNow()}>
            {trans.__('Send now')}
          </button>
        )}
      </p>
      <ul>
        {waiting.map((each, index) => {
          const words = firstLine(each.words, 80) || each.items.map(item => item.title).join(', ');
          return (
            <li key={first + index}>
              <span>{exact(words)}</span>
              <button
                type="button"
                className="jp-Reprise-composer-small"
                title={trans.__('Take back into the input')}
                aria-label={trans.__('Take back into the input: %1', words)}
                onClick={() => writing.unqueue(first + index, true)}
              >
                <editIcon.react tag="span" aria-hidden="true" />
              </button>
              <button
                type="button"
                className="jp-Reprise-composer-small"
                title={trans.__('Do not send')}
                aria-label={trans.__('Do not send: %1', words)}
                onClick={() => writing.unqueue(first + index, false)}
              >
                <closeIcon.react tag="span" aria-hidden="true" />
              </button>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** What is brought along: seen to the last byte, and removed, before it is sent. */
function Chips(props: { writing: Writing; trans: TranslationBundle }): React.JSX.Element | null {
  const { writing, trans } = props;
  const [open, setOpen] = React.useState<string | null>(null);
  const id = React.useId();
  if (writing.items.length === 0) {
    return null;
  }
  const keyOf = (item: IItem): string =>
    `${item.kind}:${item.name}:${item.fixed === true ? 'fixed' : ''}`;
  const shown = writing.items.find(item => keyOf(item) === open);
  return (
    <div className="jp-Reprise-composer-chips">
      <ul aria-label={trans.__('Brought along')}>
        {writing.items.map(item => (
          <li key={keyOf(item)} className="jp-Reprise-chip">
            <button
              type="button"
              className="jp-Reprise-chip-name"
              aria-expanded={item === shown}
              aria-controls={item === shown ? id : undefined}
              title={trans.__('What the model reads of it')}
              onClick={() => setOpen(item === shown ? null : keyOf(item))}
            >
              {exact(item.title)}
            </button>
            <button
              type="button"
              className="jp-Reprise-chip-remove"
              title={trans.__('Do not bring it along')}
              aria-label={trans.__('Do not bring %1 along', item.title)}
              onClick={() => writing.leave(item)}
            >
              <closeIcon.react tag="span" aria-hidden="true" />
            </button>
          </li>
        ))}
      </ul>
      {shown !== undefined && (
        <pre id={id} className="jp-Reprise-chip-content" tabIndex={0}>
          {exact(contentOf(shown))}
        </pre>
      )}
    </div>
  );
}

function Input(props: IViewProps): React.JSX.Element {
  const { writing, sources, trans, announcer, input, compact } = props;
  const { host } = writing;
  const list = React.useId();
  const [query, setQuery] = React.useState<IQuery | null>(null);
  const [found, setFound] = React.useState<{ readonly of: string; readonly is: IFound } | null>(
    null
  );
  /** The one that keys have moved to; the first one until then, whatever else comes. */
  const [moved, setMoved] = React.useState<string | null>(null);
  const caret = React.useRef<number | null>(null);

  const look = React.useCallback((): void => {
    const node = input.current;
    const next =
      node === null || node.selectionStart !== node.selectionEnd
        ? null
        : queryAt(node.value, node.selectionStart);
    setQuery(known => (same(known, next) ? known : next));
  }, [input]);

  const wanted = query === null ? null : query.mark + query.words;
  const acts = host.acts;
  React.useEffect(() => {
    let current = true;
    let settled: ReturnType<typeof setTimeout> | undefined;
    if (query === null) {
      setFound(null);
    } else {
      setMoved(null);
      void suggestionsFor(query, sources, new Set(acts.keys()), trans, answer => {
        if (!current) {
          return;
        }
        setFound({ of: query.mark + query.words, is: answer });
        if (answer.whole) {
          const { length } = answer.suggestions;
          // Not of each letter: what waits to be said would push out what is news.
          settled = setTimeout(() => {
            announcer?.polite(trans._n('%1 suggestion', '%1 suggestions', length));
          }, SETTLED);
        }
      });
    }
    return () => {
      current = false;
      clearTimeout(settled);
    };
    // By what it asks for: a query that only moved is the same question.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [wanted, sources, trans]);

  React.useLayoutEffect(() => {
    const node = input.current;
    if (node === null) {
      return;
    }
    if (caret.current !== null) {
      node.setSelectionRange(caret.current, caret.current);
      caret.current = null;
      look();
    }
    // As high as what is written, within the bound of its style.
    node.style.height = 'auto';
    node.style.height = `${node.scrollHeight}px`;
  });

  const shown = found?.is.suggestions ?? [];
  const open = query !== null && shown.length > 0;
  // What is shown may be of the letter before: nothing is chosen from that.
  const ready = open && found?.of === wanted && (found.is.whole || moved !== null);
  const active = Math.max(
    0,
    shown.findIndex(each => each.key === moved)
  );
  /** Put a suggestion in place of a query, which still stands in the text. */
  const choose = (suggestion: ISuggestion, asked: IQuery | null): void => {
    const text = writing.words;
    if (
      asked === null ||
      text.slice(asked.from + 1, asked.from + 1 + asked.words.length) !== asked.words
    ) {
      return;
    }
    const at = input.current?.selectionStart ?? text.length;
    const made = replaced(text, asked, suggestion.instead);
    // What was typed behind it meanwhile stays, and so does the caret in it.
    caret.current = at > asked.to ? at + made.text.length - text.length : made.caret;
    setQuery(null);
    if (input.current !== null) {
      // At once: a key that is pressed before the next drawing would write over it.
      input.current.value = made.text;
      input.current.setSelectionRange(caret.current, caret.current);
    }
    writing.write(made.text);
    if (suggestion.bring !== null) {
      void writing.fetch(suggestion.bring());
    }
  };
  /** Enter or Tab before all kinds have answered: the best of them, as soon as it is known. */
  const hurry = (asked: IQuery, key: string): void => {
    const before = writing.words;
    let done = false;
    setQuery(null);
    void suggestionsFor(asked, sources, new Set(acts.keys()), trans, answer => {
      const [best] = answer.suggestions;
      if (done || !answer.whole) {
        return;
      }
      done = true;
      if (best !== undefined) {
        choose(best, asked);
      } else if (key === 'Enter' && writing.words === before) {
        void writing.submit();
      }
    });
  };
  const pressed = (event: React.KeyboardEvent<HTMLTextAreaElement>): void => {
    if (event.nativeEvent.isComposing) {
      return;
    }
    const count = shown.length;
    const chosen = ready ? shown[active] : undefined;
    const moves: Record<string, number> = {
      ArrowDown: (active + 1) % Math.max(count, 1),
      ArrowUp: (active - 1 + count) % Math.max(count, 1),
      PageDown: Math.min(active + 8, count - 1),
      PageUp: Math.max(active - 8, 0)
    };
    const next = moves[event.key];
    if (open && next !== undefined) {
      setMoved(shown[next]?.key ?? null);
    } else if (chosen !== undefined && (event.key === 'Enter' || event.key === 'Tab')) {
      choose(chosen, query);
    } else if (
      query !== null &&
      (event.key === 'Enter' || event.key === 'Tab') &&
      !event.shiftKey &&
      (found?.of !== wanted || !found.is.whole)
    ) {
      hurry(query, event.key);
    } else if (query !== null && event.key === 'Escape') {
      setQuery(null);
    } else if (event.key === 'Enter' && !event.shiftKey && !event.altKey) {
      void writing.submit();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const closed = host.state === 'closed';
  return (
    <div className="jp-Reprise-composer-line">
      {open && found !== null && (
        <SuggestionList
          id={list}
          found={found.is}
          active={active}
          trans={trans}
          choose={each => choose(each, query)}
        />
      )}
      <textarea
        ref={input}
        className="jp-Reprise-composer-input"
        rows={1}
        value={writing.words}
        readOnly={closed}
        placeholder={
          closed
            ? host.why
            : compact
              ? trans.__('Ask about this cell')
              : host.path === null
                ? trans.__('Ask the agent')
                : trans.__('Ask about this notebook')
        }
        aria-label={trans.__('Message to the agent')}
        aria-autocomplete="list"
        aria-haspopup="listbox"
        aria-controls={open ? list : undefined}
        aria-activedescendant={open ? optionId(list, active) : undefined}
        onChange={event => {
          writing.write(event.target.value);
          look();
        }}
        onKeyDown={pressed}
        onKeyUp={event => {
          if (/^(Arrow|Home|End|Page)/.test(event.key) && !open) {
            look();
          }
        }}
        onClick={look}
        onBlur={() => setQuery(null)}
      />
      <SendOrStop writing={writing} trans={trans} />
    </div>
  );
}

function same(one: IQuery | null, other: IQuery | null): boolean {
  return (
    one === other ||
    (one !== null &&
      other !== null &&
      one.mark === other.mark &&
      one.words === other.words &&
      one.from === other.from &&
      one.to === other.to)
  );
}

/** Stop stands where Send stood, until the last process of the turn has ended. */
function SendOrStop(props: { writing: Writing; trans: TranslationBundle }): React.JSX.Element {
  const { writing, trans } = props;
  const { state } = writing.host;
  if (state === 'running' || state === 'stopping') {
    return (
      <button
        type="button"
        className="jp-mod-styled jp-mod-reject jp-Reprise-composer-send"
        title={
          state === 'stopping'
            ? trans.__('Stop without waiting for what still runs')
            : trans.__('Stop the turn')
        }
        onClick={() => void writing.stop()}
      >
        {state === 'stopping' ? trans.__('Stopping…') : trans.__('Stop')}
      </button>
    );
  }
  return (
    <button
      type="button"
      className="jp-mod-styled jp-mod-accept jp-Reprise-composer-send"
      aria-disabled={state === 'closed'}
      onClick={() => void writing.submit()}
    >
      {trans.__('Send')}
    </button>
  );
}

/** How to bring things, and what it takes. */
function Foot(props: IViewProps): React.JSX.Element {
  const { writing, trans, limits, showMoney, input } = props;
  const [meter, setMeter] = React.useState(() => new Meter());
  const { host } = writing;
  const known = React.useRef(host.key);
  if (known.current !== host.key) {
    known.current = host.key;
    setMeter(new Meter());
  }
  const begin = (mark: '@' | '/'): void => {
    const node = input.current;
    if (node === null || (mark === '/' && writing.words.trim() !== '')) {
      node?.focus();
      return;
    }
    const at = node.selectionStart;
    const space = mark === '@' && at > 0 && !/\s$/.test(writing.words.slice(0, at)) ? ' ' : '';
    node.focus();
    node.setRangeText(space + mark, at, node.selectionEnd, 'end');
    node.dispatchEvent(new Event('input', { bubbles: true }));
  };
  return (
    <div className="jp-Reprise-composer-foot">
      <button
        type="button"
        className="jp-Reprise-composer-mark"
        title={trans.__('Bring a cell, a variable, a file or a skill along')}
        onClick={() => begin('@')}
      >
        {trans.__('@cells')}
      </button>
      <button
        type="button"
        className="jp-Reprise-composer-mark"
        title={trans.__('Run a skill, or a command')}
        aria-disabled={writing.words.trim() !== ''}
        onClick={() => begin('/')}
      >
        {trans.__('/skill')}
      </button>
      <MeterView
        meter={meter.add(host.entries)}
        limits={limits}
        showMoney={showMoney}
        trans={trans}
      />
    </div>
  );
}
