// Variables by the kernel's own completion and inspection: neither is logged, neither becomes a step.

import type { ISharedCodeCell } from '@jupyter/ydoc';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';

import { fitting } from './mentions';
import { ISource, ISuggestion, Late } from './suggestions';

/** Milliseconds that a kernel has to answer; one that runs a cell may answer only after it. */
const PATIENCE = 10_000;
/** Names of the newest cells that are looked at. */
const MOST_NAMES = 500;

// eslint-disable-next-line no-control-regex -- colours of a terminal
const COLOURS = /\u001b\[[0-9;]*m/g;
const IDENTIFIER = /(?<![.\w])[\p{L}_][\p{L}\p{N}_]*/gu;

/** Names that are no variables of anybody's: of the shell, private ones, magics. */
function plain(name: string): boolean {
  return /^[\p{L}][\p{L}\p{N}_]*$/u.test(name) && !SHELL.has(name);
}

const SHELL: ReadonlySet<string> = new Set(['In', 'Out', 'exit', 'quit', 'get_ipython', 'open']);

/** The names in sources, the newest first, each once. */
export function namesIn(sources: readonly string[]): string[] {
  const found = new Set<string>();
  for (const source of [...sources].reverse()) {
    for (const [name] of source.matchAll(IDENTIFIER)) {
      if (found.size >= MOST_NAMES) {
        return [...found];
      }
      found.add(name);
    }
  }
  return [...found];
}

/** How a name gets a value, at the beginning of a line, in the languages that notebooks are in. */
const GIVEN =
  /^[^\S\n]*(?:([\p{L}_][\p{L}\p{N}_]*)[^\S\n]*(?:<-|=(?!=))|(?:def|class|function)[^\S\n]+([\p{L}_][\p{L}\p{N}_]*)|(?:from[^\n]+)?import[^\n]*\bas[^\S\n]+([\p{L}_][\p{L}\p{N}_]*))/gmu;

/** The names that sources give values to, the newest first, each once. */
export function givenIn(sources: readonly string[]): string[] {
  const found = [...sources]
    .reverse()
    .flatMap(source =>
      [...source.matchAll(GIVEN)].map(each => each[1] ?? each[2] ?? each[3] ?? '')
    );
  return [...new Set(found)].slice(0, MOST_NAMES);
}

/** What the kernel says of a value, without its colours and without what is said of its type. */
export function inspected(text: string): { readonly type: string; readonly content: string } {
  const bare = text.replace(COLOURS, '').replace(/\r\n?/g, '\n');
  const type = /^Type:\s+(\S+)/m.exec(bare)?.[1] ?? '';
  const end = /^String form:/m.test(bare) ? bare.search(/^(Class )?Docstring:/m) : -1;
  return { type, content: (end < 0 ? bare : bare.slice(0, end)).trimEnd() };
}

/** The sources of code cells; of those alone that have been run. */
function codeOf(panel: NotebookPanel, ran: boolean): string[] {
  const cells = panel.model?.sharedModel.cells ?? [];
  return cells
    .filter(each => each.cell_type === 'code')
    .filter(each => !ran || (each as ISharedCodeCell).execution_count !== null)
    .map(each => each.getSource());
}

/** The variables of the notebook's kernel. */
export class VariableSource implements ISource {
  constructor(
    private readonly _panel: () => NotebookPanel | null,
    private readonly _trans: TranslationBundle
  ) {}

  async find(words: string): Promise<readonly ISuggestion[]> {
    const panel = this._panel();
    const kernel = panel?.sessionContext.session?.kernel ?? null;
    if (panel === null || kernel === null || (words !== '' && !plain(words))) {
      return [];
    }
    if (words === '') {
      // All that a kernel could complete takes it a second. What ran here is at hand.
      const ran = codeOf(panel, true);
      return givenIn(ran)
        .filter(plain)
        .map(name => this._suggestion(kernel, name));
    }
    const answer = this._fitting(panel, kernel, words);
    return this._patiently(answer, said => new Late(said, answer));
  }

  private async _fitting(
    panel: NotebookPanel,
    kernel: Kernel.IKernelConnection,
    words: string
  ): Promise<readonly ISuggestion[]> {
    const [names, builtin] = await Promise.all([
      this._newestOf(kernel, words),
      this._builtins(kernel)
    ]);
    const there = names.filter(each => plain(each) && !builtin.has(each));
    // What stands in the notebook first.
    const written = namesIn(codeOf(panel, false)).filter(each => there.includes(each));
    return fitting(
      [...new Set([...written, ...there])].map(name => this._suggestion(kernel, name)),
      words
    );
  }

  private _suggestion(kernel: Kernel.IKernelConnection, name: string): ISuggestion {
    return {
      key: `variable:${name}`,
      group: 'variables',
      label: name,
      detail: '',
      instead: name,
      bring: async () => {
        const reply = await this._patiently(
          kernel.requestInspect({ code: name, cursor_pos: name.length, detail_level: 0 }),
          said => new Error(said)
        );
        const { content } = reply;
        const data = content.status === 'ok' && content.found ? content.data['text/plain'] : null;
        if (typeof data !== 'string') {
          throw new Error(this._trans.__('The kernel knows no %1 now.', name));
        }
        const { type, content: shown } = inspected(data);
        return {
          kind: 'variable',
          name,
          title: type === '' ? name : `${name} (${type})`,
          content: shown,
          more: `Look at ${name} in a cell or a command to see more.`
        };
      }
    };
  }

  /**
   * The names that words may become. A kernel answers one question after the other, each in up to a
   * second: words that were typed over while another question was with it are not asked, and fit nothing.
   */
  private _newestOf(kernel: Kernel.IKernelConnection, words: string): Promise<string[]> {
    const turn = (this._turn += 1);
    const names = this._asked.then(() =>
      turn === this._turn ? this._complete(kernel, words) : []
    );
    // A kernel that is busy for long does not hold up what the next one is asked.
    this._asked = this._patiently(names, said => new Error(said)).then(
      () => undefined,
      () => undefined
    );
    return names;
  }

  private async _complete(kernel: Kernel.IKernelConnection, code: string): Promise<string[]> {
    const reply = await kernel.requestComplete({ code, cursor_pos: code.length });
    return reply.content.status === 'ok' ? reply.content.matches : [];
  }

  /** The names that every program of the language has; none where it has none of this name. */
  private _builtins(kernel: Kernel.IKernelConnection): Promise<ReadonlySet<string>> {
    let known = this._known.get(kernel);
    if (known === undefined) {
      known = this._complete(kernel, '__builtins__.').then(names => new Set(names));
      this._known.set(kernel, known);
      known.catch(() => this._known.delete(kernel));
    }
    return known;
  }

  private async _patiently<T>(asked: Promise<T>, late: (said: string) => Error): Promise<T> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const over = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(late(this._trans.__('Variables: the kernel is busy and has not answered yet.')));
      }, PATIENCE);
    });
    try {
      return await Promise.race([asked, over]);
    } finally {
      clearTimeout(timer);
    }
  }

  private _turn = 0;
  /** Settled when the kernel may be asked for names again. */
  private _asked: Promise<void> = Promise.resolve();
  private readonly _known = new WeakMap<Kernel.IKernelConnection, Promise<ReadonlySet<string>>>();
}
