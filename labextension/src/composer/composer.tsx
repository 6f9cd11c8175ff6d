// Composers: the widget of each, and the writing of each conversation, which outlives its view.

import { ReactWidget } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Message } from '@lumino/messaging';
import type { Widget } from '@lumino/widgets';
import * as React from 'react';

import type { IAgent } from '../agent/tokens';
import type { IApi } from '../api/tokens';
import { bare } from '../pages/service';
import type { IAnnouncer } from '../parts/tokens';
import type { IPreferences } from '../preferences/tokens';
import type { ISkills } from '../skills/tokens';
import { cellItem, CellSource } from './cells';
import type { Drafts } from './drafts';
import { FileSource } from './files';
import { IItem, same } from './message';
import type { ILimits } from './meterview';
import { SkillSource } from './skills';
import type { ISources } from './suggestions';
import type { IComposer, IComposerFactory, IComposerHost } from './tokens';
import { VariableSource } from './variables';
import { ComposerView } from './view';
import { Writing } from './writing';

/** What composers are made of. */
export interface IMaterial {
  readonly agent: IAgent | null;
  readonly api: IApi;
  readonly contents: Contents.IManager;
  readonly tracker: INotebookTracker;
  readonly skills: ISkills | null;
  readonly announcer: IAnnouncer | null;
  readonly preferences: IPreferences | null;
  readonly drafts: Drafts;
  readonly trans: TranslationBundle;
}

/** Makes composers; the writing of a host is kept until the host is gone. */
export class ComposerFactory implements IComposerFactory {
  constructor(readonly material: IMaterial) {}

  create(options: { readonly compact?: boolean } = {}): IComposer {
    return new Composer(this, options.compact === true);
  }

  bring(conversation: string, item: IItem): void {
    const { drafts } = this.material;
    for (const [host, writing] of this._writings) {
      if (host.key === conversation) {
        writing.bring(item);
        return;
      }
    }
    const draft = drafts.get(conversation);
    drafts.set(conversation, {
      ...draft,
      items: [...draft.items.filter(each => !same(each, item)), item]
    });
  }

  /** The one writing of a host, whoever shows it: what is queued there is sent by it alone. */
  writingOf(host: IComposerHost): Writing {
    let writing = this._writings.get(host);
    if (writing === undefined) {
      const { drafts, trans } = this.material;
      const made = new Writing(host, drafts, item => this._fresh(host, item), trans);
      this._writings.set(host, made);
      host.disposed.connect(() => {
        this._writings.delete(host);
        made.dispose();
      });
      writing = made;
    }
    return writing;
  }

  /** The panel that shows a notebook; the current one of several. */
  panelOf(path: string | null): NotebookPanel | null {
    const { tracker } = this.material;
    if (path === null) {
      return null;
    }
    const current = tracker.currentWidget;
    if (current !== null && bare(current.context.path) === bare(path)) {
      return current;
    }
    return tracker.find(panel => bare(panel.context.path) === bare(path)) ?? null;
  }

  sourcesOf(host: () => IComposerHost | null): ISources {
    const { api, contents, skills, trans } = this.material;
    const panel = (): NotebookPanel | null => this.panelOf(host()?.path ?? null);
    return {
      cells: new CellSource(panel, trans),
      variables: new VariableSource(panel, trans),
      files: new FileSource(
        api,
        contents,
        () => ({ session: host()?.session ?? null, path: host()?.path ?? null }),
        trans
      ),
      skills: new SkillSource(skills)
    };
  }

  /** Which model answers, asked once for all; null where the server does not say. */
  limits(): Promise<ILimits | null> {
    const { agent } = this.material;
    this._limits ??=
      agent === null
        ? Promise.resolve(null)
        : agent.standing().then(
            standing => ({ model: standing.model, context: standing.context_tokens }),
            () => {
              // Asked again by the next composer: the server may have been away.
              this._limits = null;
              return null;
            }
          );
    return this._limits;
  }

  /** A cell is brought as it is when it is sent; all else as it was seen. */
  private _fresh(host: IComposerHost, item: IItem): Promise<IItem | null> {
    const live = item.kind === 'cell' && item.fixed !== true;
    const panel = live ? this.panelOf(host.path) : null;
    // A notebook that is not open here any more: what was seen is what there is.
    return Promise.resolve(panel === null ? item : cellItem(panel, item.name, this.material.trans));
  }

  private readonly _writings = new Map<IComposerHost, Writing>();
  private _limits: Promise<ILimits | null> | null = null;
}

class Composer extends ReactWidget implements IComposer {
  constructor(
    private readonly _factory: ComposerFactory,
    private readonly _compact: boolean
  ) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-composer');
    this.toggleClass('jp-mod-compact', _compact);
    this._sources = _factory.sourcesOf(() => this._host);
    const { preferences } = _factory.material;
    preferences?.changed.connect(this._redraw, this);
    void _factory.limits().then(limits => {
      this._limits = limits;
      this.update();
    });
  }

  get widget(): Widget {
    return this;
  }

  get host(): IComposerHost | null {
    return this._host;
  }

  set host(host: IComposerHost | null) {
    if (host === this._host) {
      return;
    }
    this._host?.disposed.disconnect(this._gone, this);
    this._host = host;
    host?.disposed.connect(this._gone, this);
    this.update();
  }

  focus(): void {
    this._focus = true;
    if (this._input.current !== null) {
      this._input.current.focus();
      this._focus = false;
    }
  }

  write(text: string): void {
    if (this._host !== null) {
      this._factory.writingOf(this._host).write(text);
      this.focus();
    }
  }

  bringCell(panel: NotebookPanel, cell: string): void {
    const item = cellItem(panel, cell, this._factory.material.trans);
    if (item !== null && this._host !== null) {
      this._factory.writingOf(this._host).bring(item);
    }
  }

  override dispose(): void {
    this.host = null;
    this._factory.material.preferences?.changed.disconnect(this._redraw, this);
    super.dispose();
  }

  protected override onUpdateRequest(message: Message): void {
    super.onUpdateRequest(message);
    void this.renderPromise?.then(() => {
      if (this._focus && !this.isDisposed) {
        this.focus();
      }
    });
  }

  protected override render(): React.JSX.Element | null {
    const { material } = this._factory;
    if (this._host === null) {
      return null;
    }
    return (
      <ComposerView
        writing={this._factory.writingOf(this._host)}
        sources={this._sources}
        trans={material.trans}
        announcer={material.announcer}
        limits={this._limits}
        showMoney={material.preferences?.now.showMoney ?? true}
        compact={this._compact}
        input={this._input}
      />
    );
  }

  private _redraw(): void {
    this.update();
  }

  private _gone(): void {
    this.host = null;
  }

  private _host: IComposerHost | null = null;
  private _limits: ILimits | null = null;
  private _focus = false;
  private readonly _sources: ISources;
  private readonly _input = React.createRef<HTMLTextAreaElement>();
}
