/** The chat as a whole: its panel, what it is made of, and what its buttons do to the page. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { IThemeManager } from '@jupyterlab/apputils';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { INotebookTracker } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { ConversationInfo, IAgent, IConversation, ModelStanding } from '../agent/tokens';
import { ApiError, type IApi } from '../api/tokens';
import { numberOf } from '../composer/cells';
import type { IComposer, IComposerFactory } from '../composer/tokens';
import { bare } from '../pages/service';
import type { IAnnouncer } from '../parts/tokens';
import type { IProposals } from '../proposals/tokens';
import type { INotebookSession, ISessions } from '../sessions/tokens';
import { TimelineCommands } from '../timeline/tokens';
import type { Surroundings } from './context';
import { Desk } from './desk';
import { dialogsOf } from './dialogs';
import type { Where } from './host';
import { titleOf } from './list';
import { ChatPanel } from './panel';
import { PlainComposer } from './plain';
import type { IChat } from './tokens';

/** How the server says that there is none. */
const NO_KEY = 'No key for the model';
/** Makes a notebook in an environment; of another part. */
const NEW_NOTEBOOK = 'reprise:new-notebook';

export interface ChatParts {
  readonly app: JupyterFrontEnd;
  readonly agent: IAgent;
  readonly api: IApi;
  readonly rendermime: IRenderMimeRegistry;
  readonly languages: IEditorLanguageRegistry | null;
  readonly sessions: ISessions | null;
  readonly tracker: INotebookTracker | null;
  readonly composers: IComposerFactory | null;
  readonly proposals: IProposals | null;
  readonly themes: IThemeManager | null;
  readonly announcer: IAnnouncer | null;
  readonly trans: TranslationBundle;
}

export class Chat implements IChat {
  constructor(private readonly _parts: ChatParts) {
    const { agent, app, sessions, composers, trans } = _parts;
    this.desk = new Desk(
      agent,
      sessions,
      {
        undo: conversation => dialogsOf(conversation, trans).undo(),
        fresh: () => {
          this.desk.fresh();
          return Promise.resolve();
        },
        export: conversation => this.save(conversation.info, conversation.id, 'markdown')
      },
      {
        closed: (conversation, where) => this._closed(conversation, where),
        where: notebook => this._whereWords(notebook)
      }
    );
    this._composer = composers?.create() ?? new PlainComposer(trans);
    this.panel = new ChatPanel({
      desk: this.desk,
      composer: this._composer,
      commands: app.commands,
      trans,
      surroundings: () => this._surroundings(),
      view: {
        agent,
        save: (info, as) => this.save(info, info.id, as),
        // Asked for as it is shown: the part that makes notebooks may come after this one.
        newNotebook: () =>
          app.commands.hasCommand(NEW_NOTEBOOK)
            ? () => void app.commands.execute(NEW_NOTEBOOK)
            : null
      }
    });
    _parts.api.connection.restored.connect(() => this._askStanding());
    this._askStanding();
  }

  readonly desk: Desk;
  readonly panel: ChatPanel;

  get conversation(): IConversation | null {
    return this.desk.conversation;
  }

  get agent(): IAgent {
    return this._parts.agent;
  }

  set foldReads(fold: boolean) {
    if (fold !== this._foldReads) {
      this._foldReads = fold;
      this._made = null;
      this.panel.redraw();
    }
  }

  reveal(path?: string): void {
    const { app, tracker } = this._parts;
    const wanted =
      path === undefined
        ? undefined
        : tracker?.find(each => bare(each.context.path) === bare(path));
    // One that is seen already would take the focus, a moment later.
    if (wanted?.isVisible === false) {
      app.shell.activateById(wanted.id);
    }
    app.shell.activateById(this.panel.id);
  }

  show(conversation: string): void {
    this.reveal();
    this.desk.choose(conversation);
  }

  composer(path: string): Promise<IComposer> {
    this.reveal(path);
    this.desk.listing = false;
    this.panel.focusInput();
    return Promise.resolve(this._composer);
  }

  /** Save a conversation as a file of the person's machine. */
  async save(info: ConversationInfo | null, id: string, as: 'markdown' | 'json'): Promise<void> {
    const text = await this._parts.agent.export(id, as);
    const title = titleOf(info?.title ?? '', this._parts.trans.__('conversation'));
    const name = title.replace(/[^\p{L}\p{N} ._-]+/gu, '_').slice(0, 80);
    const url = URL.createObjectURL(new Blob([text], { type: 'application/octet-stream' }));
    const link = document.createElement('a');
    link.href = url;
    link.download = `${name}.${as === 'json' ? 'json' : 'md'}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  }

  // Why nothing can be said ---------------------------------------------------------------------------

  private _closed(conversation: IConversation | null, where: Where): string {
    const { trans } = this._parts;
    if (conversation !== null) {
      const { client } = conversation.model;
      if (client !== null) {
        return trans.__('%1 speaks here. Read only.', client);
      }
      if (conversation.info !== null && !conversation.yours) {
        return conversation.owner === null
          ? trans.__('Only who began this conversation goes on with it.')
          : trans.__(
              '%1 began this conversation, and only they go on with it.',
              conversation.owner
            );
      }
    } else if (where.why !== '') {
      return where.why;
    }
    if (this._standing !== null && !this._standing.ready) {
      const why = this._standing.why ?? '';
      return why === '' || why.startsWith(NO_KEY)
        ? trans.__(
            'No model key on the server. All else works. Set ANTHROPIC_API_KEY and restart it.'
          )
        : why;
    }
    return '';
  }

  private _whereWords(notebook: INotebookSession | null): string {
    const { trans } = this._parts;
    if (notebook === null) {
      return trans.__('Open a notebook that runs on Reprise: the conversation is about it.');
    }
    return notebook.id === null ? trans.__('The notebook’s session is not known yet.') : '';
  }

  private _askStanding(): void {
    this._parts.agent.standing().then(
      standing => {
        this._standing = standing;
        this.desk.host.refresh();
      },
      (error: unknown) => {
        // Without it, what is said is refused in the same words.
        if (!(error instanceof ApiError)) {
          throw error;
        }
      }
    );
  }

  // What views use ------------------------------------------------------------------------------------

  private _surroundings(): Surroundings {
    const { app, api, themes, rendermime, languages, trans, announcer, proposals } = this._parts;
    const run: Surroundings['run'] = (command, args) => {
      if (!app.commands.hasCommand(command)) {
        return false;
      }
      void app.commands.execute(command, { ...args });
      return true;
    };
    this._made ??= {
      trans,
      api,
      themes,
      rendermime,
      languages,
      foldReads: this._foldReads,
      insertBelow: (code, language) => this._insertBelow(code, language),
      showStep: (session, step) => run(TimelineCommands.showStep, { session, step }),
      cellNumber: (path, cell) => this._cellNumber(path, cell),
      showCell: (path, question) =>
        proposals?.next(path, question ?? undefined) ?? Promise.resolve(false),
      announce: (text, manner) => announcer?.[manner](text),
      run
    };
    return this._made;
  }

  private _cellNumber(path: string | null, cell: string): number | null {
    if (path === null) {
      return null;
    }
    const panel = this._parts.tracker?.find(each => bare(each.context.path) === bare(path));
    return panel === undefined ? null : numberOf(panel, cell);
  }

  /** A cell below the active one, that nobody has run: marked as the agent's, so its output is static. */
  private _insertBelow(code: string, language: string): boolean {
    const panel = this.desk.notebook?.panel ?? this._parts.tracker?.currentWidget ?? null;
    if (panel?.model == null || panel.model.readOnly) {
      return false;
    }
    NotebookActions.insertBelow(panel.content);
    if (language === 'markdown' || language === 'md') {
      NotebookActions.changeCellType(panel.content, 'markdown');
    }
    const cell = panel.content.activeCell;
    cell?.model.sharedModel.setSource(code.replace(/\n$/, ''));
    cell?.model.setMetadata('reprise_edited_by', 'agent');
    if (cell !== null) {
      void panel.content.scrollToCell(cell);
    }
    return true;
  }

  private readonly _composer: IComposer;
  private _foldReads = true;
  private _standing: ModelStanding | null = null;
  private _made: Surroundings | null = null;
}
