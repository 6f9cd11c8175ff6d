/** One open conversation: what was told of it, folded; what a person does with it, asked for. */

import type { IDisposable } from '@lumino/disposable';
import { type ISignal, Signal } from '@lumino/signaling';

import { ApiError, type IApi } from '../api/tokens';
import { record, word, wordOrNull } from './bodies';
import { CONTINUABLE, EMPTY, fold, foldAll } from './fold';
import { Frames } from './frames';
import { History } from './history';
import { Line, type Message } from './line';
import type { Conversation, Entry, TurnEnd } from './model';
import { NO_OUTPUT, withDelta, withOutput } from './streams';
import type {
  Brought,
  ConversationInfo,
  DraftBlock,
  IConversation,
  LineState,
  LiveOutput,
  Pressed,
  Told,
  UndoPlan
} from './tokens';

/** Milliseconds between looks at a turn that another process runs: nothing tells of it here. */
const LOOK = 4_000;

/** Entries that tell, as they come, that a turn runs on this server. */
const GOING_ON = new Set([
  'said',
  'continued',
  'asked',
  'answered',
  'called',
  'running',
  'waiting'
]);

export class OpenConversation implements IConversation, IDisposable {
  constructor(
    private readonly _api: IApi,
    readonly id: string
  ) {
    this._path = { params: { path: { conversation: id } } };
    this._history = new History(_api, id);
    this._line = new Line(_api, id, () => Math.max(this._model.seq, this._history.newest));
    this._line.told.connect(this._onTold, this);
    this._line.changed.connect(this._onLine, this);
    this._frames = new Frames(() => {
      if (this._changes) {
        this._changes = false;
        this._changed.emit();
      }
      if (this._streams) {
        this._streams = false;
        this._streamed.emit();
      }
    });
    void this._open();
  }

  get info(): ConversationInfo | null {
    return this._info;
  }

  get model(): Conversation {
    return this._model;
  }

  get entries(): readonly Entry[] {
    return this._entries;
  }

  get whole(): boolean {
    return this._whole;
  }

  get line(): LineState {
    return this._refused ?? this._line.state;
  }

  get yours(): boolean {
    return this._yours && this._model.client === null;
  }

  get owner(): string | null {
    return this._owner;
  }

  get running(): boolean {
    return this._running || this._awaited !== null;
  }

  get stopping(): boolean {
    return this._stopping;
  }

  get ended(): TurnEnd | null {
    return this._model.turns.at(-1)?.ended ?? null;
  }

  get draft(): readonly DraftBlock[] {
    return this._draft;
  }

  get notes(): readonly string[] {
    return this._notes;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get streamed(): ISignal<this, void> {
    return this._streamed;
  }

  get entered(): ISignal<this, Entry> {
    return this._entered;
  }

  get told(): ISignal<this, Told> {
    return this._told;
  }

  get isDisposed(): boolean {
    return this._line.isDisposed;
  }

  output(call: string): LiveOutput | null {
    return this._outputs.get(call) ?? null;
  }

  pressed(question: string): Pressed | null {
    return this._pressed.get(question) ?? null;
  }

  // What a person does -------------------------------------------------------------------------------

  async say(text: string, brought: readonly Brought[] = []): Promise<void> {
    const body = brought.length > 0 ? { text, brought: [...brought] } : { text };
    const { turn } = await this._api.post('/conversations/{conversation}/say', {
      ...this._path,
      body
    });
    if (!this._model.turns.some(each => each.turn === turn)) {
      // Its entry is on the way. Who looks meanwhile is not told that nothing runs, whatever an
      // answer says that was on its way before.
      this._awaited = turn;
      this._mark();
    }
  }

  async cancel(): Promise<void> {
    const { stopping } = await this._api.post('/conversations/{conversation}/cancel', this._path);
    if (!stopping && this.running) {
      // It ended meanwhile, or another process runs it: what is shown is asked for anew.
      this.reconnect();
    }
  }

  async goOn(): Promise<void> {
    await this._api.post('/conversations/{conversation}/continue', this._path);
  }

  async retry(fork = false): Promise<void> {
    const turn = this._model.turns.at(-1);
    if (turn === undefined) {
      return;
    }
    if (turn.undone === null && turn.ended !== null && CONTINUABLE.has(turn.ended)) {
      await this.goOn();
    } else {
      await this.resend(turn.turn, turn.said, fork);
    }
  }

  async resend(turn: number, text: string, fork = false): Promise<void> {
    const undone = (): boolean =>
      this._model.turns.every(each => each.turn < turn || each.undone !== null);
    // The newest one first, as the server undoes them; each is there to be seen afterwards.
    while (!undone()) {
      await this.undo(fork);
    }
    await this.say(text);
  }

  async undoPlan(): Promise<UndoPlan> {
    return this._api.get('/conversations/{conversation}/undo', this._path);
  }

  async undo(fork = false): Promise<UndoPlan> {
    const done = await this._api.post('/conversations/{conversation}/undo', {
      ...this._path,
      body: { fork }
    });
    await this._catchUp();
    return { ...done, notebook: done.notebook ?? null, others: [] };
  }

  async answer(question: string, words: string): Promise<void> {
    await this._decide(question, words, null);
  }

  async deny(question: string, reason: string | null): Promise<void> {
    await this._decide(question, 'deny', reason);
  }

  async askAgain(call: string): Promise<void> {
    const found = this._model.turns
      .flatMap(turn => turn.parts)
      .find(part => part.part === 'call' && part.id === call);
    const title = found?.part === 'call' ? (found.act?.title ?? found.tool) : 'what you asked for';
    // Words to the model, whatever language the page is in.
    await this.say(`I did not answer in time when you wanted to ${title}. Please ask me again.`);
  }

  async post(message: Message): Promise<void> {
    await this._line.post(message);
  }

  /** Read title and notebook anew. */
  async refreshInfo(): Promise<void> {
    this._info = await this._api.get('/conversations/{conversation}', this._path);
    this._mark();
  }

  reconnect(): void {
    if (this._refused !== null || !this._begun) {
      this._refused = null;
      void this._open();
    } else {
      this._line.reconnect();
    }
    void this._api.connection.tryNow();
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._line.dispose();
    this._frames.dispose();
    clearInterval(this._looking);
    this._api.connection.restored.disconnect(this._openAgain, this);
    Signal.clearData(this);
  }

  private async _decide(question: string, decision: string, reason: string | null): Promise<void> {
    await this._api.post('/conversations/{conversation}/questions/{question}', {
      params: { path: { conversation: this.id, question } },
      body: { decision, reason }
    });
  }

  // What is told -------------------------------------------------------------------------------------

  /** Open it, unless that is under way: a second one would take entries back that came since. */
  private async _open(): Promise<void> {
    if (this._opening || this._begun) {
      return;
    }
    this._opening = true;
    try {
      await this._begin();
    } finally {
      this._opening = false;
    }
  }

  /** How it stands and its newest entries first, then the line, then what came before. */
  private async _begin(): Promise<void> {
    try {
      const now = await this._api.get('/conversations/{conversation}', this._path);
      const { owner, yours, running } = now;
      this._info = now;
      this._owner = owner;
      this._yours = yours;
      this._running = running;
      for (const each of now.questions) {
        this._pressed.set(each.id, { yours, decision: each.decision, frame: each.frame });
      }
      this._mark();
      this._take(await this._history.newestTurns(now));
    } catch (error) {
      if (this.isDisposed) {
        return;
      }
      this._couldNotOpen(error);
      return;
    }
    if (!this.isDisposed) {
      this._begun = true;
      this._line.open();
      this._looking = setInterval(this._look, LOOK);
      void this._bringEarlier();
    }
  }

  private _couldNotOpen(error: unknown): void {
    if (!(error instanceof ApiError)) {
      throw error;
    }
    if (error.code === 'not-authenticated') {
      this._refused = { is: 'expired' };
    } else if (error.status === 0) {
      const { line } = this._api.connection;
      const nextTry = line.state === 'offline' ? line.next.getTime() : Date.now();
      this._refused = { is: 'offline', since: Date.now(), nextTry };
    } else {
      this._refused = { is: 'refused', code: error.code, why: error.message };
    }
    if (this._refused.is !== 'refused') {
      this._api.connection.restored.connect(this._openAgain, this);
    }
    this._mark();
  }

  private _openAgain(): void {
    this._api.connection.restored.disconnect(this._openAgain, this);
    if (!this._begun) {
      this._refused = null;
      void this._open();
    }
  }

  /** Entries before those that are shown: nobody waits for them, but totals need them. */
  private async _bringEarlier(): Promise<void> {
    try {
      const earlier = await this._history.earlier();
      if (!this.isDisposed) {
        this._entries = [...earlier, ...this._entries];
        this._model = foldAll(EMPTY, this._entries);
        this._whole = true;
        this._mark();
      }
    } catch (error) {
      if (!(error instanceof ApiError)) {
        throw error;
      }
      this._lacks = true;
    }
  }

  private _take(found: { base: Conversation; entries: readonly Entry[]; whole: boolean }): void {
    this._entries = found.entries;
    this._model = foldAll(found.base, found.entries);
    this._whole = found.whole;
    if (this._came()) {
      void this._askHowItStands();
    }
    this._mark();
  }

  /** The turn that was said here is among the entries. */
  private _came(): boolean {
    return this._awaited !== null && this._model.turns.some(each => each.turn === this._awaited);
  }

  /** What was said here came with what was missed, which says nothing of how it stands now. */
  private async _askHowItStands(): Promise<void> {
    try {
      const { running } = await this._api.get('/conversations/{conversation}', this._path);
      this._running = running && this._model.open;
    } catch (error) {
      // The line tells it, as soon as there is one again.
      if (!(error instanceof ApiError)) {
        throw error;
      }
    } finally {
      if (!this.isDisposed) {
        this._awaited = null;
        this._mark();
      }
    }
  }

  private _onLine(): void {
    if (this._line.state.is !== 'live') {
      this._draft = [];
    }
    this._mark();
  }

  private _onTold(_: Line, told: Told): void {
    switch (told.type) {
      case 'hello':
        this._yours = told['yours'] === true;
        this._owner = wordOrNull(told['owner']);
        this._running = told['running'] === true;
        this._stopping = false;
        this._draft = [];
        this._catching = true;
        this._mark();
        break;
      case 'told':
        // A turn that ended while what was missed was told: its end is among that.
        this._catching = false;
        this._running &&= this._model.open;
        this._mark();
        break;
      case 'entry': {
        const entry = told['entry'] as Entry;
        // Only turns that run here are told of as they go on; what was missed may be over.
        if (!this._catching && GOING_ON.has(entry.kind)) {
          this._running = true;
        }
        this._enter(entry);
        break;
      }
      case 'delta':
        this._draft = withDelta(this._draft, told['delta']);
        this._stream();
        break;
      case 'again':
        this._draft = [];
        this._stream();
        break;
      case 'shown': {
        const call = word(told['call']);
        this._outputs.set(
          call,
          withOutput(this._outputs.get(call) ?? NO_OUTPUT, word(told['text']))
        );
        this._stream();
        break;
      }
      case 'question':
        this._pressed.set(word(told['question']), {
          yours: told['yours'] === true,
          decision: wordOrNull(told['decision']),
          frame: wordOrNull(told['frame'])
        });
        this._mark();
        break;
      case 'stopping':
        this._stopping = true;
        this._mark();
        break;
      case 'note':
      case 'cut':
        this._notes = [...this._notes, word(told['text'])];
        this._mark();
        break;
      case 'ended':
        this._running = false;
        this._stopping = false;
        this._draft = [];
        this._outputs.clear();
        this._mark();
        break;
      default:
        break;
    }
    this._told.emit(told);
  }

  private _mark(): void {
    this._changes = true;
    this._frames.mark();
  }

  /** Only what comes for eyes: all that follows the model hears nothing of it. */
  private _stream(): void {
    this._streams = true;
    this._frames.mark();
  }

  private _enter(entry: Entry): void {
    const before = this._model;
    this._model = fold(before, entry);
    if (this._model === before) {
      return;
    }
    this._entries = [...this._entries, entry];
    switch (entry.kind) {
      case 'said':
        this._notes = [];
        if (this._came()) {
          if (this._running) {
            this._awaited = null;
          } else {
            void this._askHowItStands();
          }
        }
        break;
      case 'asked':
      case 'answered':
      case 'compacted':
        this._draft = [];
        break;
      case 'result':
        this._outputs.delete(word(entry.body['id']));
        break;
      case 'decided':
        this._pressed.delete(word(entry.body['question']));
        break;
      case 'session':
      case 'undone':
        if (this._info !== null) {
          const session = word(record(entry.body)['session'], this._info.session);
          this._info = { ...this._info, session };
        }
        break;
      default:
        break;
    }
    this._mark();
    this._entered.emit(entry);
  }

  /** A turn that runs elsewhere (a terminal, another agent's client) is told by nobody: it is read. */
  private readonly _look = (): void => {
    if (this._lacks && this._line.state.is === 'live') {
      this._lacks = false;
      void this._bringEarlier();
    }
    if (this._model.open && !this._running && this._line.state.is === 'live') {
      void this._catchUp().catch((error: unknown) => {
        if (!(error instanceof ApiError)) {
          throw error;
        }
      });
    }
  };

  private async _catchUp(): Promise<void> {
    for (const entry of await this._history.after(this._model.seq)) {
      this._enter(entry);
    }
  }

  private readonly _path: { params: { path: { conversation: string } } };
  private readonly _history: History;
  private readonly _line: Line;
  private readonly _frames: Frames;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _streamed = new Signal<this, void>(this);
  private readonly _entered = new Signal<this, Entry>(this);
  private readonly _told = new Signal<this, Told>(this);
  private readonly _outputs = new Map<string, LiveOutput>();
  private readonly _pressed = new Map<string, Pressed>();
  private _info: ConversationInfo | null = null;
  private _model: Conversation = EMPTY;
  private _entries: readonly Entry[] = [];
  private _draft: readonly DraftBlock[] = [];
  private _notes: readonly string[] = [];
  private _refused: LineState | null = null;
  private _whole = false;
  /** What came before could not be had: it is asked for again. */
  private _lacks = false;
  private _opening = false;
  private _begun = false;
  /** Between `hello` and `told`: what was missed is being told. */
  private _catching = false;
  private _yours = false;
  private _owner: string | null = null;
  private _running = false;
  /** The turn that was said here, until its entry comes. */
  private _awaited: number | null = null;
  private _stopping = false;
  private _changes = false;
  private _streams = false;
  private _looking: ReturnType<typeof setInterval> | undefined;
}
