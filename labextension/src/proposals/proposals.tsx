// The agent's edits in all open notebooks of the page.

import type { IThemeManager } from '@jupyterlab/apputils';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ISignal, Signal } from '@lumino/signaling';
import * as React from 'react';

import type { IApi } from '../api/tokens';
import type { ICellPlaces } from '../cellplaces/tokens';
import type { OpenNotebook } from '../pages/open';
import { bare } from '../pages/service';
import type { IOpenNotebooks } from '../pages/tokens';
import { TextDiff } from '../parts/diff';
import type { IPreferences } from '../preferences/tokens';
import type { Kept } from './kept';
import { PanelMarks } from './marks';
import type { Mark } from './model';
import type { ISurroundings } from './proposal';
import { ITelling, NotebookEdits } from './service';
import type { IProposals } from './tokens';

/** What they are made of. */
export interface IMaterial {
  readonly notebooks: IOpenNotebooks;
  readonly places: ICellPlaces;
  readonly api: IApi;
  readonly themes: IThemeManager | null;
  readonly languages: IEditorLanguageRegistry | null;
  readonly preferences: IPreferences | null;
  readonly telling: ITelling | null;
  readonly kept: Kept;
  readonly trans: TranslationBundle;
  readonly named: (panel: NotebookPanel, cell: string) => string;
  /** Open a tab. */
  readonly open: (title: string, body: React.JSX.Element) => void;
}

export class Proposals implements IProposals {
  constructor(private readonly _material: IMaterial) {
    const { notebooks, api, kept, telling, trans } = _material;
    notebooks.open.each(notebook => {
      const edits = new NotebookEdits(notebook, notebooks.pages, api, kept, telling, trans);
      this._edits.set(notebook, edits);
      edits.changed.connect(() => this._changed.emit(notebook.path));
      return edits;
    });
  }

  get changed(): ISignal<this, string> {
    return this._changed;
  }

  /** Show the marks of a notebook in this panel, until it is closed. */
  show(panel: NotebookPanel): void {
    const edits = this._edits.get(this._material.notebooks.open.of(panel));
    if (edits === undefined) {
      return;
    }
    const marks = new PanelMarks(panel, edits, this._around(panel), this._material.places);
    this._panels.add(marks);
    panel.disposed.connect(() => {
      this._panels.delete(marks);
    });
  }

  count(path: string): number {
    return this._of(path)[0]?.edits.count ?? 0;
  }

  next(path: string, question?: string): Promise<boolean> {
    const panel = this._of(path)[0];
    const all = (panel?.edits.marks ?? []).filter(
      each => question === undefined || (each.kind === 'proposal' && each.question === question)
    );
    const waiting = all.filter(
      each => each.kind === 'changed' || panel?.edits.answerOf(each) === null
    );
    const among = waiting.length > 0 ? waiting : all;
    const at = among.findIndex(each => each.key === this._last);
    const mark: Mark | undefined = among[(at + 1) % Math.max(1, among.length)];
    if (panel === undefined || mark === undefined) {
      return Promise.resolve(false);
    }
    this._last = mark.key;
    panel.show(mark);
    return Promise.resolve(true);
  }

  private _of(path: string): PanelMarks[] {
    const found = [...this._panels].filter(
      each => bare(each.panel.context.path) === bare(path) && !each.isDisposed
    );
    return found.sort((one, other) => Number(other.panel.isVisible) - Number(one.panel.isVisible));
  }

  private _around(panel: NotebookPanel): ISurroundings {
    const { api, themes, languages, trans, preferences, named, open } = this._material;
    const language = (type: string): string | null =>
      type === 'code' ? panel.content.codeMimetype : type === 'markdown' ? 'text/markdown' : null;
    return {
      api,
      themes,
      languages,
      trans,
      get view() {
        return preferences?.now.diffView ?? 'auto';
      },
      language,
      named: cell => named(panel, cell),
      openTab: (label, before, after, type) =>
        open(
          label,
          <TextDiff
            before={before}
            after={after}
            label={label}
            trans={trans}
            languages={languages}
            language={language(type)}
            view={preferences?.now.diffView ?? 'auto'}
          />
        )
    };
  }

  private _last: string | null = null;
  /** Weak: a notebook that was closed is held by nobody. */
  private readonly _edits = new WeakMap<OpenNotebook, NotebookEdits>();
  private readonly _panels = new Set<PanelMarks>();
  private readonly _changed = new Signal<this, string>(this);
}
