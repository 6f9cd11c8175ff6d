// The plugins behind what panels share: announcements, safe rendering, dialogs with decision frames.

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IThemeManager } from '@jupyterlab/apputils';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IApi } from '../api/tokens';
import { IPreferences } from '../preferences/tokens';
import { Announcer } from './announcer';
import { DialogDecider } from './decision';
import { SafeRendering } from './rendering';
import { IAnnouncer, ISafeRendering } from './tokens';

const announcer: JupyterFrontEndPlugin<IAnnouncer> = {
  id: '@jupyter-reprise/lab:announcer',
  description: 'Says things to screen readers, one at a time.',
  autoStart: true,
  requires: [IPreferences],
  provides: IAnnouncer,
  activate: (_: JupyterFrontEnd, preferences: IPreferences): IAnnouncer => {
    const made = new Announcer();
    const take = (): void => {
      made.wanted = preferences.now.announcements;
    };
    preferences.changed.connect(take);
    take();
    return made;
  }
};

const rendering: JupyterFrontEndPlugin<ISafeRendering> = {
  id: '@jupyter-reprise/lab:rendering',
  description: 'Renders hostile Markdown and outputs without trusting them.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  provides: ISafeRendering,
  activate: (_: JupyterFrontEnd, rendermime: IRenderMimeRegistry): ISafeRendering =>
    new SafeRendering(rendermime)
};

const decisions: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:decisions',
  description: 'Shows the decision that a request ran into, to be pressed by a person.',
  autoStart: true,
  requires: [IApi],
  optional: [IThemeManager, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    api: IApi,
    themes: IThemeManager | null,
    translator: ITranslator | null
  ): void => {
    api.setDecider(new DialogDecider(api, themes, (translator ?? nullTranslator).load('reprise')));
  }
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [announcer, rendering, decisions];
