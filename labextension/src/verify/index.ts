// The plugins of verifying: the service, its command, the tabs of reports.

import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { checkIcon } from '@jupyterlab/ui-components';

import { IApi } from '../api/tokens';
import { IAnnouncer } from '../parts/tokens';
import { IPreferences } from '../preferences/tokens';
import { ISessions } from '../sessions/tokens';
import { TimelineCommands } from '../timeline/tokens';
import { announced } from './announced';
import { Verify } from './service';
import { IVerify, VerifyCommands } from './tokens';
import { VerifyTab } from './view';

const service: JupyterFrontEndPlugin<IVerify> = {
  id: '@jupyter-reprise/lab:verify-service',
  description: 'Verifies sessions on the server, and follows how far that is.',
  autoStart: true,
  requires: [IApi],
  provides: IVerify,
  activate: (_: JupyterFrontEnd, api: IApi): IVerify => new Verify(api)
};

const tabs: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:verify',
  description: 'Verify reports in tabs.',
  autoStart: true,
  requires: [IApi, IVerify],
  optional: [
    ISessions,
    ITranslator,
    ICommandPalette,
    ILayoutRestorer,
    IEditorLanguageRegistry,
    IAnnouncer,
    IPreferences
  ],
  activate: (
    app: JupyterFrontEnd,
    api: IApi,
    verify: IVerify,
    sessions: ISessions | null,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    languages: IEditorLanguageRegistry | null,
    announcer: IAnnouncer | null,
    preferences: IPreferences | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('reprise');
    const { commands, shell } = app;
    const tracker = new WidgetTracker<MainAreaWidget<VerifyTab>>({ namespace: 'reprise-verify' });

    const opened = (session: string, from: number): MainAreaWidget<VerifyTab> => {
      const id = `jp-reprise-verify-${session}-${from}`;
      const there = tracker.find(each => each.id === id);
      if (there !== undefined) {
        return there;
      }
      const verification = verify.of(session, from);
      const content = new VerifyTab({
        api,
        verification,
        trans,
        languages,
        preferences,
        showStep: commands.hasCommand(TimelineCommands.showStep)
          ? step => void commands.execute(TimelineCommands.showStep, { session, step })
          : null
      });
      const tab = new MainAreaWidget({ content });
      tab.id = id;
      content.node.setAttribute('aria-label', trans.__('Verify report'));
      tab.title.icon = checkIcon;
      tab.title.closable = true;
      const name = sessions?.all
        .find(each => each.id === session)
        ?.path.split('/')
        .pop();
      tab.title.label = name === undefined ? trans.__('Verify') : trans.__('Verify · %1', name);
      tab.title.caption = trans.__('Verify report of session %1', session);
      content.named.connect((_, named) => {
        tab.title.label = trans.__('Verify · %1', named);
      });
      if (announcer !== null) {
        announced(verification, announcer, trans);
      }
      void tracker.add(tab);
      return tab;
    };

    commands.addCommand(VerifyCommands.open, {
      label: args =>
        typeof args.from === 'number' && args.from > 0
          ? trans.__('Verify from Step %1', args.from)
          : trans.__('Verify'),
      caption: trans.__('Play every step again in a fresh sandbox, and compare'),
      describedBy: {
        args: {
          type: 'object',
          properties: {
            session: {
              type: 'string',
              description: trans.__('Of the current notebook if left out')
            },
            from: { type: 'number', description: trans.__('The first step to compare') }
          }
        }
      },
      isEnabled: args => typeof args.session === 'string' || sessions?.current?.id != null,
      execute: async args => {
        const session = typeof args.session === 'string' ? args.session : sessions?.current?.id;
        if (session === undefined || session === null) {
          return;
        }
        const from = typeof args.from === 'number' ? args.from : 0;
        const tab = opened(session, from);
        if (!tab.isAttached) {
          shell.add(tab, placeOf(app), { type: 'Reprise' });
        }
        shell.activateById(tab.id);
        const { verification } = tab.content.context;
        await verification.look();
        // A tab that comes back with the page shows what there is, and begins nothing.
        const complete = verification.state === 'done' && (verification.newer ?? 0) === 0;
        const going = ['queued', 'running', 'stopping'].includes(verification.state);
        if (args.restored !== true && !complete && !going) {
          await verification.begin();
        } else if (args.restored === true && verification.state === 'none') {
          verification.forgotten();
        }
      }
    });
    palette?.addItem({ command: VerifyCommands.open, category: trans.__('Reprise') });
    sessions?.currentChanged.connect(() => commands.notifyCommandChanged(VerifyCommands.open));
    void restorer?.restore(tracker, {
      command: VerifyCommands.open,
      args: tab => ({
        session: tab.content.context.verification.session,
        from: tab.content.context.verification.from,
        restored: true
      }),
      name: tab => tab.id
    });
  }
};

/** Notebook 7 shows one widget in its main area; it has room below. */
function placeOf(app: JupyterFrontEnd): string {
  return app.name === 'JupyterLab' ? 'main' : 'down';
}

export const plugins: JupyterFrontEndPlugin<unknown>[] = [service, tabs];
