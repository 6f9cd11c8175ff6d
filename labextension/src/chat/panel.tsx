/** The chat panel: header, log, what is pinned, composer, in this order for eyes, keys and readers. */

import { ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import {
  UseSignal,
  addIcon,
  ellipsesIcon,
  listIcon,
  ToolbarButtonComponent
} from '@jupyterlab/ui-components';
import { PathExt } from '@jupyterlab/coreutils';
import type { CommandRegistry } from '@lumino/commands';
import { Menu, Panel } from '@lumino/widgets';
import * as React from 'react';

import type { IComposer } from '../composer/tokens';
import { chatIcon } from '../parts/icons';
import { type Surroundings, SurroundingsProvider } from './context';
import type { Desk } from './desk';
import { ChatCommands } from './tokens';
import { View, type ViewProps } from './view';

export interface PanelOptions {
  readonly desk: Desk;
  readonly composer: IComposer;
  readonly commands: CommandRegistry;
  readonly trans: TranslationBundle;
  readonly surroundings: () => Surroundings;
  readonly view: Omit<ViewProps, 'desk' | 'suggest'>;
}

export class ChatPanel extends Panel {
  constructor(options: PanelOptions) {
    super();
    const { desk, composer, trans } = options;
    this.id = 'jp-Reprise-chat';
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-chat');
    this.title.icon = chatIcon;
    this.title.caption = trans.__('Chat');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Chat'));
    this._desk = desk;
    this._composer = composer;
    this._body = new Body(options, text => composer.write(text));
    this.addWidget(new Header(options));
    this.addWidget(this._body);
    this.addWidget(composer.widget);
    composer.widget.addClass('jp-Reprise-chat-composer');
    desk.changed.connect(this._onDesk, this);
    this._onDesk();
  }

  /** Put the focus where words are typed. */
  focusInput(): void {
    this._composer.focus();
  }

  /** Put the focus at what waits; false where nothing does. */
  focusQuestion(): boolean {
    const place = this.node.querySelector<HTMLElement>(
      '.jp-Reprise-pinned iframe, .jp-Reprise-pinned button, .jp-Reprise-pinned input'
    );
    place?.focus();
    return place !== null;
  }

  /** The settings have changed: draw anew. */
  redraw(): void {
    this._body.update();
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._desk.changed.disconnect(this._onDesk, this);
      super.dispose();
    }
  }

  private _onDesk(): void {
    const { host, listing } = this._desk;
    if (this._composer.host !== host) {
      this._composer.host = host;
    }
    this._composer.widget.setHidden(
      listing || (this._desk.notebook === null && host.shown === null)
    );
  }

  private readonly _desk: Desk;
  private readonly _composer: IComposer;
  private readonly _body: Body;
}

class Body extends ReactWidget {
  constructor(
    private readonly _options: PanelOptions,
    private readonly _suggest: (text: string) => void
  ) {
    super();
    this.addClass('jp-Reprise-chat-body');
  }

  protected render(): React.JSX.Element {
    const { desk, surroundings, view } = this._options;
    return (
      <SurroundingsProvider value={surroundings()}>
        <View desk={desk} suggest={this._suggest} {...view} />
      </SurroundingsProvider>
    );
  }
}

class Header extends ReactWidget {
  constructor(private readonly _options: PanelOptions) {
    super();
    this.addClass('jp-Reprise-chat-header');
    this._menu = new Menu({ commands: _options.commands });
    this._menu.addClass('jp-Reprise-menu');
    for (const command of [
      ChatCommands.rename,
      ChatCommands.exportMarkdown,
      ChatCommands.exportJson,
      ChatCommands.undo,
      ChatCommands.remove
    ]) {
      this._menu.addItem({ command });
    }
  }

  override dispose(): void {
    this._menu.dispose();
    super.dispose();
  }

  protected render(): React.JSX.Element {
    const { desk, trans } = this._options;
    return (
      <UseSignal signal={desk.changed}>
        {() => {
          const shown = desk.conversation;
          return (
            <>
              <h2 className="jp-Reprise-chat-title">{this._title()}</h2>
              <ToolbarButtonComponent
                icon={addIcon}
                tooltip={trans.__('New conversation')}
                onClick={() => desk.fresh()}
                enabled={desk.notebook !== null}
                noFocusOnClick={false}
              />
              <ToolbarButtonComponent
                icon={listIcon}
                tooltip={desk.listing ? trans.__('Back to the conversation') : trans.__('Chats')}
                pressed={desk.listing}
                onClick={() => {
                  desk.listing = !desk.listing;
                }}
                noFocusOnClick={false}
              />
              <ToolbarButtonComponent
                className="jp-Reprise-chat-more"
                icon={ellipsesIcon}
                tooltip={trans.__('More')}
                onClick={() => this._openMenu()}
                enabled={shown !== null}
                noFocusOnClick={false}
              />
            </>
          );
        }}
      </UseSignal>
    );
  }

  private _title(): string {
    const { desk, trans } = this._options;
    const path = desk.conversation?.model.notebook ?? desk.notebook?.path ?? null;
    const name = path === null ? '' : PathExt.basename(path);
    const title = desk.conversation?.info?.title ?? '';
    if (desk.listing) {
      return name === '' ? trans.__('Chats') : trans.__('Chats · %1', name);
    }
    const what = title === '' ? name : name === '' ? title : `${name} · ${title}`;
    return what === '' ? trans.__('Chat') : trans.__('Chat · %1', what);
  }

  private _openMenu(): void {
    const anchor = this.node.querySelector('.jp-Reprise-chat-more');
    const { left, bottom } = (anchor ?? this.node).getBoundingClientRect();
    this._menu.open(left, bottom);
  }

  private readonly _menu: Menu;
}
