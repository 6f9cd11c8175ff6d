// What can be named in a message, and what is then brought: cells, variables, files, skills, commands.

import type { TranslationBundle } from '@jupyterlab/translation';

import { IFindable, fitting, IQuery, MOST_OF_KIND, MOST_SHOWN } from './mentions';
import type { IItem } from './message';
import type { ComposerAct } from './tokens';

/** One line of the list. */
export interface ISuggestion extends IFindable {
  readonly key: string;
  readonly group: 'cells' | 'variables' | 'files' | 'skills' | 'commands';
  /** What stands in the text in place of the query. */
  readonly instead: string;
  /** What is brought along; null where the text says all. */
  readonly bring: (() => Promise<IItem>) | null;
}

/** Words for what has not answered yet; `answer` may still come. */
export class Late extends Error {
  constructor(
    message: string,
    readonly answer: Promise<readonly ISuggestion[]>
  ) {
    super(message);
  }
}

/** One kind of things, as they are now. */
export interface ISource {
  /**
   * Those that fit, the best first. Rejects, in words, where they cannot be asked for; with `Late`
   * where they are long in coming.
   */
  find(words: string): Promise<readonly ISuggestion[]>;
}

export interface ISources {
  readonly cells: ISource;
  readonly variables: ISource;
  readonly files: ISource;
  readonly skills: ISource;
}

/** What a list shows. `missing`: kinds that could not be asked for, in words. `whole`: all kinds
 * have answered, or have been said to be missing. */
export interface IFound {
  readonly suggestions: readonly ISuggestion[];
  readonly missing: readonly string[];
  readonly whole: boolean;
}

/** Tell what to show for a query, as each kind answers: a kernel that is busy holds nothing up. */
export async function suggestionsFor(
  query: IQuery,
  sources: ISources,
  acts: ReadonlySet<ComposerAct>,
  trans: TranslationBundle,
  tell: (found: IFound) => void
): Promise<void> {
  if (query.mark === '/') {
    const skill = /^skill\s+(.*)$/.exec(query.words);
    if (skill === null) {
      tell({
        suggestions: fitting(commands(acts, trans), query.words),
        missing: [],
        whole: true
      });
      return;
    }
    await asked([sources.skills], skill[1] ?? '', trans, found => {
      const suggestions = found.suggestions.map(each => ({
        ...each,
        instead: `/skill ${each.label}`,
        bring: null
      }));
      tell({ ...found, suggestions });
    });
    return;
  }
  const { cells, variables, files, skills } = sources;
  await asked([cells, variables, files, skills], query.words, trans, tell);
}

async function asked(
  sources: readonly ISource[],
  words: string,
  trans: TranslationBundle,
  tell: (found: IFound) => void
): Promise<void> {
  const answers: (readonly ISuggestion[])[] = sources.map(() => []);
  const missing: (string | null)[] = sources.map(() => null);
  let left = sources.length;
  const show = (): void => {
    // Kinds of which one is named by the words go before those that only speak of them.
    const ordered = [
      ...answers.filter(each => named(each[0], words)),
      ...answers.filter(each => !named(each[0], words))
    ];
    tell({
      suggestions: ordered.flat().slice(0, MOST_SHOWN),
      missing: missing.filter(each => each !== null),
      whole: left === 0
    });
  };
  await Promise.all(
    sources.map(async (source, index) => {
      const take = (found: readonly ISuggestion[]): void => {
        answers[index] = found.slice(0, MOST_OF_KIND);
        missing[index] = null;
      };
      const lack = (failed: unknown): void => {
        missing[index] =
          failed instanceof Error ? failed.message : trans.__('Something could not be asked.');
      };
      try {
        take(await source.find(words));
      } catch (failed) {
        lack(failed);
        if (failed instanceof Late) {
          void failed.answer.then(take, lack).then(show);
        }
      }
      left -= 1;
      show();
    })
  );
}

/** Whether a suggestion's name begins with the words: a cell's with its number. */
function named(suggestion: ISuggestion | undefined, words: string): boolean {
  if (suggestion === undefined) {
    return false;
  }
  const label = suggestion.label.toLowerCase();
  const wanted = words.toLowerCase();
  return (
    label.startsWith(wanted) ||
    label.slice(label.lastIndexOf('/') + 1).startsWith(wanted) ||
    (suggestion.group === 'cells' && /^\d+$/.test(wanted))
  );
}

/** The commands; those that cannot be done now are left out. */
export function commands(
  acts: ReadonlySet<ComposerAct>,
  trans: TranslationBundle
): readonly ISuggestion[] {
  const all: readonly [string, string][] = [
    ['skill', trans.__('Run a skill: its name, then what to do with it')],
    ['continue', trans.__('Go on with the turn where it was cut')],
    ['undo', trans.__('Undo the newest turn')],
    ['new', trans.__('Begin a new conversation')],
    ['export', trans.__('Save the conversation as a file')]
  ];
  return all
    .filter(([name]) => name === 'skill' || acts.has(name as ComposerAct))
    .map(([name, detail]) => ({
      key: `command:${name}`,
      group: 'commands',
      label: name,
      detail,
      instead: `/${name}`,
      bring: null
    }));
}
