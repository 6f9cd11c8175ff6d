/** The Session panel on the left: sections that each open and close, in the order of their ranks. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ITranslator } from '@jupyterlab/translation';
import { SidePanel } from '@jupyterlab/ui-components';
import { DisposableDelegate } from '@lumino/disposable';
import type { IDisposable } from '@lumino/disposable';
import { AccordionPanel } from '@lumino/widgets';
import type { Widget } from '@lumino/widgets';

import { timelineIcon } from '../parts/icons';
import type { ISessionPanel } from './tokens';

/** Behind JupyterLab's own panels (ui.md, "Places"). */
const RANK = 500;

export class SessionSidePanel extends SidePanel implements ISessionPanel {
  constructor(
    private readonly _shell: JupyterFrontEnd.IShell,
    translator: ITranslator
  ) {
    super({ translator });
    const trans = translator.load('reprise');
    this.id = 'jp-reprise-session';
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-Session');
    this.title.icon = timelineIcon;
    this.title.caption = trans.__('Session');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Session'));
  }

  addSection(widget: Widget, rank = 500): IDisposable {
    let index = 0;
    while (index < this._ranks.length && (this._ranks[index] ?? 0) <= rank) {
      index++;
    }
    this._ranks.splice(index, 0, rank);
    this.insertWidget(index, widget);
    const gone = (): void => {
      const at = this._sections.indexOf(widget);
      if (at >= 0) {
        this._sections.splice(at, 1);
        this._ranks.splice(at, 1);
      }
      if (!widget.isDisposed) {
        widget.parent = null;
      }
    };
    this._sections.splice(index, 0, widget);
    this._share();
    widget.disposed.connect(gone);
    return new DisposableDelegate(gone);
  }

  reveal(section?: Widget): void {
    this._shell.activateById(this.id);
    const { content } = this;
    const index = section === undefined ? -1 : content.widgets.indexOf(section);
    if (index >= 0 && content instanceof AccordionPanel) {
      content.expand(index);
    }
  }

  /** Put the panel where it belongs. */
  place(): void {
    this._shell.add(this, 'left', { rank: RANK, type: 'Session' });
  }

  /** The first section gets as much room as all others together, twice. */
  private _share(): void {
    const others = this._sections.length - 1;
    if (this.content instanceof AccordionPanel && others > 0) {
      this.content.setRelativeSizes(
        this._sections.map((_, index) => (index === 0 ? 2 * others : 1))
      );
    }
  }

  private readonly _sections: Widget[] = [];
  private readonly _ranks: number[] = [];
}
