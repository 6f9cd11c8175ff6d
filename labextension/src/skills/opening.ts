// Opens this part's tabs: one for a skill in a scope, for a promotion, for a draft; kept across a reload.

import { ILayoutRestorer, JupyterFrontEnd } from '@jupyterlab/application';
import { WidgetTracker } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { ApiError } from '../api/tokens';
import { IStore } from '../parts/storage';
import { TimelineCommands } from '../timeline/tokens';
import { IContext, IOpener, IOpening, View } from './context';
import { Draft } from './draft';
import { filesOfDrop } from './dropped';
import { EditorTab, newName } from './editor';
import { ImportTab } from './importtab';
import { failed, judge } from './judging';
import { bare, nameOf } from './names';
import { promote, PromotionTab } from './promoting';
import { SkillTab } from './tab';
import { TeamsTab } from './teams';
import { ISkills, SkillCommands } from './tokens';

/** Milliseconds after which an address of bytes that were downloaded is given back. */
const DOWNLOADED = 60_000;

export class Opener implements IOpener {
  /**
   * @param area where wide things stand: Notebook 7's main area has one widget only
   * @param keys what begins the names of drafts that are kept: other servers of this address have others
   */
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _area: 'main' | 'down',
    private readonly _store: IStore,
    private readonly _keys: string
  ) {}

  /** Set once: views need the opener, and it needs what they are given. */
  context!: IContext;

  /** Has the tabs of skills come back when the page does. */
  restore(restorer: ILayoutRestorer): void {
    void restorer.restore(this._tabs, {
      command: SkillCommands.open,
      args: tab => ({ ...tab.opening }),
      name: tab => tab.id
    });
  }

  skill(opening: IOpening): void {
    const tab = this._there(SkillTab.idOf(opening));
    if (tab instanceof SkillTab) {
      tab.reopen(opening);
      void this._tabs.save(tab);
      this._app.shell.activateById(tab.id);
      return;
    }
    const made = new SkillTab(this.context, opening);
    this._add(made);
    void this._tabs.add(made);
  }

  edit(named: ISkills.IName, at?: { path: string; line: number | null }): void {
    void this._edit(named, at).catch((error: unknown) => failed(error, this.context));
  }

  async create(): Promise<void> {
    const { skills, trans } = this.context;
    const name = await newName(trans);
    if (name === null) {
      return;
    }
    try {
      await skills.show({ skill: name, scope: 'personal' });
      // There is one: it is gone on with, since a save would be its next version.
      this.edit({ skill: name, scope: 'personal' });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) {
        this._draft(name, null);
      } else {
        await failed(error, this.context);
      }
    }
  }

  importSkills(files?: DataTransfer): Promise<void> {
    // Its list is empty once the event is over.
    const dropped = files === undefined ? undefined : filesOfDrop(files);
    const there = this._there(ImportTab.ID);
    const tab = there instanceof ImportTab ? there : new ImportTab(this.context);
    if (tab !== there) {
      this._add(tab);
    }
    this._app.shell.activateById(tab.id);
    if (dropped !== undefined) {
      tab.look(dropped);
    }
    return Promise.resolve();
  }

  promotion(id: string): void {
    this._only(PromotionTab.idOf(id), () => new PromotionTab(this.context, id));
  }

  promote(version: ISkills.Version): Promise<void> {
    return promote(this.context, version);
  }

  teams(): void {
    this._only(TeamsTab.ID, () => new TeamsTab(this.context));
  }

  judge(act: Parameters<IOpener['judge']>[0], version: ISkills.Version): Promise<void> {
    return judge(this.context, act, version);
  }

  async download(named: ISkills.IName, path: string | null): Promise<void> {
    const { skills } = this.context;
    try {
      const bytes = path === null ? await skills.archive(named) : await skills.file(named, path);
      const name = path === null ? `${bare(named)}.zip` : (path.split('/').pop() ?? path);
      save(bytes, name);
    } catch (error) {
      await failed(error, this.context);
    }
  }

  timeline(session: string): boolean {
    return this._run(TimelineCommands.open, { session });
  }

  step(session: string, seq: number): boolean {
    return this._run(TimelineCommands.showStep, { session, step: seq });
  }

  private _run(command: string, args: { session: string; step?: number }): boolean {
    if (!this._app.commands.hasCommand(command)) {
      return false;
    }
    void this._app.commands.execute(command, args);
    return true;
  }

  private async _edit(
    named: ISkills.IName,
    at?: { path: string; line: number | null }
  ): Promise<void> {
    const { skills } = this.context;
    const { version, skill } = await skills.show(named);
    const begun = version === null ? named : nameOf(version);
    const tab = this._draft(skill.name, {
      named: begun,
      digest: skill.digest,
      files: skill.files
    });
    if (at !== undefined) {
      tab.go(at.path, at.line);
    }
  }

  private _draft(
    name: string,
    base: { named: ISkills.IName; digest: string; files: readonly ISkills.File[] } | null
  ): EditorTab {
    const id = `jp-reprise-skill-edit-${base?.digest ?? 'new'}-${name}`;
    const there = this._there(id);
    if (there instanceof EditorTab) {
      this._app.shell.activateById(id);
      return there;
    }
    const { skills } = this.context;
    const draft = new Draft(
      name,
      base,
      (of, path) => skills.file(of, path),
      this._store,
      this._keys
    );
    draft.takeUp();
    const tab = new EditorTab(this.context, draft, id);
    this._add(tab);
    return tab;
  }

  private _only(id: string, make: () => Widget): void {
    if (this._there(id) === undefined) {
      this._add(make());
    }
    this._app.shell.activateById(id);
  }

  private _there(id: string): Widget | undefined {
    for (const widget of this._app.shell.widgets(this._area)) {
      if (widget.id === id) {
        return widget;
      }
    }
    return undefined;
  }

  private _add(widget: Widget): void {
    this._app.shell.add(widget, this._area);
    this._app.shell.activateById(widget.id);
  }

  private readonly _tabs = new WidgetTracker<SkillTab>({ namespace: 'reprise-skills' });
}

/** What arguments of the command say; null for what names no skill. */
export function openingOf(args: Readonly<Record<string, unknown>>): IOpening | null {
  const { skill, scope, view, since } = args;
  if (typeof skill !== 'string') {
    return null;
  }
  const views: readonly unknown[] = ['read', 'files', 'versions', 'findings', 'usage'];
  return {
    skill,
    ...(typeof scope === 'string' ? { scope } : {}),
    ...(views.includes(view) ? { view: view as View } : {}),
    ...(typeof since === 'number' ? { since } : {})
  };
}

/** As a download: a browser opens nothing of it. */
function save(bytes: Uint8Array, name: string): void {
  const address = URL.createObjectURL(
    new Blob([bytes as Uint8Array<ArrayBuffer>], { type: 'application/octet-stream' })
  );
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), DOWNLOADED);
}
