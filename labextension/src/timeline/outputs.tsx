/** What a step showed, rendered without trust, long texts and large pages cut with the way to the rest. */

import type * as nbformat from '@jupyterlab/nbformat';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { SafeBundle } from '../parts/markdown';
import { count } from '../parts/words';
import { firstLines } from './shown';
import { list, text } from './told';

/** Lines of a text that are shown at first. */
const LINES = 200;
/** Characters of HTML that are shown at first; larger tables take the page's time. */
const HTML = 256 * 1024;

export interface IOutputsProps {
  readonly outputs: readonly nbformat.IOutput[];
  readonly rendermime: IRenderMimeRegistry;
  readonly trans: TranslationBundle;
}

export function Outputs(props: IOutputsProps): React.JSX.Element {
  return (
    <div className="jp-Reprise-Outputs">
      {props.outputs.map((output, index) => (
        <Output key={index} {...props} output={output} />
      ))}
    </div>
  );
}

export function Output(
  props: Omit<IOutputsProps, 'outputs'> & { readonly output: nbformat.IOutput }
): React.JSX.Element {
  const { output, rendermime, trans } = props;
  const [whole, setWhole] = React.useState(false);
  const { data, metadata, rest } = React.useMemo(() => bundle(output, whole), [output, whole]);
  return (
    <div className="jp-Reprise-Output">
      <SafeBundle rendermime={rendermime} data={data} metadata={metadata} />
      {rest !== null && (
        <p className="jp-Reprise-rest">
          {rest.lines === null
            ? trans.__('A table or page of %1 characters, shown as text.', count(rest.total))
            : trans.__('%1 of %2 lines.', count(rest.lines), count(rest.total))}{' '}
          <button className="jp-Reprise-textButton" onClick={() => setWhole(true)}>
            {trans.__('Show all')}
          </button>
        </p>
      )}
    </div>
  );
}

interface IBundle {
  data: nbformat.IMimeBundle;
  metadata: nbformat.OutputMetadata;
  rest: { lines: number | null; total: number } | null;
}

/** An output as a bundle that a registry renders, cut unless `whole` is asked for. */
function bundle(output: nbformat.IOutput, whole: boolean): IBundle {
  if (output.output_type === 'stream' || output.output_type === 'error') {
    const said =
      output.output_type === 'stream'
        ? text(output['text'])
        : list(output['traceback']).map(text).join('\n') ||
          `${text(output['ename'])}: ${text(output['evalue'])}`;
    const mime =
      output.output_type === 'stream' && output['name'] !== 'stderr'
        ? 'application/vnd.jupyter.stdout'
        : 'application/vnd.jupyter.stderr';
    const cut = whole ? { text: said, total: 0 } : firstLines(said, LINES);
    const rest = cut.total > LINES ? { lines: LINES, total: cut.total } : null;
    return { data: { [mime]: cut.text }, metadata: {}, rest };
  }
  const data = output['data'] as nbformat.IMimeBundle;
  const metadata = output['metadata'] as nbformat.OutputMetadata;
  const html = data['text/html'];
  if (!whole && typeof html === 'string' && html.length > HTML) {
    const cut = firstLines(text(data['text/plain']), LINES);
    return {
      data: { 'text/plain': cut.text },
      metadata: {},
      rest: { lines: null, total: html.length }
    };
  }
  const plain = data['text/plain'];
  if (!whole && Object.keys(data).length === 1 && typeof plain === 'string') {
    const cut = firstLines(plain, LINES);
    if (cut.total > LINES) {
      return {
        data: { 'text/plain': cut.text },
        metadata,
        rest: { lines: LINES, total: cut.total }
      };
    }
  }
  return { data, metadata, rest: null };
}
