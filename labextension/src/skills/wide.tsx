// What this part's tabs have in common: their look, the focus when they are activated, their context.

import { ReactWidget } from '@jupyterlab/apputils';
import * as React from 'react';

import { skillIcon } from '../parts/icons';
import { Context, IContext } from './context';

export abstract class WideTab extends ReactWidget {
  constructor(
    protected readonly context: IContext,
    id: string,
    label: string
  ) {
    super();
    this.id = id;
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-skill-tab');
    this.title.icon = skillIcon;
    this.title.closable = true;
    this.title.label = label;
    // Can have the focus, and is no stop of the Tab key.
    this.node.tabIndex = -1;
  }

  /** What stands in the tab. */
  protected abstract body(): React.JSX.Element;

  protected override render(): React.JSX.Element {
    return <Context.Provider value={this.context}>{this.body()}</Context.Provider>;
  }

  protected override onActivateRequest(): void {
    // JupyterLab takes what has the focus for the current tab.
    if (!this.node.contains(document.activeElement)) {
      this.node.focus();
    }
  }
}
