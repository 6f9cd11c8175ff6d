// The agent's edits of one open notebook: what waits, what stands, and what a person does with it.

import type { INotebookModel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { DisposableDelegate, IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import type { Entry } from '../agent/model';
import type { IConversation, Pressed } from '../agent/tokens';
import type { IApi, RepriseEvent, Schemas } from '../api/tokens';
import type { IItem } from '../composer/message';
import { answer } from '../pages/apply';
import type { Pages, IOpenNotebook } from '../pages/service';
import type { Kept } from './kept';
import {
  Answer,
  hashOf,
  IChanged,
  IProposal,
  IText,
  Mark,
  proposalsOf,
  puttingBack,
  readAs,
  standing
} from './model';

/** A notebook whose edits are followed. */
export interface IFollowed extends IOpenNotebook {
  readonly model: INotebookModel | null;
}

/** Tells the agent, with the next message, what a person did to an edit of its. */
export interface ITelling {
  bring(conversation: string, item: IItem): void;
}

/** What the agent did to, and proposes for, one notebook. */
export class NotebookEdits implements IDisposable {
  constructor(
    readonly notebook: IFollowed,
    private readonly _pages: Pages,
    private readonly _api: IApi,
    private readonly _kept: Kept,
    private readonly _telling: ITelling | null,
    private readonly _trans: TranslationBundle
  ) {
    _pages.changed.connect(this._linked, this);
    _api.events.connect(this._happened, this);
    _api.connection.restored.connect(this._restored, this);
    notebook.changed.connect(this._loaded, this);
    this._loaded();
    this._linked(_pages, notebook.path);
  }

  /** Marks changed, or what is known of one. Joined: once for what happens together. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** In the order of their cells. */
  get marks(): readonly Mark[] {
    return this._marks;
  }

  isDisposed = false;

  /** The cells as they are now, by id, in their order. */
  cells(): ReadonlyMap<string, IText> {
    // Read once for each change: all marks look at it with each key that is pressed.
    this._cells ??= new Map(
      (this.notebook.model?.sharedModel.cells ?? []).map(cell => [
        cell.getId(),
        { type: cell.cell_type, source: cell.getSource() }
      ])
    );
    return this._cells;
  }

  /** Whether a proposal's cell is as the agent read it; null while that is not known. */
  fresh(proposal: IProposal): boolean | null {
    const was = readAs(proposal);
    if (was === null) {
      return !this.cells().has(proposal.cell);
    }
    const now = this.cells().get(proposal.cell);
    if (now === undefined) {
      return false;
    }
    const known = this._hashes.get(proposal.cell);
    return known?.text.type === now.type && known.text.source === now.source
      ? known.hash === null || known.hash === was
      : null;
  }

  /** How this cell's part of a question was answered, while others wait. */
  answerOf(proposal: IProposal): Answer {
    return this._answers.get(proposal.question)?.get(proposal.cell) ?? null;
  }

  /** Cells of a question that were answered for. */
  answered(question: string): number {
    const answers = this._answers.get(question)?.values() ?? [];
    return [...answers].filter(each => each !== null).length;
  }

  /** Where it is pressed; null until the server has said so. */
  pressed(proposal: IProposal): Pressed | null {
    return this._conversation(proposal.conversation)?.pressed(proposal.question) ?? null;
  }

  /** How many cells wait for an answer, or for Keep. */
  get count(): number {
    return this._marks.filter(each => each.kind === 'changed' || this.answerOf(each) === null)
      .length;
  }

  /** A part was pressed: how the decision stands now. */
  told(question: string, decision: Schemas['Decision']): void {
    const answers = new Map<string, Answer>();
    // What was answered stays so: an older answer of the server's may come after a newer one.
    const known = this._answers.get(question);
    for (const { part, accepted, reason } of decision.parts) {
      answers.set(part, accepted === null ? (known?.get(part) ?? null) : { accepted, reason });
    }
    this._answers.set(question, answers);
    this._changed.emit();
  }

  /** Leave this cell's edits out; the agent is told why. It takes no press: it widens nothing. */
  async reject(proposal: IProposal, reason: string | null): Promise<void> {
    const conversation = this._conversation(proposal.conversation);
    await conversation?.post({
      type: 'answer',
      question: proposal.question,
      decision: 'deny',
      rejected: [{ part: proposal.cell, reason }]
    });
    await this._ask(proposal.question, this.pressed(proposal)?.decision ?? null);
  }

  /** Put a cell back as it was before the agent. Rejects in words where it is not possible. */
  putBack(mark: IChanged): Promise<void> {
    const model = this.notebook.model;
    const trans = this._trans;
    if (model === null) {
      return Promise.reject(new Error(trans.__('The notebook is not open any more.')));
    }
    const order = [...this.cells().keys()];
    const at = order.indexOf(mark.cell) + 1;
    const done = answer(model, { do: 'apply', changes: puttingBack(mark.edit, order) });
    if ('stale' in done) {
      return Promise.reject(
        new Error(trans.__('You changed this cell meanwhile. Yours stays: nothing was put back.'))
      );
    }
    if ('error' in done) {
      return Promise.reject(new Error(done.error));
    }
    this._telling?.bring(mark.conversation, {
      kind: 'cell',
      name: mark.cell,
      title: at > 0 ? trans.__('cell %1: put back', at) : trans.__('cell %1: put back', mark.cell),
      content: `The person put cell ${mark.cell} back as it was before your edit. Leave it so.`,
      more: '',
      fixed: true
    });
    this._look();
    return Promise.resolve();
  }

  /** The edit stays, and is asked about no more. */
  keep(mark: IChanged): void {
    this._kept.add(mark.key);
    this._look();
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this._pages.changed.disconnect(this._linked, this);
    this._api.events.disconnect(this._happened, this);
    this._api.connection.restored.disconnect(this._restored, this);
    this._followed.forEach(each => each.dispose());
    this._followed.clear();
    this._content?.dispose();
    Signal.clearData(this);
  }

  private _conversation(id: string): IConversation | undefined {
    return [...this._followed.keys()].find(each => each.id === id);
  }

  private _loaded(): void {
    const { model } = this.notebook;
    if (model !== null && this._content === null) {
      model.contentChanged.connect(this._typed, this);
      this._content = new DisposableDelegate(() => {
        model.contentChanged.disconnect(this._typed, this);
      });
    }
    this._typed();
  }

  private _typed(): void {
    this._cells = null;
    this._look();
  }

  private _linked(_: unknown, path: string): void {
    if (path !== this.notebook.path) {
      return;
    }
    const now = new Set(this._pages.conversationsOf(this.notebook).filter(each => each.yours));
    for (const [conversation, followed] of this._followed) {
      if (!now.has(conversation)) {
        this._followed.delete(conversation);
        followed.dispose();
      }
    }
    for (const conversation of now) {
      if (!this._followed.has(conversation)) {
        this._followed.set(conversation, this._follow(conversation));
      }
    }
    this._look();
  }

  private _follow(conversation: IConversation): IDisposable {
    const entered = (_: IConversation, entry: Entry): void => {
      const edits = entry.body['edits'];
      if (entry.kind === 'undone' || (Array.isArray(edits) && edits.length > 0)) {
        void this._fetch(conversation);
      }
    };
    conversation.entered.connect(entered);
    conversation.changed.connect(this._look, this);
    void this._fetch(conversation);
    return new DisposableDelegate(() => {
      conversation.entered.disconnect(entered);
      conversation.changed.disconnect(this._look, this);
      this._edits.delete(conversation.id);
      this._fetched.delete(conversation);
    });
  }

  private async _fetch(conversation: IConversation): Promise<void> {
    const number = (this._fetched.get(conversation) ?? 0) + 1;
    this._fetched.set(conversation, number);
    try {
      const answered = await this._api.get('/conversations/{conversation}/edits', {
        params: { path: { conversation: conversation.id } }
      });
      // Of two that were asked for, the one that was asked later is newer.
      if (this._fetched.get(conversation) === number) {
        this._edits.set(conversation.id, answered.edits);
        this._look();
      }
    } catch (failed) {
      // Offline or signed out: it is asked again when the line is back.
      console.warn('Reprise: edits of the notebook are not known', failed);
    }
  }

  private _restored(): void {
    for (const conversation of this._followed.keys()) {
      void this._fetch(conversation);
    }
  }

  private _happened(_: unknown, event: RepriseEvent): void {
    if (event.about !== 'decision' || event.action !== 'pressed') {
      return;
    }
    for (const mark of this._marks) {
      if (mark.kind === 'proposal' && this.pressed(mark)?.decision === event.decision) {
        void this._ask(mark.question, event.decision);
        return;
      }
    }
  }

  /** How the parts of a decision were answered so far, here or elsewhere. */
  private async _ask(question: string, decision: string | null): Promise<void> {
    if (decision === null) {
      return;
    }
    try {
      const found = await this._api.get('/decisions/{decision}', {
        params: { path: { decision } }
      });
      this.told(question, found);
    } catch {
      // It is over and forgotten: its entry says how it ended.
    }
  }

  private _look(): void {
    if (this._looks || this.isDisposed) {
      return;
    }
    this._looks = true;
    queueMicrotask(() => {
      this._looks = false;
      if (!this.isDisposed) {
        this._found();
      }
    });
  }

  private _found(): void {
    const cells = this.cells();
    const found: Mark[] = [];
    const waiting = new Set<string>();
    for (const conversation of this._followed.keys()) {
      for (const question of conversation.model.questions) {
        const proposals = proposalsOf(conversation.id, question);
        found.push(...proposals);
        if (proposals.length > 0) {
          waiting.add(question.id);
          const decision = conversation.pressed(question.id)?.decision ?? null;
          if (decision !== null && !this._answers.has(question.id)) {
            this._answers.set(question.id, new Map());
            void this._ask(question.id, decision);
          }
        }
      }
      const edits = this._edits.get(conversation.id) ?? [];
      found.push(...standing(conversation.id, edits, cells, this._kept.keys));
    }
    for (const question of this._answers.keys()) {
      if (!waiting.has(question)) {
        this._answers.delete(question);
      }
    }
    const order = [...cells.keys()];
    const place = (mark: Mark): number => {
      const at = order.indexOf(mark.cell);
      return at < 0 ? order.length : at;
    };
    this._marks = found.sort((one, other) => place(one) - place(other));
    void this._hash(cells);
    this._changed.emit();
  }

  /** Reckon the hashes of the cells that proposals are about, where their text is another one. */
  private async _hash(cells: ReadonlyMap<string, IText>): Promise<void> {
    const wanted = this._marks.flatMap(mark => {
      const text = mark.kind === 'proposal' ? cells.get(mark.cell) : undefined;
      const known = this._hashes.get(mark.cell)?.text;
      return text === undefined || (known?.type === text.type && known.source === text.source)
        ? []
        : [{ cell: mark.cell, text }];
    });
    if (wanted.length === 0) {
      return;
    }
    const hashes = await Promise.all(wanted.map(({ text }) => hashOf(text)));
    wanted.forEach(({ cell, text }, index) => {
      const now = this.cells().get(cell);
      if (now?.type === text.type && now.source === text.source) {
        this._hashes.set(cell, { text, hash: hashes[index] ?? null });
      }
    });
    if (!this.isDisposed) {
      this._changed.emit();
    }
  }

  private _cells: ReadonlyMap<string, IText> | null = null;
  private _marks: readonly Mark[] = [];
  private _looks = false;
  private _content: IDisposable | null = null;
  private readonly _followed = new Map<IConversation, IDisposable>();
  /** How often the edits of each were asked for. */
  private readonly _fetched = new Map<IConversation, number>();
  private readonly _edits = new Map<string, readonly Schemas['StandingEdit'][]>();
  private readonly _answers = new Map<string, Map<string, Answer>>();
  private readonly _hashes = new Map<
    string,
    { readonly text: IText; readonly hash: string | null }
  >();
  private readonly _changed = new Signal<this, void>(this);
}
