/** The chat's button in a notebook's toolbar; not there where the kernel is none of Reprise's. */

import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget, ToolbarButtonComponent } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import * as React from 'react';

import { chatIcon } from '../parts/icons';
import type { ISessions } from '../sessions/tokens';
import { ChatCommands } from './tokens';

export class ChatButton extends ReactWidget {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _sessions: ISessions,
    private readonly _commands: CommandRegistry,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-Reprise-chat-button');
    _sessions.changed.connect(this._look, this);
    this._look();
  }

  override dispose(): void {
    this._sessions.changed.disconnect(this._look, this);
    super.dispose();
  }

  protected render(): React.JSX.Element {
    return (
      <ToolbarButtonComponent
        icon={chatIcon}
        tooltip={this._trans.__('Ask about this notebook')}
        onClick={() => void this._commands.execute(ChatCommands.open)}
      />
    );
  }

  private _look(): void {
    this.setHidden(this._sessions.get(this._panel) === null);
  }
}
