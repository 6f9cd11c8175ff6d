/** The plugins of the timeline: its service, the Session panel, and what can be done with a step. */

import { ILayoutRestorer } from '@jupyterlab/application';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Poll } from '@lumino/polling';

import { IApi } from '../api/tokens';
import { IAnnouncer, ISafeRendering } from '../parts/tokens';
import { IPreferences } from '../preferences/tokens';
import { ISessions } from '../sessions/tokens';
import { Acts } from './acts';
import { ApiSource } from './apisource';
import { addCommands } from './commands';
import { KnownSessions } from './known';
import { TimelinePanel } from './panel';
import { Timeline } from './service';
import { SessionSidePanel } from './sidepanel';
import { TimelineState } from './state';
import { ISessionPanel, ITimeline } from './tokens';

/** Milliseconds after which a session that another program writes is asked for news. */
const ASK_MS = 5_000;
/** Before the Workspace. */
const RANK = 100;

const service: JupyterFrontEndPlugin<ITimeline> = {
  id: '@jupyter-reprise/lab:timeline-service',
  description: 'Steps of sessions by row number, filtered and live.',
  autoStart: true,
  requires: [IApi],
  provides: ITimeline,
  activate: (_: JupyterFrontEnd, api: IApi): ITimeline => {
    const timeline = new Timeline(new ApiSource(api));
    api.events.connect((_, event) => {
      if (event.about === 'session' && event.fork !== undefined) {
        timeline.tellFork(event.session, event.fork);
      } else if (event.about === 'job' && event.session !== undefined) {
        timeline.poke(event.session);
      }
    });
    api.connection.restored.connect(() => timeline.pokeAll());
    return timeline;
  }
};

const sessionPanel: JupyterFrontEndPlugin<ISessionPanel> = {
  id: '@jupyter-reprise/lab:session-panel',
  description: 'The Session panel on the left.',
  autoStart: true,
  optional: [ITranslator, ILayoutRestorer],
  provides: ISessionPanel,
  activate: (
    app: JupyterFrontEnd,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null
  ): ISessionPanel => {
    const panel = new SessionSidePanel(app.shell, translator ?? nullTranslator);
    panel.place();
    restorer?.add(panel, panel.id);
    return panel;
  }
};

const panel: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:timeline',
  description: 'The history of a session, step by step, with what can be done with each.',
  autoStart: true,
  requires: [IApi, ITimeline, ISessionPanel, ISafeRendering, IAnnouncer],
  optional: [ISessions, IPreferences, ITranslator, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    api: IApi,
    timeline: ITimeline,
    sessionPanel: ISessionPanel,
    rendering: ISafeRendering,
    announcer: IAnnouncer,
    sessions: ISessions | null,
    preferences: IPreferences | null,
    optionalTranslator: ITranslator | null,
    palette: ICommandPalette | null
  ): void => {
    const translator = optionalTranslator ?? nullTranslator;
    const { commands } = app;
    const known = new KnownSessions(api);
    // What sessions are called, and how they hang together, changes with each of these.
    api.events.connect((_, event) => {
      if (event.about === 'session') {
        void known.refresh().catch(() => undefined); // the next event, or a look, asks again
      }
    });
    const state = new TimelineState(timeline, known, sessions);
    const acts = new Acts({
      api,
      commands,
      contents: app.serviceManager.contents,
      known,
      sessions,
      announcer,
      translator
    });
    const widget = new TimelinePanel({ api, commands, rendering, state, translator });
    sessionPanel.addSection(widget, RANK);
    const follow = (): void => widget.grid.setFollows(preferences?.now.followLive ?? true);
    preferences?.changed.connect(follow);
    follow();
    addCommands({
      commands,
      palette,
      acts,
      state,
      timeline,
      sessions,
      panel: widget,
      sessionPanel,
      api,
      trans: translator.load('reprise')
    });
    const news = new Poll({
      name: '@jupyter-reprise/lab:timeline-news',
      frequency: { interval: ASK_MS, backoff: true, max: 60_000 },
      standby: () =>
        widget.isVisible && api.connection.line.state === 'online' ? 'when-hidden' : true,
      factory: () => state.history?.refresh() ?? Promise.resolve()
    });
    widget.disposed.connect(() => news.dispose());
  }
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [service, sessionPanel, panel];
