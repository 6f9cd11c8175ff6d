/** The commands of the timeline: for the palette, menus, keys, and other parts that lead to a step. */

import type { ICommandPalette } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import type { IApi } from '../api/tokens';
import type { ISessions } from '../sessions/tokens';
import type { Acts } from './acts';
import type { TimelinePanel } from './panel';
import type { TimelineState } from './state';
import { TimelineCommands } from './tokens';
import type { ISessionPanel, IStepRow, ITimeline } from './tokens';

interface ITarget {
  readonly session: string;
  readonly step: number;
}

export interface ICommandsOptions {
  readonly commands: CommandRegistry;
  readonly palette: ICommandPalette | null;
  readonly acts: Acts;
  readonly state: TimelineState;
  readonly timeline: ITimeline;
  readonly sessions: ISessions | null;
  readonly panel: TimelinePanel;
  readonly sessionPanel: ISessionPanel;
  readonly api: IApi;
  readonly trans: TranslationBundle;
}

export function addCommands(options: ICommandsOptions): void {
  const { commands, palette, acts, state, timeline, sessions, panel, sessionPanel, api, trans } =
    options;

  /** What the arguments name, else the step that is chosen. */
  const target = (args: ReadonlyPartialJSONObject): ITarget | null => {
    const { session, step } = args;
    if (typeof session === 'string' && typeof step === 'number') {
      return { session, step };
    }
    return typeof session === 'string' ? null : panel.chosen;
  };
  /** The row of a step, where it is here. */
  const rowOf = ({ session, step }: ITarget): IStepRow | undefined => {
    const { history } = state;
    if (history?.session !== session) {
      return undefined;
    }
    return state.step?.seq === step ? state.step : history.row(step);
  };
  const show = async (session: string | null, step?: number): Promise<void> => {
    sessionPanel.reveal(panel);
    if (session !== null && session !== state.session) {
      state.open(session);
    }
    if (step === undefined) {
      panel.grid.focusActive();
    } else {
      await panel.reveal(step);
    }
  };

  commands.addCommand(TimelineCommands.open, {
    label: trans.__('Timeline'),
    caption: trans.__('Show the steps of this session'),
    execute: async args => show(typeof args['session'] === 'string' ? args['session'] : null)
  });
  commands.addCommand(TimelineCommands.showStep, {
    label: trans.__('Show Step'),
    isVisible: args => typeof args['step'] === 'number',
    execute: async args => {
      const to = target(args);
      if (to !== null) {
        await show(to.session, to.step);
      }
    }
  });
  commands.addCommand(TimelineCommands.showCellStep, {
    label: trans.__("This Cell's Step"),
    caption: trans.__('Show the newest step of the active cell'),
    isEnabled: args => typeof args['cell'] === 'string' || sessions?.current != null,
    execute: async args => {
      const current = sessions?.current ?? null;
      const active = current?.panel.content.activeCell?.model.id;
      const cell = typeof args['cell'] === 'string' ? args['cell'] : active;
      const session = current?.id ?? null;
      if (session === null || cell === undefined) {
        return;
      }
      const rows = (offset: number): Promise<{ found: number; rows: readonly { seq: number }[] }> =>
        api.get('/sessions/{session}/rows', {
          params: { path: { session }, query: { cell, offset, limit: 1 } }
        });
      const found = await acts.told(trans.__('The step of this cell was not found'), async () => {
        const { found: count, rows: first } = await rows(0);
        return { newest: count > 1 ? (await rows(count - 1)).rows[0] : first[0] };
      });
      if (found !== null) {
        await show(session, found.newest?.seq);
      }
    }
  });
  commands.addCommand(TimelineCommands.fork, {
    label: trans.__('Fork Here'),
    caption: trans.__('Go on from this step in a notebook of its own; this one stays'),
    isEnabled: args => target(args) !== null || typeof args['session'] === 'string',
    execute: async args => {
      const to =
        target(args) ?? (await acts.told(trans.__('The fork was not made'), () => newest(args)));
      return to === null ? null : acts.fork(to.session, to.step);
    }
  });
  /** The newest step of a session that is named without one. */
  const newest = async (args: ReadonlyPartialJSONObject): Promise<ITarget | null> => {
    const { session } = args;
    if (typeof session !== 'string') {
      return null;
    }
    const told = await api.get('/sessions/{session}', { params: { path: { session } } });
    return { session, step: told.steps - 1 };
  };
  commands.addCommand(TimelineCommands.rewind, {
    label: trans.__('Rewind to Here'),
    caption: args => {
      const to = target(args);
      return to !== null && acts.notebookAt(to.session) === undefined
        ? trans.__('No open notebook is at this session: fork here instead')
        : trans.__('Take the notebook back to this step; what comes after stays in its session');
    },
    isEnabled: args => {
      const to = target(args);
      return to !== null && acts.notebookAt(to.session) !== undefined;
    },
    execute: async args => {
      const to = target(args);
      return to === null ? null : acts.rewind(to.session, to.step);
    }
  });
  commands.addCommand(TimelineCommands.runAgain, {
    label: trans.__('Run Again'),
    caption: args =>
      runs(args)
        ? trans.__('Run what this step ran as a new step at the end')
        : trans.__('Only cells and commands can be run again'),
    isEnabled: args => runs(args),
    execute: async args => {
      const to = target(args);
      if (to === null) {
        return null;
      }
      const made = await acts.runAgain(to.session, to.step);
      if (made !== null) {
        timeline.poke(to.session);
        await show(to.session, made);
      }
      return made;
    }
  });
  const runs = (args: ReadonlyPartialJSONObject): boolean => {
    const to = target(args);
    const kind = to === null ? undefined : rowOf(to)?.kind;
    return to !== null && (kind === undefined || kind === 'cell' || kind === 'command');
  };
  commands.addCommand(TimelineCommands.verifyFrom, {
    label: trans.__('Verify from Here'),
    caption: trans.__('Play this step and those after it in a fresh sandbox, and compare'),
    isEnabled: args => target(args) !== null,
    execute: async args => {
      const to = target(args);
      if (to !== null) {
        await acts.verifyFrom(to.session, to.step);
      }
    }
  });

  const category = trans.__('Reprise');
  for (const command of [
    TimelineCommands.open,
    TimelineCommands.showCellStep,
    TimelineCommands.fork,
    TimelineCommands.rewind,
    TimelineCommands.runAgain,
    TimelineCommands.verifyFrom
  ]) {
    palette?.addItem({ command, category });
  }
  state.stepChanged.connect(() => {
    for (const command of Object.values(TimelineCommands)) {
      if (commands.hasCommand(command)) {
        commands.notifyCommandChanged(command);
      }
    }
  });
}
