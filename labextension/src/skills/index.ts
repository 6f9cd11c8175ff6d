// The plugins of skills: their service, and the panel, tabs and commands with which people govern them.

import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IEditorServices } from '@jupyterlab/codeeditor';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IApi } from '../api/tokens';
import { copyText } from '../parts/clipboard';
import { skillIcon } from '../parts/icons';
import { browserStore } from '../parts/storage';
import { IAnnouncer, ISafeRendering } from '../parts/tokens';
import { ISessions } from '../sessions/tokens';
import { IContext } from './context';
import { Opener, openingOf } from './opening';
import { SkillsPanel } from './panel';
import { Skills } from './service';
import { ISkills, SkillCommands } from './tokens';

const service: JupyterFrontEndPlugin<ISkills> = {
  id: '@jupyter-reprise/lab:skills',
  description: 'The catalog of skills: read, changed, and told when it has changed.',
  autoStart: true,
  requires: [IApi],
  provides: ISkills,
  activate: (_: JupyterFrontEnd, api: IApi): ISkills => new Skills(api)
};

const views: JupyterFrontEndPlugin<void> = {
  id: '@jupyter-reprise/lab:skill-views',
  description: 'Browse, read, trust, revoke, write and promote skills.',
  autoStart: true,
  requires: [ISkills, IApi, ISafeRendering, IAnnouncer, IEditorServices],
  optional: [
    ILabShell,
    ILayoutRestorer,
    ICommandPalette,
    ITranslator,
    ISessions,
    IEditorLanguageRegistry
  ],
  activate: (
    app: JupyterFrontEnd,
    skills: ISkills,
    api: IApi,
    rendering: ISafeRendering,
    announcer: IAnnouncer,
    editors: IEditorServices,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    translator: ITranslator | null,
    sessions: ISessions | null,
    languages: IEditorLanguageRegistry | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('reprise');
    const opener = new Opener(
      app,
      labShell === null ? 'down' : 'main',
      browserStore(),
      `reprise:skill-draft:${api.settings.baseUrl}`
    );
    const context: IContext = {
      skills,
      api,
      trans,
      rendermime: rendering.rendermime,
      editors,
      languages,
      announcer,
      sessions,
      open: opener
    };
    opener.context = context;
    const panel = new SkillsPanel(context);
    app.shell.add(panel, 'left', { rank: 510, type: 'Reprise' });
    restorer?.add(panel, 'reprise-skills');

    const { commands } = app;
    commands.addCommand(SkillCommands.panel, {
      label: trans.__('Skills'),
      caption: trans.__('Browse, read and govern skills'),
      icon: skillIcon,
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => {
        app.shell.activateById(panel.id);
        panel.find();
      }
    });
    commands.addCommand(SkillCommands.open, {
      label: trans.__('Open Skill'),
      describedBy: {
        args: {
          type: 'object',
          required: ['skill'],
          properties: {
            skill: { type: 'string', description: 'NAME, NAME@NUMBER or sha256:DIGEST' },
            scope: { type: 'string', description: 'personal, team/NAME or organisation' },
            view: { type: 'string', enum: ['read', 'files', 'versions', 'findings', 'usage'] },
            since: { type: 'integer', description: 'The version that it is compared with' }
          }
        }
      },
      isEnabled: () => true,
      execute: args => {
        const opening = openingOf(args) ?? panel.active?.named ?? null;
        if (opening !== null) {
          opener.skill(opening);
        }
      }
    });
    commands.addCommand(SkillCommands.create, {
      label: trans.__('New Skill…'),
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => opener.create()
    });
    commands.addCommand(SkillCommands.importSkills, {
      label: trans.__('Import Skills…'),
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => opener.importSkills()
    });
    commands.addCommand(SkillCommands.members, {
      label: trans.__('Teams of Skills'),
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => opener.teams()
    });
    commands.addCommand(SkillCommands.edit, {
      label: trans.__('Edit Skill'),
      describedBy: { args: { type: 'object', properties: {} } },
      isEnabled: () => panel.active !== null,
      execute: () => {
        if (panel.active !== null) {
          opener.edit(panel.active.named);
        }
      }
    });
    commands.addCommand(SkillCommands.export_, {
      label: trans.__('Export Skill'),
      describedBy: { args: { type: 'object', properties: {} } },
      isEnabled: () => panel.active !== null,
      execute: async () => {
        if (panel.active !== null) {
          await opener.download(panel.active.named, null);
        }
      }
    });
    commands.addCommand(SkillCommands.copyName, {
      label: trans.__('Copy Skill Name'),
      describedBy: { args: { type: 'object', properties: {} } },
      isEnabled: () => panel.active !== null,
      execute: async () => {
        const { active } = panel;
        if (active !== null) {
          await copyText(active.version?.reference ?? active.name);
        }
      }
    });

    const category = trans.__('Reprise');
    for (const command of [
      SkillCommands.panel,
      SkillCommands.create,
      SkillCommands.importSkills,
      SkillCommands.members
    ]) {
      palette?.addItem({ command, category });
    }
    for (const [rank, command] of [
      SkillCommands.open,
      SkillCommands.edit,
      SkillCommands.export_,
      SkillCommands.copyName
    ].entries()) {
      app.contextMenu.addItem({ command, selector: '.jp-Reprise-skill-row[data-skill]', rank });
    }
    if (restorer !== null) {
      opener.restore(restorer);
    }
  }
};

/** The plugins of this folder. */
export const plugins: JupyterFrontEndPlugin<unknown>[] = [service, views];
