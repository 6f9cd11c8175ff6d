// The plugin whose settings stand in the Settings Editor, and the menu of Reprise.

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IMainMenu } from '@jupyterlab/mainmenu';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { MenuSvg } from '@jupyterlab/ui-components';

import { GROUPS } from './menu';
import { LivePreferences } from './service';
import { IPreferences } from './tokens';

/** Between Kernel (rank 50 of JupyterLab's) and Tabs. */
const MENU_RANK = 65;

const preferences: JupyterFrontEndPlugin<IPreferences> = {
  id: '@jupyter-reprise/lab:plugin',
  description: 'Settings of Reprise.',
  autoStart: true,
  optional: [ISettingRegistry],
  provides: IPreferences,
  activate: (_: JupyterFrontEnd, registry: ISettingRegistry | null): IPreferences => {
    const live = new LivePreferences();
    registry
      ?.load(preferences.id)
      .then(settings => live.follow(settings))
      .catch((error: unknown) => {
        console.error('The settings of Reprise could not be read; defaults hold.', error);
      });
    return live;
  }
};

const menu: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:menu',
  description: 'The menu of Reprise.',
  autoStart: true,
  requires: [IMainMenu],
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, main: IMainMenu, translator: ITranslator | null): void => {
    const trans = (translator ?? nullTranslator).load('reprise');
    void app.restored.then(() => {
      const made = new MenuSvg({ commands: app.commands });
      made.id = 'jp-Reprise-menu';
      made.title.label = trans.__('Reprise');
      for (const group of GROUPS) {
        // A part that this application lacks (Notebook has no launcher) leaves no gap.
        const there = group.filter(command => app.commands.hasCommand(command));
        if (there.length > 0 && made.items.length > 0) {
          made.addItem({ type: 'separator' });
        }
        for (const command of there) {
          made.addItem({ command });
        }
      }
      if (made.items.length > 0) {
        main.addMenu(made, false, { rank: MENU_RANK });
      } else {
        made.dispose();
      }
    });
  }
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [preferences, menu];
