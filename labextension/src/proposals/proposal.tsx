// What the agent proposes for one cell: the difference, and the frame in which it is accepted.

import type { IThemeManager } from '@jupyterlab/apputils';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { TranslationBundle } from '@jupyterlab/translation';
import { caretLeftIcon, caretRightIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { IApi } from '../api/tokens';
import { DecisionFrame } from '../parts/decision';
import { TextDiff } from '../parts/diff';
import { ErrorNotice, Loading, Notice } from '../parts/notices';
import type { Preferences } from '../preferences/tokens';
import { inserts, IProposal, IText, lines, proposed } from './model';
import type { NotebookEdits } from './service';

/** What all marks at cells are drawn with. */
export interface ISurroundings {
  readonly api: IApi;
  readonly themes: IThemeManager | null;
  readonly languages: IEditorLanguageRegistry | null;
  readonly trans: TranslationBundle;
  readonly view: Preferences['diffView'];
  /** The MIME type of a cell's source, by its type. */
  readonly language: (type: string) => string | null;
  /** A cell as people call it: "cell 8", or its id where it is not there. */
  readonly named: (cell: string) => string;
  /** Show a difference in a tab of its own. */
  readonly openTab: (label: string, before: string, after: string, type: string) => void;
}

/** The difference of one cell, in its place or in a tab. */
export function CellDiff(props: {
  before: IText | null;
  after: IText | null;
  label: string;
  around: ISurroundings;
}): React.JSX.Element {
  const { before, after, label, around } = props;
  const { trans } = around;
  const from = before?.source ?? '';
  const to = after?.source ?? '';
  const type = (after ?? before)?.type ?? 'code';
  return (
    <>
      {before !== null && after !== null && before.type !== after.type && (
        <p className="jp-Reprise-cellmark-line">
          {trans.__('It becomes a cell of another type: %1 (before: %2).', after.type, before.type)}
        </p>
      )}
      <TextDiff
        before={from}
        after={to}
        label={label}
        trans={trans}
        languages={around.languages}
        language={around.language(type)}
        view={around.view}
        large={{
          label: trans.__('Open in a tab'),
          open: () => around.openTab(label, from, to, type)
        }}
      />
    </>
  );
}

/** Whether a node is in view: a frame is only loaded where somebody can see it. */
function useInView(node: React.RefObject<HTMLElement>): boolean {
  const [seen, setSeen] = React.useState(false);
  React.useEffect(() => {
    const target = node.current;
    if (target === null || seen) {
      return undefined;
    }
    const observer = new IntersectionObserver(entries => {
      if (entries.some(each => each.isIntersecting)) {
        setSeen(true);
      }
    });
    observer.observe(target);
    return () => observer.disconnect();
  }, [node, seen]);
  return seen;
}

export function ProposalView(props: {
  proposal: IProposal;
  edits: NotebookEdits;
  around: ISurroundings;
  move: (step: 1 | -1) => void;
}): React.JSX.Element {
  const { proposal, edits, around, move } = props;
  const { trans } = around;
  const node = React.useRef<HTMLDivElement>(null);
  const seen = useInView(node);
  const now = edits.cells().get(proposal.cell) ?? null;
  const after = proposed(proposal, now);
  const name = around.named(proposal.cell);
  const answer = edits.answerOf(proposal);
  const left = proposal.count - edits.answered(proposal.question);
  const title = inserts(proposal)
    ? trans.__('Agent proposes: a new cell')
    : after === null
      ? trans.__('Agent proposes: delete %1 (%2 lines)', name, lines(now?.source ?? ''))
      : trans.__('Agent proposes: %1', name);
  return (
    <div
      ref={node}
      role="group"
      aria-label={
        inserts(proposal)
          ? trans.__('Proposed edit, a new cell (%1 of %2)', proposal.number, proposal.count)
          : trans.__('Proposed edit, %1', name)
      }
      tabIndex={-1}
      className="jp-Reprise-cellmark jp-mod-proposal"
      data-mark={proposal.key}
    >
      <div className="jp-Reprise-cellmark-head">
        <span className="jp-Reprise-cellmark-title">{title}</span>
        {proposal.count > 1 && (
          <span className="jp-Reprise-cellmark-steps">
            <span>{trans.__('%1 of %2', proposal.number, proposal.count)}</span>
            <button
              type="button"
              className="jp-Reprise-cellmark-step"
              title={trans.__('Previous cell')}
              aria-label={trans.__('Previous cell')}
              onClick={() => move(-1)}
            >
              <caretLeftIcon.react tag="span" aria-hidden="true" />
            </button>
            <button
              type="button"
              className="jp-Reprise-cellmark-step"
              title={trans.__('Next cell')}
              aria-label={trans.__('Next cell')}
              onClick={() => move(1)}
            >
              <caretRightIcon.react tag="span" aria-hidden="true" />
            </button>
          </span>
        )}
      </div>
      {answer === null ? (
        <Waiting proposal={proposal} edits={edits} around={around} seen={seen} />
      ) : (
        <p className="jp-Reprise-cellmark-line" role="status">
          {answer.accepted ? trans.__('Accepted.') : trans.__('Rejected.')}{' '}
          {left > 0 &&
            trans._n(
              'Nothing is written before you have answered for %1 other cell.',
              'Nothing is written before you have answered for %1 other cells.',
              left
            )}
        </p>
      )}
    </div>
  );
}

function Waiting(props: {
  proposal: IProposal;
  edits: NotebookEdits;
  around: ISurroundings;
  seen: boolean;
}): React.JSX.Element {
  const { proposal, edits, around, seen } = props;
  const { trans, api, themes } = around;
  const [compare, setCompare] = React.useState(false);
  const [error, setError] = React.useState<unknown>(null);
  const name = around.named(proposal.cell);
  const label = trans.__('Proposed edit, %1', name);
  const now = edits.cells().get(proposal.cell) ?? null;
  const after = proposed(proposal, now);
  const pressed = edits.pressed(proposal);
  const told = React.useCallback(
    (decision: Parameters<NotebookEdits['told']>[1]) => edits.told(proposal.question, decision),
    [edits, proposal.question]
  );
  const decided = React.useCallback(() => undefined, []);
  if (edits.fresh(proposal) === false) {
    const reject = (): void => {
      setError(null);
      edits.reject(proposal, trans.__('I changed this cell after you read it.')).catch(setError);
    };
    return (
      <>
        <Notice
          kind="warning"
          actions={
            <>
              {after !== null && now !== null && (
                <button
                  type="button"
                  className="jp-mod-styled"
                  aria-expanded={compare}
                  onClick={() => setCompare(!compare)}
                >
                  {trans.__('Compare')}
                </button>
              )}
              <button type="button" className="jp-mod-styled" onClick={reject}>
                {trans.__('Reject')}
              </button>
            </>
          }
        >
          {now === null && !inserts(proposal)
            ? trans.__('You deleted this cell after the agent read it. It stays deleted.')
            : trans.__('You changed this cell after the agent read it. Yours stays.')}
        </Notice>
        {error !== null && <ErrorNotice error={error} trans={trans} />}
        {compare && <CellDiff before={now} after={after} label={label} around={around} />}
      </>
    );
  }
  const moves = proposal.edits.find(each => each.do === 'move' || each.do === 'insert');
  return (
    <>
      {moves !== undefined && (
        <p className="jp-Reprise-cellmark-line">
          {moves.after === ''
            ? trans.__('At the top of the notebook.')
            : trans.__('Behind %1.', around.named(moves.after ?? ''))}
        </p>
      )}
      {(now === null ||
        after === null ||
        now.source !== after.source ||
        now.type !== after.type) && (
        <CellDiff before={now} after={after} label={label} around={around} />
      )}
      {pressed === null ? (
        <Loading trans={trans} rows={1} />
      ) : pressed.decision === null || pressed.frame === null ? (
        <p className="jp-Reprise-cellmark-line">{trans.__('Waiting for the owner.')}</p>
      ) : (
        seen && (
          <DecisionFrame
            api={api}
            themes={themes}
            trans={trans}
            decision={pressed.decision}
            frame={pressed.frame}
            part={proposal.cell}
            title={trans.__('Accept or reject: %1', name)}
            decided={decided}
            answered={told}
          />
        )
      )}
    </>
  );
}
