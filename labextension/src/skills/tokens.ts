/** What the skills service promises to other parts: the catalog, read and changed, without a page. */

import type { ISignal } from '@lumino/signaling';
import { Token } from '@lumino/coreutils';

import type { components } from '../api/schema';

type Schemas = components['schemas'];

export namespace ISkills {
  /** One version of a skill in one scope. */
  export type Version = Schemas['SkillVersion'];
  /** What a SKILL.md says, without its body. */
  export type Said = Schemas['Skill'];
  export type File = Schemas['SkillFile'];
  export type Finding = Schemas['Finding'];
  export type Standing = Schemas['Standing'];
  export type Differences = Schemas['SkillDifferences'];
  export type Usage = Schemas['SkillUsage'];
  export type Cost = Schemas['SkillCost'];
  export type Event = Schemas['SkillEvent'];
  export type Promotion = Schemas['Promotion'];
  export type Membership = Schemas['Membership'];
  export type Member = Schemas['Member'];
  export type Arrivals = Schemas['Arrivals'];
  export type Job = Schemas['Job'];
  export type Me = Schemas['Me'];

  /**
   * Names a skill as requests do.
   *
   * `skill` is NAME, NAME@NUMBER or sha256:DIGEST. `scope` is personal, team/NAME or organisation;
   * without it the nearest scope that has the name is meant.
   */
  export interface IName {
    readonly skill: string;
    readonly scope?: string;
  }

  /** A line of a list: a version of the catalog, or what comes with Reprise and was not added. */
  export interface IEntry {
    /** Names exactly this entry. */
    readonly named: IName;
    readonly name: string;
    readonly description: string;
    readonly digest: string;
    readonly standing: Standing;
    /** Null for what comes with Reprise and was not added. */
    readonly version: Version | null;
  }

  export interface IPage {
    readonly entries: readonly IEntry[];
    readonly total: number;
    /** Where the next page begins; null on the last one. */
    readonly next: number | null;
  }

  export interface IQuery {
    /** All words must fit in names, descriptions or bodies; best first. */
    readonly words?: string;
    /** A scope, or 'shipped'; without it the nearest of each name in all scopes. */
    readonly scope?: string;
    /** All versions, also drafts that may be seen and what was revoked. */
    readonly everything?: boolean;
    readonly offset?: number;
    readonly limit?: number;
  }

  export interface IShown {
    readonly version: Version | null;
    readonly standing: Standing;
    readonly skill: Said;
    /** Other scopes' versions of the same name. */
    readonly clashes: readonly Version[];
  }

  /** Something was done with the catalog, here or elsewhere on this server. */
  export interface IChange {
    /** As the event says (`trusted`, `added`, …); 'resynced' after a connection came back. */
    readonly action: string;
    readonly scope?: string;
    readonly name?: string;
    readonly number?: number;
    readonly digest?: string;
    readonly promotion?: string;
  }

  /** A file that is sent to be checked or kept. */
  export interface ISentFile {
    readonly path: string;
    readonly executable: boolean;
    /** Text, or bytes. */
    readonly content: string | Uint8Array;
  }

  export interface IShownText {
    readonly text: string;
    /** To be given as `after`. */
    readonly next: number;
    readonly ended: boolean;
  }

  /** What the strict check says of one skill that was sent. */
  export interface IChecked {
    readonly folder: string;
    readonly name: string;
    readonly digest: string | null;
    /** Why it cannot be taken at all. */
    readonly why_not: string | null;
    readonly findings: readonly Finding[];
    /** What it would cost a model in tokens; null where it cannot be taken. */
    readonly cost: Omit<Cost, 'reference' | 'digest' | 'counted'> | null;
  }
}

/**
 * The catalog of skills.
 *
 * Every method rejects with an `ApiError` of `../api`. Acts that widen rights (trust, reinstate,
 * release, restore, decide, appoint, createTeam) show the decision frame before they are done, and
 * reject when nobody pressed there.
 */
export interface ISkills {
  /** What is known of the catalog may be out of date now: ask again. */
  readonly changed: ISignal<ISkills, ISkills.IChange>;

  list(query?: ISkills.IQuery, signal?: AbortSignal): Promise<ISkills.IPage>;
  show(named: ISkills.IName): Promise<ISkills.IShown>;
  /** The text below the frontmatter; this counts as a load. */
  body(named: ISkills.IName): Promise<string>;
  files(named: ISkills.IName): Promise<readonly ISkills.File[]>;
  file(named: ISkills.IName, path: string): Promise<Uint8Array>;
  archive(named: ISkills.IName): Promise<Uint8Array>;
  findings(named: ISkills.IName): Promise<readonly ISkills.Finding[]>;
  /** Kept by digest and standing: asked once for each content. */
  cost(entry: ISkills.IEntry): Promise<ISkills.Cost>;
  versions(named: ISkills.IName): Promise<readonly ISkills.Version[]>;
  history(named: ISkills.IName): Promise<readonly ISkills.Event[]>;
  usage(named: ISkills.IName): Promise<readonly ISkills.Usage[]>;
  /** One's own sessions that used this very content, the last first. */
  sessions(named: ISkills.IName): Promise<readonly string[]>;
  /** old, new: references, `[SCOPE:]NAME@NUMBER`. */
  differences(old: string, new_: string, offset?: number): Promise<ISkills.Differences>;

  trust(version: ISkills.Version, scope: string, reason?: string): Promise<ISkills.Standing>;
  distrust(version: ISkills.Version, scope: string, reason?: string): Promise<ISkills.Standing>;
  revoke(version: ISkills.Version, scope: string, reason?: string): Promise<ISkills.Standing>;
  reinstate(version: ISkills.Version, scope: string, reason?: string): Promise<ISkills.Standing>;
  release(version: ISkills.Version): Promise<ISkills.Version>;
  restore(version: ISkills.Version): Promise<ISkills.Version>;
  deprecate(version: ISkills.Version, reason: string, undo?: boolean): Promise<ISkills.Version>;

  /** Adds one skill to one's own scope. */
  save(
    folder: string,
    files: readonly ISkills.ISentFile[],
    note?: string
  ): Promise<ISkills.Arrivals>;
  /** The strict check of one skill; nothing is kept. */
  check(
    folder: string,
    files: readonly ISkills.ISentFile[],
    signal?: AbortSignal
  ): Promise<ISkills.IChecked>;
  /** The strict check of each skill in an archive; nothing is kept. */
  checkArchive(archive: Blob, filename: string): Promise<readonly ISkills.IChecked[]>;
  /** Adds skills of an archive to one's own scope; of these names only, if there are any. */
  addArchive(
    archive: Blob,
    filename: string,
    names: readonly string[],
    note?: string
  ): Promise<ISkills.Arrivals>;
  /** Begins to add the skills of a Git repository. */
  importGit(source: string, ref?: string, subfolder?: string): Promise<ISkills.Job>;
  /** What a job's step has shown behind `after` (-1: from the start), as text; waits for more. */
  outputs(id: string, after: number): Promise<ISkills.IShownText>;
  job(id: string, version?: number): Promise<ISkills.Job>;
  cancelJob(id: string): Promise<void>;
  imported(id: string): Promise<ISkills.Arrivals>;

  promotions(everything?: boolean): Promise<readonly ISkills.Promotion[]>;
  promotion(id: string): Promise<ISkills.Promotion>;
  promotionDifferences(id: string, offset?: number): Promise<ISkills.Differences>;
  promote(version: ISkills.Version, to: string, note?: string): Promise<ISkills.Promotion>;
  decide(
    promotion: ISkills.Promotion,
    decision: { approve: boolean; release?: boolean; reason?: string }
  ): Promise<ISkills.Promotion>;
  withdraw(promotion: ISkills.Promotion): Promise<ISkills.Promotion>;

  me(): Promise<ISkills.Me>;
  scopes(): Promise<readonly ISkills.Membership[]>;
  members(scope: string): Promise<readonly ISkills.Member[]>;
  createTeam(team: string): Promise<ISkills.Membership>;
  appoint(scope: string, login: string, role: ISkills.Member['role']): Promise<void>;
  dismiss(scope: string, login: string): Promise<void>;

  /** Runs a script of a skill as a step of a session; the answer is a job. */
  run(
    session: string,
    reference: string,
    script: string,
    args: readonly string[]
  ): Promise<ISkills.Job>;
}

export const ISkills = new Token<ISkills>(
  '@jupyter-reprise/lab:ISkills',
  'The catalog of skills: read, changed, and told when it has changed.'
);

/** Ids of the commands that open what this part shows. */
export namespace SkillCommands {
  /** Shows the Skills panel. */
  export const panel = 'reprise:skills';
  /** Opens a skill's tab. Arguments: `{skill, scope?, view?}` (see `ISkills.IName`). */
  export const open = 'reprise:open-skill';
  export const create = 'reprise:new-skill';
  export const importSkills = 'reprise:import-skills';
  export const members = 'reprise:skill-teams';
  /** Of the row that the panel's menu was opened on. */
  export const edit = 'reprise:edit-skill';
  export const export_ = 'reprise:export-skill';
  export const copyName = 'reprise:copy-skill-name';
}
