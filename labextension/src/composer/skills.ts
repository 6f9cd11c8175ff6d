// Skills that a message may name: the model loads them itself, and is judged as it does.

import { firstLine } from '../parts/words';
import type { ISkills } from '../skills/tokens';
import { fitting, MOST_OF_KIND } from './mentions';
import type { ISource, ISuggestion } from './suggestions';

/** Milliseconds that a list of skills is good for. */
const FRESH = 5_000;

/** The skills of the catalog. */
export class SkillSource implements ISource {
  constructor(private readonly _skills: ISkills | null) {}

  async find(words: string): Promise<readonly ISuggestion[]> {
    if (this._skills === null) {
      return [];
    }
    const page = await this._listed(this._skills);
    const usable = page.entries.filter(each => each.standing !== 'revoked');
    const found = fitting(
      usable.map((each): ISuggestion => ({
        key: `skill:${each.name}`,
        group: 'skills',
        label: each.name,
        detail: firstLine(each.description, 120),
        instead: each.name,
        bring: () =>
          Promise.resolve({
            kind: 'skill',
            name: each.name,
            title: each.name,
            content: '',
            more: `load_skill with ${each.name} shows it.`
          })
      })),
      words,
      MOST_OF_KIND
    );
    return found;
  }

  /** The list, asked for once in a while and not for each letter. */
  private _listed(skills: ISkills): Promise<ISkills.IPage> {
    if (this._kept === null || Date.now() > this._kept.until) {
      const page = skills.list({ limit: 200 });
      this._kept = { page, until: Date.now() + FRESH };
      page.catch(() => {
        this._kept = null;
      });
    }
    return this._kept.page;
  }

  private _kept: { readonly until: number; readonly page: Promise<ISkills.IPage> } | null = null;
}
