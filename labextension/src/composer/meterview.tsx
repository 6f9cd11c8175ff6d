// "31 % ctx · 0.12 USD": what a conversation takes, and the details on demand.

import type { TranslationBundle } from '@jupyterlab/translation';
import { caretDownIcon, caretUpIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { count } from '../parts/words';
import { IMeter, IUsed, money, percent } from './meter';

/** What the server says of its model and of what a turn may take; null where it does not. */
export interface ILimits {
  readonly model: string;
  readonly context: number | null;
}

/** One line for the button: context, then money. */
export function meterLine(
  meter: IMeter,
  limits: ILimits | null,
  showMoney: boolean,
  trans: TranslationBundle
): string {
  const parts: string[] = [];
  if (meter.context !== null) {
    parts.push(
      limits?.context
        ? trans.__('%1 % ctx', percent(meter.context, limits.context))
        : trans.__('%1 tokens ctx', count(meter.context))
    );
  }
  if (showMoney) {
    parts.push(...costs(meter.all));
  }
  return parts.join(' · ');
}

function costs(used: IUsed): string[] {
  return [...used.costs].map(([currency, amount]) => `${money(amount)} ${currency}`);
}

/** The button and the table that it opens. Nothing before the first request. */
export function MeterView(props: {
  meter: IMeter;
  limits: ILimits | null;
  showMoney: boolean;
  trans: TranslationBundle;
}): React.JSX.Element | null {
  const { meter, limits, showMoney, trans } = props;
  const [open, setOpen] = React.useState(false);
  const id = React.useId();
  const line = meterLine(meter, limits, showMoney, trans);
  if (line === '') {
    return null;
  }
  const Caret = open ? caretDownIcon : caretUpIcon;
  return (
    <>
      <button
        type="button"
        className="jp-Reprise-composer-meter"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        title={trans.__('What this conversation takes')}
        onClick={() => setOpen(!open)}
      >
        {line}
        <Caret.react tag="span" aria-hidden="true" className="jp-Reprise-composer-caret" />
      </button>
      {open && (
        <div id={id} className="jp-Reprise-composer-details">
          <Details meter={meter} limits={limits} showMoney={showMoney} trans={trans} />
        </div>
      )}
    </>
  );
}

function Details(props: {
  meter: IMeter;
  limits: ILimits | null;
  showMoney: boolean;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { meter, limits, showMoney, trans } = props;
  const { turn, all } = meter;
  const rows: readonly [string, string, string][] = [
    [trans.__('Read'), count(turn.input), count(all.input)],
    [trans.__('Read from cache'), count(turn.cacheRead), count(all.cacheRead)],
    [trans.__('Written to cache'), count(turn.cacheWritten), count(all.cacheWritten)],
    [trans.__('Answered'), count(turn.output), count(all.output)],
    ...(showMoney
      ? ([
          [
            trans.__('Cost'),
            costs(turn).join(', ') || trans.__('not known'),
            costs(all).join(', ') || trans.__('not known')
          ]
        ] as [string, string, string][])
      : [])
  ];
  return (
    <>
      {meter.context !== null && (
        <p>
          {limits?.context
            ? trans.__(
                'Context: %1 of %2 tokens (%3 %). When it is full, older turns are summed up.',
                count(meter.context),
                count(limits.context),
                percent(meter.context, limits.context)
              )
            : trans.__('Context: %1 tokens. How many fit is not known.', count(meter.context))}
        </p>
      )}
      <table>
        <thead>
          <tr>
            <th scope="col">{trans.__('Tokens')}</th>
            <th scope="col">{trans.__('Newest turn')}</th>
            <th scope="col">{trans.__('All')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, one, whole]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{one}</td>
              <td>{whole}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {showMoney && all.unpriced > 0 && (
        <p>
          {trans._n(
            'Of %1 request no price is known, so it is not in the sum.',
            'Of %1 requests no price is known, so they are not in the sum.',
            all.unpriced
          )}
        </p>
      )}
      {all.estimated && <p>{trans.__('Some of it is an estimate: the model did not say.')}</p>}
      {limits !== null && <p>{trans.__('Model: %1', limits.model)}</p>}
    </>
  );
}
