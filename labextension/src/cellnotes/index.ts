// The plugins of notes at cells, and of what is shown of static outputs.

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Cell, ICodeCellModel } from '@jupyterlab/cells';
import { Notebook, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ITranslator, nullTranslator, TranslationBundle } from '@jupyterlab/translation';
import { DisposableDelegate, DisposableSet, IDisposable } from '@lumino/disposable';

import { IApi } from '../api/tokens';
import { CELL_RANKS, ICellPlaces } from '../cellplaces/tokens';
import { EnvironmentCommands } from '../environments/tokens';
import { INotebookSession, ISessions } from '../sessions/tokens';
import { TimelineCommands } from '../timeline/tokens';
import { CellLog } from './log';
import { NoteWidget } from './note';
import { ICutStep, INote, NoteAct, noteOf } from './notes';
import { ORIGINAL, OriginalRenderer, RANK } from './original';
import { CellNotes, INotedCells } from './service';

const notes: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:cell-notes',
  description: 'Says at a cell that its last run was rolled back or cut short, and what to do.',
  autoStart: true,
  requires: [ISessions, IApi, ICellPlaces],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    sessions: ISessions,
    api: IApi,
    places: ICellPlaces,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('reprise');
    const log = new CellLog(api);
    sessions.each(session => {
      const kept = new DisposableSet();
      const place = (cell: Cell, note: INote): IDisposable =>
        places.footer(cell, noteWidget(app, session, cell, note, trans), CELL_RANKS.rolledBack);
      const said = (step: ICutStep): INote | null => noteOf(step, session.status, trans);
      const shown = new CellNotes(session, log, notedCells(session.panel), said, place);
      const ran = (_: unknown, { notebook, cell }: { notebook: Notebook; cell: Cell }): void => {
        if (notebook === session.panel.content) {
          shown.ran(cell.model.id);
        }
      };
      NotebookActions.executionScheduled.connect(ran);
      kept.add(shown);
      kept.add(new DisposableDelegate(() => NotebookActions.executionScheduled.disconnect(ran)));
      return kept;
    });
  }
};

function noteWidget(
  app: JupyterFrontEnd,
  session: INotebookSession,
  cell: Cell,
  note: INote,
  trans: TranslationBundle
): NoteWidget {
  const { commands } = app;
  const act = (what: NoteAct): void => {
    switch (what) {
      case 'run': {
        const { content, sessionContext } = session.panel;
        void NotebookActions.runCells(content, [cell], sessionContext);
        break;
      }
      case 'step':
        void commands.execute(TimelineCommands.showStep, { session: session.id, step: note.seq });
        break;
      case 'raise':
        void commands.execute(EnvironmentCommands.open, {
          environment: session.status.environment?.name ?? null
        });
        break;
    }
  };
  const can = (what: NoteAct): boolean =>
    what === 'run' ||
    commands.hasCommand(what === 'step' ? TimelineCommands.showStep : EnvironmentCommands.open);
  return new NoteWidget(note, act, can, trans);
}

function notedCells(panel: NotebookPanel): INotedCells {
  const { content } = panel;
  return {
    find: id => content.widgets.find(each => each.model.id === id) ?? null,
    runs: cell =>
      cell.model.type === 'code' && (cell.model as ICodeCellModel).executionState === 'running',
    onChanged: act => {
      // The model of a panel comes after the panel, and may be another one later.
      let cells = content.model?.cells;
      const changed = (): void => act();
      const modelChanged = (): void => {
        cells?.changed.disconnect(changed);
        cells = content.model?.cells;
        cells?.changed.connect(changed);
        act();
      };
      cells?.changed.connect(changed);
      content.modelChanged.connect(modelChanged);
      return new DisposableDelegate(() => {
        cells?.changed.disconnect(changed);
        content.modelChanged.disconnect(modelChanged);
      });
    }
  };
}

const original: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:static-output',
  description: 'Shows the original of a static output in a frame without scripts.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  optional: [ISessions, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    registry: IRenderMimeRegistry,
    sessions: ISessions | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('reprise');
    const why = (node: HTMLElement): string => {
      const session = sessions?.all.find(each => each.panel.node.contains(node));
      const reason = session?.status.static?.why ?? '';
      const rest = trans.__(
        'A script in an output acts with your rights in this Jupyter, so it does not run. Nothing is lost: the log has the output as it came. For code that you trust as your own, an environment can allow live output: `reprise env output %1 live`, then restart the kernel.',
        session?.status.environment?.name ?? 'default'
      );
      return reason === '' ? rest : `${reason} ${rest}`;
    };
    registry.addFactory(
      {
        safe: true,
        mimeTypes: [ORIGINAL],
        createRenderer: () => new OriginalRenderer(registry, why, trans)
      },
      RANK
    );
  }
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [notes, original];
