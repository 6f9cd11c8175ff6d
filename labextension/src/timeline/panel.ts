/** The Timeline section: the list of steps with its filters, and one step whole below it. */

import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import type { ITranslator, TranslationBundle } from '@jupyterlab/translation';
import { Menu, Panel } from '@lumino/widgets';

import type { IApi } from '../api/tokens';
import { FocusReturn } from '../parts/roving';
import type { ISafeRendering } from '../parts/tokens';
import { DetailWidget, stepActs } from './detail';
import { Divider } from './divider';
import { FootWidget } from './foot';
import { StepGrid } from './grid';
import { HeadWidget } from './head';
import { Hint } from './hint';
import { isOpen, NO_FILTER } from './source';
import type { TimelineState } from './state';
import { TimelineCommands } from './tokens';
import type { IStepRow } from './tokens';

/** CSS pixels below which a line has room for what was asked alone. */
const NARROW = 480;

export class TimelinePanel extends Panel {
  constructor(
    private readonly _options: {
      api: IApi;
      commands: CommandRegistry;
      rendering: ISafeRendering;
      state: TimelineState;
      translator: ITranslator;
    }
  ) {
    super();
    const { api, commands, rendering, state, translator } = _options;
    const trans = translator.load('reprise');
    this._trans = trans;
    this.id = 'jp-reprise-timeline';
    this.title.label = trans.__('Timeline');
    this.addClass('jp-Reprise-Timeline');

    this.grid = new StepGrid(trans);
    this.grid.nameOf = session => state.known.name(session);
    const head = new HeadWidget(state, this.grid, trans);
    const hint = new Hint(state, trans);
    const foot = new FootWidget({
      state,
      grid: this.grid,
      connection: api.connection,
      trans,
      compare: (before, after) => this._compare(before, after)
    });
    this._detail = new DetailWidget({
      api,
      commands,
      rendering,
      state,
      trans,
      leave: () => this.grid.focusActive(),
      close: () => this._close()
    });
    const list = new Panel();
    list.addClass('jp-Reprise-Timeline-list');
    for (const widget of [hint, this.grid, foot]) {
      list.addWidget(widget);
    }
    this._divider = new Divider(list.node, trans);
    for (const widget of [head, list, this._divider, this._detail]) {
      this.addWidget(widget);
    }
    this._showDetail(false);

    this.grid.activeChanged.connect((_, row) => this._onActive(row));
    this.grid.branchOpened.connect((_, session) => state.open(session));
    this.grid.stepOpened.connect((_, row) => {
      this._onActive(row);
      this._detail.focusHeading();
    });
    this.grid.menuAsked.connect((_, { row, x, y }) => this._menu(row).open(x, y));
    this.grid.left.connect(() => this._return.back());
    state.changed.connect(this._onState, this);
    state.stepChanged.connect((_, row) => this._showDetail(row !== null));
    this._onState();
  }

  readonly grid: StepGrid;

  /** Show a step of the session that is shown. */
  async reveal(seq: number): Promise<void> {
    const { state } = this._options;
    const { history } = state;
    if (history === null) {
      return;
    }
    // A step that the filter hides is shown without it.
    state.setFilter(NO_FILTER);
    const row = await history.get(seq).catch(() => undefined); // below the list it says why
    // Another session may have been chosen meanwhile, or steps searched for.
    if (row !== undefined && history === state.history && isOpen(history.filter)) {
      this.grid.reveal(seq);
      this._onActive(row);
    }
  }

  /** The step that commands without arguments mean. */
  get chosen(): { session: string; step: number } | null {
    const { state } = this._options;
    return state.session === null || state.step === null
      ? null
      : { session: state.session, step: state.step.seq };
  }

  handleEvent(event: Event): void {
    const from = (event as FocusEvent).relatedTarget;
    // Menus and dialogs of ours give the focus back by themselves, and are gone then.
    if (!(from instanceof Element && from.closest('.lm-Menu, .jp-Dialog') !== null)) {
      this._return.came(event as FocusEvent, this.node);
    }
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this.node.addEventListener('focusin', this);
    this._width.observe(this.node);
  }

  protected override onBeforeDetach(msg: Message): void {
    this.node.removeEventListener('focusin', this);
    this._width.disconnect();
    super.onBeforeDetach(msg);
  }

  protected override onActivateRequest(): void {
    this.grid.focusActive();
  }

  private _onState(): void {
    const { state } = this._options;
    const { history, origin } = state;
    if (history !== this.grid.history) {
      this.grid.setHistory(history, origin);
    } else if (
      origin?.seq !== this.grid.origin?.seq ||
      origin?.parent !== this.grid.origin?.parent
    ) {
      this.grid.setOrigin(origin);
    }
    const filter = JSON.stringify(state.filter);
    if (filter !== this._filter) {
      this._filter = filter;
      this.grid.restart();
    }
    this.grid.update();
  }

  private _onActive(row: IStepRow | null): void {
    const { state } = this._options;
    if (row?.seq === state.step?.seq && row?.outcome === state.step?.outcome) {
      return;
    }
    if (row !== null) {
      state.setStep(row);
    }
  }

  private _showDetail(shown: boolean): void {
    this._divider.setHidden(!shown);
    this._detail.setHidden(!shown);
    this.toggleClass('jp-mod-open', shown);
  }

  private _close(): void {
    this.grid.release();
    this._options.state.setStep(null);
    this.grid.focusActive();
  }

  private _compare(before: number, after: number): void {
    const { commands, state } = this._options;
    void commands.execute(TimelineCommands.compare, { session: state.session, before, after });
  }

  private _menu(row: IStepRow): Menu {
    const { commands, state } = this._options;
    const args = { session: state.session, step: row.seq };
    const menu = new Menu({ commands });
    menu.addClass('jp-Reprise-menu');
    for (const [command] of stepActs(this._trans)) {
      if (commands.hasCommand(command)) {
        menu.addItem({ command, args });
      }
    }
    const { selected } = this.grid;
    const [before, after] = [selected[0], selected[selected.length - 1]];
    if (before !== undefined && after !== undefined && selected.length > 1) {
      menu.addItem({ type: 'separator' });
      menu.addItem({
        command: TimelineCommands.compare,
        args: { session: state.session, before, after }
      });
    }
    menu.aboutToClose.connect(() => this.grid.focusActive());
    return menu;
  }

  private readonly _trans: TranslationBundle;
  private readonly _divider: Divider;
  private readonly _detail: DetailWidget;
  // A class, since a container query is asked anew with each line that is drawn while scrolling.
  private readonly _width = new ResizeObserver(() =>
    this.toggleClass('jp-mod-narrow', this.node.clientWidth < NARROW)
  );
  private readonly _return = new FocusReturn();
  private _filter = '';
}
