/** Markdown of the model's, drawn block by block while it comes: what is closed is drawn once. */

import { checkIcon, copyIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { copyText } from '../parts/clipboard';
import { SafeMarkdown } from '../parts/markdown';
import { type Block, Cut, withDefinitions } from './blocks';
import { Code, coloured } from './code';
import { useSurroundings } from './context';

/** Milliseconds between drawings of the open block; more where one takes long. */
const APART = 80;
/** Of the time that drawing the open block may take. */
const SHARE = 4;
/** Characters of one block beyond which it is shown as plain text: rendering it would stop the page. */
const PLAIN = 100_000;

type Definitions = ReadonlyMap<string, string>;

/** open: more of the text may come. */
export function Prose(props: { text: string; open: boolean }): React.JSX.Element {
  const [cut] = React.useState(() => new Cut());
  cut.take(props.text, props.open);
  return (
    <div className="jp-Reprise-prose">
      {cut.groups.map((group, place) => (
        <Group key={place} blocks={group} definitions={cut.definitions} />
      ))}
      {cut.last && <OpenBlock block={cut.last} definitions={cut.definitions} />}
    </div>
  );
}

const Group = React.memo(function Group(props: {
  blocks: readonly Block[];
  definitions: Definitions;
}): React.JSX.Element {
  return (
    <>
      {props.blocks.map((block, place) => (
        <ClosedBlock key={place} block={block} definitions={props.definitions} />
      ))}
    </>
  );
});

const ClosedBlock = React.memo(
  function ClosedBlock(props: { block: Block; definitions: Definitions }): React.JSX.Element {
    return (
      <Drawn block={props.block} text={withDefinitions(props.block.text, props.definitions)} />
    );
  },
  (before, now) =>
    before.block === now.block &&
    (before.definitions === now.definitions ||
      withDefinitions(before.block.text, before.definitions) ===
        withDefinitions(now.block.text, now.definitions))
);

/** The last block: while it is open it is drawn now and then, code as plain text. */
function OpenBlock(props: { block: Block; definitions: Definitions }): React.JSX.Element {
  const { block, definitions } = props;
  const wanted = withDefinitions(block.text, definitions);
  const text = useCalmed(wanted, block.open);
  if (block.open && block.kind === 'code') {
    return (
      <div className="jp-Reprise-code">
        <CodeHead language={block.language} code={block.code} />
        <pre className="jp-Reprise-code-open">{block.code}</pre>
      </div>
    );
  }
  return <Drawn block={block} text={text} />;
}

/** A text that changes often, as it is every so often; at once when it is whole. */
function useCalmed(wanted: string, open: boolean): string {
  const [shown, show] = React.useState(wanted);
  const newest = React.useRef(wanted);
  const last = React.useRef({ at: 0, took: 0 });
  newest.current = wanted;
  const behind = open && wanted !== shown;
  React.useEffect(() => {
    if (!behind) {
      return undefined;
    }
    const { at, took } = last.current;
    const wait = Math.max(APART, took * SHARE) - (performance.now() - at);
    const timer = setTimeout(
      () => {
        const began = performance.now();
        show(newest.current);
        // Rendering is asked for in effects and goes on in microtasks: both are over by then.
        setTimeout(() => {
          last.current = { at: performance.now(), took: performance.now() - began };
        }, 0);
      },
      Math.max(0, wait)
    );
    return () => clearTimeout(timer);
    // A timer that runs shows the newest text when it ends: it is not begun anew by each piece.
  }, [behind, shown]);
  return open ? shown : wanted;
}

function Drawn(props: { block: Block; text: string }): React.JSX.Element {
  const { block, text } = props;
  const { rendermime } = useSurroundings();
  const decorate = useCodeButtons();
  if (text.length > PLAIN) {
    return <pre className="jp-Reprise-plain">{text}</pre>;
  }
  if (block.kind === 'code') {
    return (
      <div className="jp-Reprise-code">
        <CodeHead language={block.language} code={block.code} />
        <Code language={block.language} code={block.code} />
      </div>
    );
  }
  return <SafeMarkdown rendermime={rendermime} text={text} onRendered={decorate} />;
}

/** What stands above code: its language, copy, insert below. */
function CodeHead(props: { language: string; code: string }): React.JSX.Element {
  const { trans, insertBelow } = useSurroundings();
  return (
    <div className="jp-Reprise-code-head">
      <span className="jp-Reprise-code-language">{props.language}</span>
      <CopyButton text={props.code} label={trans.__('Copy')} />
      <button
        className="jp-Reprise-quiet-button"
        onClick={() => insertBelow(props.code, props.language)}
      >
        {trans.__('Insert below')}
      </button>
    </div>
  );
}

export function CopyButton(props: { text: string; label: string }): React.JSX.Element {
  const { trans } = useSurroundings();
  const [copied, setCopied] = React.useState(false);
  React.useEffect(() => {
    if (!copied) {
      return undefined;
    }
    const timer = setTimeout(() => setCopied(false), 2_000);
    return () => clearTimeout(timer);
  }, [copied]);
  const Icon = copied ? checkIcon : copyIcon;
  return (
    <button
      className="jp-Reprise-quiet-button"
      onClick={() => {
        void copyText(props.text).then(() => setCopied(true));
      }}
    >
      <Icon.react tag="span" className="jp-Reprise-button-icon" />
      {copied ? trans.__('Copied') : props.label}
    </button>
  );
}

/** Gives code inside of lists and quotations its buttons, too; made of nothing that the model wrote. */
function useCodeButtons(): (node: HTMLElement) => void {
  const { trans, insertBelow, languages } = useSurroundings();
  return React.useCallback(
    (node: HTMLElement) => {
      for (const pre of node.querySelectorAll('pre')) {
        if (pre.previousElementSibling?.classList.contains('jp-Reprise-code-head') === true) {
          continue;
        }
        const code = pre.textContent;
        const head = document.createElement('div');
        head.className = 'jp-Reprise-code-head';
        head.append(
          button(trans.__('Copy'), () => void copyText(code)),
          button(trans.__('Insert below'), () => insertBelow(code, ''))
        );
        pre.before(head);
        const inner = pre.querySelector('code');
        const language = /\blanguage-([\w+#.-]+)/.exec(inner?.className ?? '')?.[1] ?? '';
        void coloured(code, language, languages).then(made => {
          if (made !== null && inner?.textContent === code) {
            inner.replaceChildren(made);
          }
        });
      }
    },
    [trans, insertBelow, languages]
  );
}

function button(label: string, act: () => void): HTMLButtonElement {
  const made = document.createElement('button');
  made.className = 'jp-Reprise-quiet-button';
  made.textContent = label;
  made.addEventListener('click', act);
  return made;
}
