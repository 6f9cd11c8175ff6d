/** The tab that compares two steps: what was asked, what it showed, files and variables. */

import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { TranslationBundle } from '@jupyterlab/translation';
import { caretRightIcon, ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ImageDiff, TextDiff } from '../parts/diff';
import type { DiffView } from '../parts/diff';
import { ErrorNotice, Loading } from '../parts/notices';
import type { ISafeRendering } from '../parts/tokens';
import { count, exact } from '../parts/words';
import { Outputs } from '../timeline/outputs';
import type { IStep } from '../timeline/step';
import { firstLines } from '../timeline/shown';
import { kindWord, outcomeWord, took } from '../timeline/words';
import type { Comparison, IPairOfSteps, Part } from './comparison';
import { paired } from './differences';
import type { IChanges, OutputPair } from './differences';
import { Files } from './files';
import { Variables } from './variables';

export interface ICompareOptions {
  readonly comparison: Comparison;
  readonly rendering: ISafeRendering;
  readonly languages: IEditorLanguageRegistry | null;
  readonly trans: TranslationBundle;
  diffView(): DiffView;
}

export class CompareTab extends ReactWidget {
  constructor(private readonly _options: ICompareOptions) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-Compare');
    this.node.tabIndex = -1;
  }

  get comparison(): Comparison {
    return this._options.comparison;
  }

  protected override onActivateRequest(): void {
    this.node.focus();
  }

  override dispose(): void {
    this._options.comparison.dispose();
    super.dispose();
  }

  protected override render(): React.JSX.Element {
    return (
      <UseSignal signal={this._options.comparison.changed}>
        {() => <CompareView {...this._options} />}
      </UseSignal>
    );
  }
}

function CompareView(props: ICompareOptions): React.JSX.Element {
  const { comparison, trans } = props;
  const { before, after, steps, changes, total } = comparison;
  const pair = steps.is === 'here' ? steps.value : null;
  return (
    <>
      <div className="jp-Reprise-Compare-head" role="group" aria-label={trans.__('Steps')}>
        <StepPicker
          label={trans.__('First step')}
          seq={before}
          total={total}
          step={pair?.before ?? null}
          trans={trans}
          choose={seq => comparison.choose(seq, after)}
        />
        <button
          className="jp-mod-styled"
          title={trans.__('Compare them the other way round')}
          onClick={() => comparison.choose(after, before)}
        >
          {trans.__('Swap')}
        </button>
        <StepPicker
          label={trans.__('Second step')}
          seq={after}
          total={total}
          step={pair?.after ?? null}
          trans={trans}
          choose={seq => comparison.choose(before, seq)}
        />
      </div>
      <Summary steps={steps} changes={changes} trans={trans} />
      {steps.is === 'failed' && (
        <ErrorNotice error={steps.error} trans={trans} again={() => void comparison.load()} />
      )}
      {steps.is === 'loading' && <Loading trans={trans} />}
      {pair !== null && <Texts key={`${before} ${after}`} {...props} pair={pair} />}
      <Changes key={`changes ${before} ${after}`} {...props} />
    </>
  );
}

/** A step by its number, with what it is in words. */
function StepPicker(props: {
  label: string;
  seq: number;
  total: number;
  step: IStep | null;
  trans: TranslationBundle;
  choose: (seq: number) => void;
}): React.JSX.Element {
  const { label, seq, total, step, trans, choose } = props;
  const [typed, setTyped] = React.useState(String(seq));
  React.useEffect(() => setTyped(String(seq)), [seq]);
  const commit = (text: string): void => {
    const wanted = Number(text);
    if (Number.isInteger(wanted) && wanted >= 0 && wanted < total) {
      choose(wanted);
    } else {
      setTyped(String(seq));
    }
  };
  return (
    <label className="jp-Reprise-Compare-picker">
      <span className="jp-Reprise-secondary">{label}</span>
      <input
        type="number"
        className="jp-mod-styled"
        min={0}
        max={Math.max(0, total - 1)}
        value={typed}
        onChange={event => setTyped(event.target.value)}
        onBlur={event => commit(event.target.value)}
        onKeyDown={event => {
          if (event.key === 'Enter') {
            commit(event.currentTarget.value);
          }
        }}
      />
      <span className="jp-Reprise-Compare-words">
        {step === null
          ? ''
          : [
              kindWord(trans, step.kind),
              outcomeWord(trans, step.outcome),
              took(step.duration_s),
              exact(firstLines(step.input, 1).text)
            ]
              .filter(Boolean)
              .join(' · ')}
      </span>
    </label>
  );
}

/** What is the same, in a sentence, once all of it is known. */
function Summary(props: {
  steps: Part<IPairOfSteps>;
  changes: Part<IChanges>;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { steps, changes, trans } = props;
  let words = '';
  if (steps.is === 'here' && changes.is === 'here') {
    const { before, after } = steps.value;
    const outputs = Math.max(before.outputs.length, after.outputs.length);
    const same =
      before.input === after.input &&
      paired(before.outputs, after.outputs).every(each => each.is === 'same') &&
      changes.value.files.length === 0 &&
      (changes.value.variables ?? []).length === 0;
    if (same) {
      words =
        changes.value.compared === null
          ? trans._n('No differences in %1 output.', 'No differences in %1 outputs.', outputs)
          : trans.__(
              'No differences in %1 outputs, %2 files.',
              count(outputs),
              count(changes.value.compared)
            );
    }
  }
  return (
    <p className="jp-Reprise-Compare-summary" role="status">
      {words}
    </p>
  );
}

/** A part of the tab: closed when there is nothing to see. */
function Disclosure(props: {
  title: string;
  words: string;
  open: boolean;
  children: React.ReactNode;
}): React.JSX.Element {
  const { title, words, children } = props;
  const [open, setOpen] = React.useState(props.open);
  const id = React.useId();
  return (
    <section className="jp-Reprise-Compare-part">
      <h3>
        <button
          className="jp-Reprise-Compare-title"
          aria-expanded={open}
          aria-controls={id}
          onClick={() => setOpen(!open)}
        >
          <caretRightIcon.react tag="span" className={open ? 'jp-mod-open' : ''} />
          {title}
          <span className="jp-Reprise-secondary">{words}</span>
        </button>
      </h3>
      <div id={id} hidden={!open} className="jp-Reprise-Compare-body">
        {open && children}
      </div>
    </section>
  );
}

function Texts(props: ICompareOptions & { pair: IPairOfSteps }): React.JSX.Element {
  const { pair, languages, trans, diffView } = props;
  const { before, after } = pair;
  const pairs = React.useMemo(
    () => paired(before.outputs, after.outputs),
    [before.outputs, after.outputs]
  );
  const different = pairs.filter(each => each.is !== 'same');
  const mime = before.language === 'python' ? 'text/x-ipython' : 'text/x-sh';
  const cut = before.leftOut.length + after.leftOut.length > 0 || before.more || after.more;
  return (
    <>
      <Disclosure
        title={trans.__('Input')}
        words={before.input === after.input ? trans.__('No differences.') : ''}
        open={before.input !== after.input}
      >
        <TextDiff
          before={before.input}
          after={after.input}
          label={trans.__('Input of steps %1 and %2', before.seq, after.seq)}
          trans={trans}
          languages={languages}
          language={mime}
          view={diffView()}
        />
      </Disclosure>
      <Disclosure
        title={trans.__('Outputs')}
        words={
          different.length === 0
            ? trans._n(
                'No differences in %1 output.',
                'No differences in %1 outputs.',
                pairs.length
              )
            : trans._n('%2 of %1 differs', '%2 of %1 differ', pairs.length, different.length)
        }
        open={different.length > 0}
      >
        {different.map((each, index) => (
          <OutputDifference key={index} {...props} difference={each} number={index + 1} />
        ))}
        {cut && (
          <p className="jp-Reprise-rest">
            {trans.__('Only the first outputs were compared: there are more, or larger ones.')}
          </p>
        )}
      </Disclosure>
    </>
  );
}

function OutputDifference(
  props: ICompareOptions & { pair: IPairOfSteps; difference: OutputPair; number: number }
): React.JSX.Element | null {
  const { difference, number, pair, rendering, trans, diffView } = props;
  const names = [
    trans.__('Step %1', pair.before.seq),
    trans.__('Step %1', pair.after.seq)
  ] as const;
  switch (difference.is) {
    case 'same':
      return null;
    case 'pictures':
      return (
        <ImageDiff
          before={{ src: difference.before, label: names[0] }}
          after={{ src: difference.after, label: names[1] }}
          trans={trans}
        />
      );
    case 'texts':
      return (
        <TextDiff
          before={difference.before}
          after={difference.after}
          label={trans.__('Output %1 (%2)', number, difference.type)}
          trans={trans}
          view={diffView()}
        />
      );
    case 'alone':
      return (
        <div className="jp-Reprise-Compare-alone">
          <p className="jp-Reprise-secondary">
            {trans.__('Only %1 showed:', difference.side === 'before' ? names[0] : names[1])}
          </p>
          <Outputs outputs={[difference.output]} rendermime={rendering.rendermime} trans={trans} />
        </div>
      );
  }
}

/** Files and variables: what the job has found out, or how far it is. */
function Changes(props: ICompareOptions): React.JSX.Element {
  const { comparison, trans } = props;
  const { changes } = comparison;
  const again = (): void => void comparison.loadChanges();
  switch (changes.is) {
    case 'loading':
      return (
        <div className="jp-Reprise-Compare-working" role="status">
          <span>
            {trans.__('Files and variables:')}{' '}
            {changes.job?.progress.text || trans.__('waiting for its turn')}
          </span>
          <button
            className="jp-mod-styled"
            disabled={changes.job === null || changes.job.cancelling}
            onClick={() => void comparison.stop()}
          >
            {trans.__('Stop')}
          </button>
        </div>
      );
    case 'failed':
      return <ErrorNotice error={changes.error} trans={trans} again={again} />;
    case 'stopped':
      return (
        <div className="jp-Reprise-Compare-working">
          <span>{trans.__('Files and variables were not compared: it was stopped.')}</span>
          <button className="jp-mod-styled" onClick={again}>
            {trans.__('Compare them')}
          </button>
        </div>
      );
    case 'here': {
      const { files, compared, variables } = changes.value;
      return (
        <>
          <Disclosure
            title={trans.__('Files')}
            words={
              files.length > 0
                ? trans._n('%2 differs', '%2 differ', files.length, count(files.length))
                : compared === null
                  ? trans.__('No differences.')
                  : trans._n(
                      'No differences in %2 file.',
                      'No differences in %2 files.',
                      compared,
                      count(compared)
                    )
            }
            open={files.length > 0}
          >
            {files.length > 0 && <Files changes={files} comparison={comparison} trans={trans} />}
          </Disclosure>
          <Disclosure
            title={trans.__('Variables')}
            words={
              variables === null
                ? trans.__('This language cannot be asked for them.')
                : variables.length === 0
                  ? trans.__('No differences.')
                  : trans._n('%2 differs', '%2 differ', variables.length, count(variables.length))
            }
            open={(variables ?? []).length > 0}
          >
            {variables !== null && variables.length > 0 && (
              <Variables
                changes={variables}
                before={Math.min(comparison.before, comparison.after)}
                after={Math.max(comparison.before, comparison.after)}
                trans={trans}
              />
            )}
          </Disclosure>
        </>
      );
    }
  }
}
