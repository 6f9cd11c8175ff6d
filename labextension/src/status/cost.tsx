// Tokens and money in JupyterLab's status bar, only while a turn of the agent's runs.

import type { IStatusBar } from '@jupyterlab/statusbar';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';

import { ReactWidget } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';
import * as React from 'react';

import type { Usage } from '../agent/model';
import type { IAgent, IConversation } from '../agent/tokens';

import { count } from '../parts/words';

/** `12,410 tokens · 0.12 USD`, `about …` where a part of it is an estimate. */
export function costWords(usage: Usage, money: boolean, trans: TranslationBundle): string {
  const tokens = trans.__('%1 tokens', count(usage.input + usage.output));
  const costs = money
    ? Object.entries(usage.costs).map(([currency, amount]) => `${amountWords(amount)} ${currency}`)
    : [];
  const words = [tokens, ...costs].join(' · ');
  return usage.estimated ? trans.__('about %1', words) : words;
}

/** Two places, or as many as the first two digits of a small amount need. */
function amountWords(amount: string): string {
  const value = Number(amount);
  if (!Number.isFinite(value)) {
    return amount;
  }
  return value === 0 || value >= 0.01 ? value.toFixed(2) : value.toPrecision(2);
}

class CostItem extends ReactWidget {
  constructor(
    private readonly agent: IAgent,
    private readonly money: () => boolean,
    private readonly trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-cost');
    agent.currentChanged.connect(this.follow, this);
    this.follow();
  }

  /** Whether there is a turn to speak of. */
  get runs(): boolean {
    return this.conversation?.running === true;
  }

  readonly shown = new Signal<this, void>(this);

  override dispose(): void {
    Signal.clearData(this);
    super.dispose();
  }

  protected override render(): React.ReactElement | null {
    const turn = this.conversation?.model.turns.at(-1);
    if (!this.runs || turn === undefined) {
      return null;
    }
    return (
      <span
        className="jp-Reprise-cost-words"
        title={this.trans.__('What the running turn of the agent has taken so far')}
      >
        {costWords(turn.usage, this.money(), this.trans)}
      </span>
    );
  }

  private follow(): void {
    this.conversation?.changed.disconnect(this.onChanged, this);
    this.conversation = this.agent.current;
    this.conversation?.changed.connect(this.onChanged, this);
    this.onChanged();
  }

  private onChanged(): void {
    this.update();
    this.shown.emit();
  }

  private conversation: IConversation | null = null;
}

/** Put the item into the status bar; it is there only while a turn runs. */
export function addCost(
  bar: IStatusBar,
  agent: IAgent,
  money: () => boolean,
  trans: TranslationBundle
): IDisposable {
  const item = new CostItem(agent, money, trans);
  return bar.registerStatusItem('@jupyter-reprise/lab:cost', {
    item,
    align: 'right',
    rank: 900,
    isActive: () => item.runs,
    activeStateChanged: item.shown
  });
}
