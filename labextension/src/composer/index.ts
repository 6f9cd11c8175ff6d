// The plugin that makes composers.

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IAgent } from '../agent/tokens';
import { IApi } from '../api/tokens';
import { browserStore } from '../parts/storage';
import { IAnnouncer } from '../parts/tokens';
import { IPreferences } from '../preferences/tokens';
import { ISkills } from '../skills/tokens';
import { asking } from './asking';
import { ComposerFactory } from './composer';
import { Drafts } from './drafts';
import { IComposerFactory } from './tokens';

const composer: JupyterFrontEndPlugin<IComposerFactory> = {
  id: '@jupyter-reprise/lab:composer',
  description: 'Makes the input of a conversation: drafts, mentions, commands, the meter.',
  autoStart: true,
  requires: [IApi, INotebookTracker],
  optional: [IAgent, ISkills, IAnnouncer, IPreferences, ITranslator],
  provides: IComposerFactory,
  activate: (
    app: JupyterFrontEnd,
    api: IApi,
    tracker: INotebookTracker,
    agent: IAgent | null,
    skills: ISkills | null,
    announcer: IAnnouncer | null,
    preferences: IPreferences | null,
    translator: ITranslator | null
  ): IComposerFactory =>
    new ComposerFactory({
      agent,
      api,
      contents: app.serviceManager.contents,
      tracker,
      skills,
      announcer,
      preferences,
      // Of this server: with a Hub several may share an origin.
      drafts: new Drafts(browserStore(), browserStore('sessionStorage'), PageConfig.getBaseUrl()),
      trans: (translator ?? nullTranslator).load('reprise')
    })
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [composer, asking];
