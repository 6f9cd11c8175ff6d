// One step of a report: where a difference may come from, what it showed then and now, its code.

import * as React from 'react';

import { useAsked } from '../parts/asked';
import { ImageDiff, TextDiff } from '../parts/diff';
import { ErrorNotice, Loading } from '../parts/notices';
import { exact } from '../parts/words';
import { useVerify } from './context';
import { IPair, imageSource, pairs } from './pairs';
import { ReportCause, ReportPiece, ReportStep } from './tokens';
import { pieceWord } from './words';

/** Lines of a text that is the same on both sides, and of code, that are shown at first. */
const SHOWN = 20;

/** What stands below an open row. */
export function StepDetail(props: { seq: number }): React.JSX.Element {
  const { verification, trans } = useVerify();
  const asked = useAsked(`${props.seq}`, () => verification.step(props.seq));
  if (asked.value === undefined) {
    return asked.error === undefined ? (
      <Loading trans={trans} rows={2} />
    ) : (
      <ErrorNotice error={asked.error} trans={trans} again={asked.again} />
    );
  }
  return <Step step={asked.value} />;
}

function Step(props: { step: ReportStep }): React.JSX.Element {
  const { step } = props;
  const { trans, showStep } = useVerify();
  const differs = step.verdict === 'different' || step.verdict === 'volatile';
  const shown = pairs(step.recorded, differs ? step.replayed : step.recorded);
  return (
    <div className="jp-Reprise-verify-step">
      {step.reason !== null && <p>{sentence(step.reason)}</p>}
      <Causes causes={step.causes} />
      {step.replays_differ !== null && step.verdict !== 'same' && (
        <p className="jp-Reprise-secondary">
          {step.replays_differ
            ? trans.__('Two replays differ from each other, too.')
            : trans.__('Two replays agree with each other; only the record differs.')}
        </p>
      )}
      <Volatile step={step} />
      {shown.map((pair, index) => (
        <Pair key={index} pair={pair} step={step} />
      ))}
      {shown.length === 0 && (
        <p className="jp-Reprise-secondary">{trans.__('It showed nothing.')}</p>
      )}
      <Listed step={step} />
      {step.source !== '' && (
        <details className="jp-Reprise-verify-more">
          <summary>{trans.__('Code')}</summary>
          <Text text={step.source} label={trans.__('Code of step %1', step.seq)} />
        </details>
      )}
      {showStep !== null && (
        <div className="jp-Reprise-actions">
          <button className="jp-mod-styled" onClick={() => showStep(step.seq)}>
            {trans.__('Show step %1 in the timeline', step.seq)}
          </button>
        </div>
      )}
    </div>
  );
}

/** Guesses at why, each with what one can do about it. */
export function Causes(props: { causes: readonly ReportCause[] }): React.JSX.Element | null {
  const { trans } = useVerify();
  if (props.causes.length === 0) {
    return null;
  }
  return (
    <div className="jp-Reprise-verify-causes">
      <h4>{trans.__('Where this may come from')}</h4>
      <ul>
        {props.causes.map((cause, index) => (
          <li key={index}>
            <Coded text={cause.text} />
            {cause.mend !== '' && (
              <span className="jp-Reprise-verify-mend">
                {' '}
                <Coded text={cause.mend} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** What stands between backticks as code. */
export function Coded(props: { text: string }): React.JSX.Element {
  return (
    <>
      {props.text
        .split('`')
        .map((part, index) =>
          index % 2 === 1 ? <code key={index}>{exact(part)}</code> : exact(part)
        )}
    </>
  );
}

/** What of it changes with every run: marked, and shown below all the same. */
function Volatile(props: { step: ReportStep }): React.JSX.Element | null {
  const { trans } = useVerify();
  const found = [
    ...new Set(
      props.step.differences
        .filter(each => each.volatile)
        .map(each => trans.__('%1 (%2)', each.kind, each.where))
    )
  ];
  if (found.length === 0) {
    return null;
  }
  return (
    <p className="jp-Reprise-verify-volatile">
      <span className="jp-Reprise-verify-mark jp-mod-volatile" aria-hidden="true">
        ≈
      </span>{' '}
      {trans.__('Changes with every run, so it does not count: %1.', found.join(', '))}
    </p>
  );
}

function Pair(props: { pair: IPair; step: ReportStep }): React.JSX.Element {
  const { pair, step } = props;
  const { trans, languages, preferences } = useVerify();
  const label = pieceWord(pair.kind, trans);
  const one = pair.before ?? pair.after;
  const remark =
    step.verdict === 'different' || step.verdict === 'volatile'
      ? pair.same
        ? trans.__('the same in both')
        : pair.before === null
          ? trans.__('on the replay only')
          : pair.after === null
            ? trans.__('in the record only')
            : pair.kind === 'image'
              ? ''
              : trans.__('− recorded, + replayed')
      : '';
  return (
    <div className="jp-Reprise-verify-piece">
      <p className="jp-Reprise-verify-label">
        {label}
        {remark !== '' && <span className="jp-Reprise-secondary"> · {remark}</span>}
      </p>
      {pair.kind === 'image' ? (
        <Images pair={pair} />
      ) : pair.same || pair.before === null || pair.after === null ? (
        <Text
          text={one?.text ?? ''}
          label={trans.__('Step %1, %2', step.seq, label)}
          mark={pair.same ? undefined : pair.before === null ? 'added' : 'removed'}
        />
      ) : (
        <TextDiff
          before={exact(pair.before.text)}
          after={exact(pair.after.text)}
          label={trans.__('Step %1, %2: recorded and replayed', step.seq, label)}
          trans={trans}
          languages={languages}
          view={preferences?.now.diffView}
        />
      )}
      <Cut pieces={[pair.before, pair.after]} />
    </div>
  );
}

function Images(props: { pair: IPair }): React.JSX.Element {
  const { trans } = useVerify();
  const { before, after, same } = props.pair;
  const [old, new_] = [imageSource(before), imageSource(after)];
  if (old !== null && new_ !== null && !same) {
    return (
      <ImageDiff
        before={{ src: old, label: trans.__('Recorded') }}
        after={{ src: new_, label: trans.__('Replayed') }}
        trans={trans}
      />
    );
  }
  const src = old ?? new_;
  if (src === null) {
    return (
      <p className="jp-Reprise-secondary">
        {trans.__('The report has no room for this image. Save it as HTML to see all of them.')}
      </p>
    );
  }
  const text = before?.text ?? after?.text ?? '';
  return (
    <img
      className="jp-Reprise-verify-image"
      src={src}
      alt={text === '' ? trans.__('An image without words') : text.slice(0, 200)}
    />
  );
}

function Cut(props: { pieces: readonly (ReportPiece | null)[] }): React.JSX.Element | null {
  const { trans } = useVerify();
  const cut = Math.max(...props.pieces.map(each => each?.cut ?? 0));
  if (cut === 0) {
    return null;
  }
  return (
    <p className="jp-Reprise-secondary">
      {trans.__('%1 more characters are not in the report.', cut.toLocaleString())}
    </p>
  );
}

/** A text; a long one in a first part, with its true length and the way to the rest. */
function Text(props: {
  text: string;
  label: string;
  mark?: 'added' | 'removed' | undefined;
}): React.JSX.Element {
  const { text, label, mark } = props;
  const { trans } = useVerify();
  const [whole, setWhole] = React.useState(false);
  const lines = exact(text).replace(/\n$/, '').split('\n');
  const more = lines.length > SHOWN && !whole;
  return (
    <>
      <pre
        className={`jp-Reprise-verify-text${mark === undefined ? '' : ` jp-mod-${mark}`}`}
        tabIndex={0}
        role="region"
        aria-label={label}
      >
        {(more ? lines.slice(0, SHOWN) : lines).join('\n')}
      </pre>
      {more && (
        <p className="jp-Reprise-secondary">
          {trans.__('%1 of %2 lines.', SHOWN, lines.length.toLocaleString())}{' '}
          <button className="jp-mod-styled" onClick={() => setWhole(true)}>
            {trans.__('Show all')}
          </button>
        </p>
      )}
    </>
  );
}

/** All differences as the comparison found them, for those who want them exactly. */
function Listed(props: { step: ReportStep }): React.JSX.Element | null {
  const { trans } = useVerify();
  const { differences, omitted } = props.step;
  if (differences.length === 0) {
    return null;
  }
  return (
    <details className="jp-Reprise-verify-more">
      <summary>
        {trans._n(
          'As compared: %2 difference',
          'As compared: %2 differences',
          differences.length + omitted,
          (differences.length + omitted).toLocaleString()
        )}
      </summary>
      <ol>
        {differences.map((each, index) => (
          <li key={index}>
            {exact(each.where)}: {exact(each.kind)}
            {each.volatile && ` · ${trans.__('volatile')}`}
            <Unified text={each.diff === '' ? `-${each.recorded}\n+${each.replayed}` : each.diff} />
          </li>
        ))}
      </ol>
      {omitted > 0 && <p>{trans.__('%1 more are not listed.', omitted.toLocaleString())}</p>}
    </details>
  );
}

/** A unified difference: signs first, colour beside them. */
export function Unified(props: { text: string }): React.JSX.Element {
  return (
    <pre className="jp-Reprise-verify-text" tabIndex={0}>
      {exact(props.text)
        .split('\n')
        .map((line, index) => (
          <span
            key={index}
            className={
              line.startsWith('+') ? 'jp-mod-added' : line.startsWith('-') ? 'jp-mod-removed' : ''
            }
          >
            {line}
            {'\n'}
          </span>
        ))}
    </pre>
  );
}

function sentence(words: string): string {
  return `${words.slice(0, 1).toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? '' : '.'}`;
}
