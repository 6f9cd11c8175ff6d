// Skills that a message may name: the model loads them itself, and is judged as it does.

import { firstLine } from '../parts/words';
import type { ISkills } from '../skills/tokens';
import { fitting, MOST_OF_KIND } from './mentions';
import type { ISource, ISuggestion } from './suggestions';

/** The skills of the catalog. */
export class SkillSource implements ISource {
  constructor(private readonly _skills: ISkills | null) {}

  async find(words: string): Promise<readonly ISuggestion[]> {
    if (this._skills === null) {
      return [];
    }
    const page = await this._skills.list({ limit: 200 });
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
}
