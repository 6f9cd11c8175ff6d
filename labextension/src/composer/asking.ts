// The commands that ask about a cell: in the chat, or below the cell itself.

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Cell } from '@jupyterlab/cells';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { IDisposable } from '@lumino/disposable';

import { IAgent } from '../agent/tokens';
import { CELL_RANKS, ICellPlaces } from '../cellplaces/tokens';
import { ChatCommands, IChat } from '../chat/tokens';
import { bare } from '../pages/service';
import { IOpenNotebooks } from '../pages/tokens';
import { chatIcon } from '../parts/icons';
import { ISafeRendering } from '../parts/tokens';
import { ISessions } from '../sessions/tokens';
import { AskPanel } from './ask';
import { numberOf } from './cells';
import { InlineHost } from './inline';
import { AskCommands, IComposerFactory } from './tokens';

interface IAt {
  readonly panel: NotebookPanel;
  readonly cell: Cell;
}

export const asking: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:asking',
  description: 'Asks the agent about a cell.',
  autoStart: true,
  requires: [
    INotebookTracker,
    IAgent,
    ISessions,
    IComposerFactory,
    ICellPlaces,
    IOpenNotebooks,
    ISafeRendering
  ],
  optional: [IChat, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    agent: IAgent,
    sessions: ISessions,
    factory: IComposerFactory,
    places: ICellPlaces,
    notebooks: IOpenNotebooks,
    rendering: ISafeRendering,
    chat: IChat | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('reprise');
    const open = new WeakMap<Cell, { readonly shown: IDisposable; readonly focus: () => void }>();

    /** The cell at hand, of a notebook on Reprise. */
    const at = (): IAt | null => {
      const panel = tracker.currentWidget;
      const cell = panel?.content.activeCell ?? null;
      return panel !== null && cell !== null && sessions.get(panel) !== null
        ? { panel, cell }
        : null;
    };
    const named = ({ panel, cell }: IAt): string =>
      trans.__('cell %1', numberOf(panel, cell.model.id) ?? '?');

    const inChat = async ({ panel, cell }: IAt, lib: IChat): Promise<void> => {
      const composer = await lib.composer(bare(panel.context.path));
      composer.bringCell(panel, cell.model.id);
      composer.focus();
    };

    const below = (where: IAt): void => {
      const { panel, cell } = where;
      const known = open.get(cell);
      if (known !== undefined && !known.shown.isDisposed) {
        known.focus();
        return;
      }
      const notebook = notebooks.open.of(panel);
      // The one that the chat shows, where it is about this notebook; else the newest.
      const mine = notebooks.pages.conversationsOf(notebook).filter(each => each.yours);
      const conversation = mine.find(each => each === agent.current) ?? mine.at(-1);
      const host = new InlineHost(
        agent,
        {
          path: bare(panel.context.path),
          cell: cell.model.id,
          session: () => sessions.get(panel)?.id ?? null,
          unknown: trans.__('The session of this notebook is not known yet.'),
          another: trans.__('Only who began this conversation goes on with it.')
        },
        conversation === undefined ? null : agent.open(conversation.id)
      );
      const composer = factory.create({ compact: true });
      composer.host = host;
      composer.bringCell(panel, cell.model.id);
      const made = new AskPanel({
        composer,
        host,
        rendermime: rendering.rendermime,
        trans,
        name: named(where),
        leads: {
          chat: id => chat?.show(id),
          question: () => void app.commands.execute(ChatCommands.nextQuestion)
        },
        close: () => {
          shown.dispose();
          panel.content.activate();
        }
      });
      const shown = places.footer(cell, made, CELL_RANKS.ask);
      open.set(cell, { shown, focus: () => composer.focus() });
      composer.focus();
    };

    app.commands.addCommand(AskCommands.cell, {
      label: trans.__('Ask about this cell'),
      caption: trans.__('Open the chat, and bring this cell along'),
      icon: chatIcon,
      isEnabled: () => at() !== null,
      isVisible: () => chat !== null && at() !== null,
      execute: async () => {
        const where = at();
        if (where !== null && chat !== null) {
          await inChat(where, chat);
        }
      },
      describedBy: { args: { type: 'object', properties: {} } }
    });
    app.commands.addCommand(AskCommands.below, {
      label: trans.__('Ask Below This Cell'),
      caption: trans.__('Ask about this cell, and read the answer below it'),
      icon: chatIcon,
      isEnabled: () => at() !== null,
      isVisible: () => at() !== null,
      execute: () => {
        const where = at();
        if (where !== null) {
          below(where);
        }
      },
      describedBy: { args: { type: 'object', properties: {} } }
    });
    const changed = (): void => {
      app.commands.notifyCommandChanged(AskCommands.cell);
      app.commands.notifyCommandChanged(AskCommands.below);
    };
    tracker.activeCellChanged.connect(changed);
    sessions.changed.connect(changed);
  }
};
