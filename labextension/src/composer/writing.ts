// What a person writes to one conversation: words, what they bring, what waits for the turn's end.

import { nullTranslator, TranslationBundle } from '@jupyterlab/translation';
import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { Drafts, IDraft, IQueued } from './drafts';
import { commandOf, skillWords } from './mentions';
import { IItem, messageOf, same } from './message';
import type { IComposerHost } from './tokens';

/** What pressing Enter came to. */
export type Submitted = 'nothing' | 'sent' | 'queued' | 'did' | 'refused';

/** One conversation's writing. It goes on while another one is shown: what is queued is sent. */
export class Writing implements IDisposable {
  /** fresh: what is brought as it is at the moment of sending; null for what is gone. */
  constructor(
    readonly host: IComposerHost,
    private readonly _drafts: Drafts,
    private readonly _fresh: (item: IItem) => Promise<IItem | null> = item => Promise.resolve(item),
    private readonly _trans: TranslationBundle = nullTranslator.load('reprise')
  ) {
    this._key = host.key;
    this._draft = _drafts.get(this._key);
    host.changed.connect(this._changedThere, this);
    this._changedThere();
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get words(): string {
    return this._draft.words;
  }

  get items(): readonly IItem[] {
    return this._draft.items;
  }

  get queue(): readonly IQueued[] {
    return this._draft.queue;
  }

  /** Why what was sent was not taken; its words are back in the input. */
  get error(): unknown {
    return this._error;
  }

  /** Something is on its way to the server. */
  get sending(): boolean {
    return this._sending;
  }

  /** What is queued waits for a person: the turn did not end as one hoped. */
  get held(): boolean {
    return (
      this.queue.length > 0 && this.host.state === 'ready' && !this._goesOn() && !this._sending
    );
  }

  isDisposed = false;

  write(words: string): void {
    this._set({ words });
  }

  /** Bring what is still being asked for: a message that is sent meanwhile waits for it. */
  async fetch(item: Promise<IItem>): Promise<void> {
    this._coming.add(item);
    try {
      this.bring(await item);
    } catch (failed) {
      this._fail(failed);
    } finally {
      this._coming.delete(item);
    }
  }

  bring(item: IItem): void {
    this._set({ items: [...this.items.filter(each => !same(each, item)), item] });
  }

  leave(item: IItem): void {
    this._set({ items: this.items.filter(each => !same(each, item)) });
  }

  /** Send what is written, queue it while a turn runs, or do what its command says. */
  async submit(): Promise<Submitted> {
    const { host } = this;
    if (this._coming.size > 0 && !(await this._came())) {
      return 'refused';
    }
    if (host.state === 'closed') {
      return 'refused';
    }
    const command = commandOf(this.words);
    if (command !== null && command.command !== 'skill') {
      const act = host.acts.get(command.command);
      if (act === undefined) {
        this._fail(new Error(this._trans.__('There is nothing to %1 now.', `/${command.command}`)));
        return 'refused';
      }
      this._set({ words: '' });
      return this._do(act);
    }
    if (command?.command === 'skill' && command.skill === '') {
      this._fail(
        new Error(this._trans.__('Name the skill: /skill NAME, and then what to do with it.'))
      );
      return 'refused';
    }
    const words = command === null ? this.words : skillWords(command.skill, command.words);
    const items =
      command === null
        ? this.items
        : [
            ...this.items,
            {
              kind: 'skill',
              name: command.skill,
              title: command.skill,
              content: '',
              more: ''
            } as const
          ];
    if (words.trim() === '' && items.length === 0) {
      return 'nothing';
    }
    const queued = { words, items };
    this._set({ words: '', items: [], queue: [...this.queue, queued] });
    if (host.state !== 'ready' || this.queue.length > 1) {
      return 'queued';
    }
    return (await this._next()) ? 'sent' : 'refused';
  }

  /** Take a queued message back into the input, or (`edit` false) away. */
  unqueue(at: number, edit: boolean): void {
    const queued = this.queue[at];
    if (queued === undefined) {
      return;
    }
    const queue = this.queue.filter((_, index) => index !== at);
    this._set(edit ? { ...this._joined(queued), queue } : { queue });
  }

  /** Send what is queued, although the turn did not end as one hoped. */
  async sendNow(): Promise<void> {
    if (this.host.state === 'ready') {
      await this._next();
    }
  }

  async stop(): Promise<void> {
    if (this.host.conversation === null) {
      // It is being begun: there is nothing yet that could be stopped.
      this._stops = true;
      return;
    }
    await this._do(() => this.host.stop());
  }

  dispose(): void {
    if (!this.isDisposed) {
      this.isDisposed = true;
      this.host.changed.disconnect(this._changedThere, this);
      Signal.clearData(this);
    }
  }

  /** All that is being asked for has come, and is what was waited for. */
  private async _came(): Promise<boolean> {
    const before = this.words;
    if (this._waits) {
      return false;
    }
    this._waits = true;
    try {
      await Promise.all(this._coming);
    } catch {
      return false; // Said at the input by `fetch`; what is written stays there.
    } finally {
      this._waits = false;
    }
    return this.words === before && !this.isDisposed;
  }

  private _goesOn(): boolean {
    const { ended } = this.host;
    return ended === null || ended === 'done';
  }

  private _changedThere(): void {
    if (this.host.key !== this._key) {
      // It was begun: what is written goes with it.
      this._drafts.set(this._key, { words: '', items: [], queue: [] });
      this._key = this.host.key;
      this._drafts.set(this._key, this._draft);
    }
    if (this._stops && this.host.conversation !== null) {
      this._stops = false;
      if (this.host.state === 'running') {
        void this.stop();
      }
    }
    const { host } = this;
    if (host.known && host.state === 'ready' && this.queue.length > 0 && this._goesOn()) {
      void this._next();
    }
    this._changed.emit();
  }

  /** Send the first of the queue. Whether the server took it. */
  private async _next(): Promise<boolean> {
    const [queued] = this.queue;
    if (queued === undefined || this._sending) {
      return false;
    }
    this._sending = true;
    this._error = null;
    this._changed.emit();
    // What is queued meanwhile stays.
    const rest = (): readonly IQueued[] => this.queue.filter(each => each !== queued);
    try {
      const items = await Promise.all(queued.items.map(item => this._fresh(item)));
      const found = items.filter(item => item !== null);
      await this.host.send(messageOf(queued.words, found));
      this._set({ queue: rest() });
      return true;
    } catch (failed) {
      this._set({ ...this._joined(queued), queue: rest() });
      this._fail(failed);
      return false;
    } finally {
      this._sending = false;
      this._changed.emit();
    }
  }

  /** What was queued before what is written now. */
  private _joined(queued: IQueued): IQueued {
    const items = queued.items.filter(each => !this.items.some(other => same(each, other)));
    return {
      words: [queued.words, this.words].filter(each => each !== '').join('\n'),
      items: [...items, ...this.items]
    };
  }

  private async _do(act: () => Promise<void>): Promise<Submitted> {
    this._error = null;
    try {
      await act();
      return 'did';
    } catch (failed) {
      this._fail(failed);
      return 'refused';
    }
  }

  private _fail(failed: unknown): void {
    this._error = failed;
    this._changed.emit();
  }

  private _set(change: Partial<IDraft>): void {
    this._draft = { ...this._draft, ...change };
    if (change.words !== undefined && change.words !== '') {
      this._error = null;
    }
    this._drafts.set(this._key, this._draft);
    this._changed.emit();
  }

  private _key: string;
  private _draft: IDraft;
  private _error: unknown = null;
  private _sending = false;
  private readonly _coming = new Set<Promise<IItem>>();
  private _waits = false;
  /** Stop was pressed before there was a conversation. */
  private _stops = false;
  private readonly _changed = new Signal<this, void>(this);
}
