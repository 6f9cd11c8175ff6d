// The session of one notebook: follows its kernel's messages, and asks it how things stand.

import type { ISessionContext } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';

import { Signal } from '@lumino/signaling';

import type { IAttached, INotebookSession, INotice, ISessionStatus, IStepped } from './tokens';

import { NotAnswered, askKernel } from './ask';
import { PerFrame } from './frame';
import { heard } from './heard';
import { UNKNOWN, readNotice, readStatus, sessionOf, withProgress } from './reading';

/** Notices kept. */
const NOTICES = 200;

/** Milliseconds between two questions to one kernel, however much happens. */
const PAUSE = 500;

/** Milliseconds until a kernel is asked again that did not answer. */
const AGAIN = 5_000;

/** What the server says where the kernel cannot (yet). */
export interface IServerSays {
  /** The session of a kernel, by its id; null where it is not Reprise's, or not known. */
  sessionOfKernel(kernel: string): Promise<string | null>;
  /** `GET /sessions/{session}/status`; null where the server cannot be reached. */
  status(session: string): Promise<Readonly<Record<string, unknown>> | null>;
  /** The newest stored notices, in the order they were told. */
  notices(session: string, newest: number): Promise<readonly INotice[]>;
}

/** What of a notebook panel is needed; in tests there is no panel. */
export interface IPlace {
  readonly panel: NotebookPanel;
  readonly context: ISessionContext;
}

export class NotebookSession implements INotebookSession {
  constructor(
    place: IPlace,
    private readonly server: IServerSays
  ) {
    this.panel = place.panel;
    this.context = place.context;
    this.context.kernelChanged.connect(this.onKernel, this);
    this.context.statusChanged.connect(this.onKernelStatus, this);
    this.context.connectionStatusChanged.connect(this.onConnection, this);
    this.context.iopubMessage.connect(this.onMessage, this);
    this.context.propertyChanged.connect(this.onProperty, this);
    this.onKernel();
  }

  readonly panel: NotebookPanel;

  get id(): string | null {
    return this.known;
  }

  get kernel(): string | null {
    return this.connection?.id ?? null;
  }

  get path(): string {
    return this.context.path;
  }

  get status(): ISessionStatus {
    return this.standing;
  }

  get statusChanged(): ISignal<this, void> {
    return this.changedSignal;
  }

  get stepped(): ISignal<this, IStepped> {
    return this.steppedSignal;
  }

  get attached(): ISignal<this, IAttached> {
    return this.attachedSignal;
  }

  get notices(): readonly INotice[] {
    return this.told;
  }

  get noticed(): ISignal<this, INotice> {
    return this.noticedSignal;
  }

  get disposed(): ISignal<this, void> {
    return this.disposedSignal;
  }

  async refresh(): Promise<void> {
    if (this.isDisposed) {
      return;
    }
    if (this.asking !== null) {
      this.askAgain = true;
      return this.asking;
    }
    this.asking = this.ask().finally(() => {
      this.asking = null;
      if (this.askAgain) {
        this.askAgain = false;
        this.soon(PAUSE);
      }
    });
    return this.asking;
  }

  async cancelResume(): Promise<void> {
    await this.request('cancel');
  }

  async startNow(): Promise<void> {
    await this.request('start');
  }

  async restart(): Promise<void> {
    await this.context.restartKernel();
  }

  /** Something happened that the server told of: a rewind, a deletion. */
  happened(): void {
    this.soon(0);
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    if (this.timer !== null) {
      clearTimeout(this.timer);
    }
    this.changes.dispose();
    this.steps.dispose();
    this.disposedSignal.emit();
    Signal.clearData(this);
  }

  isDisposed = false;

  // what is heard -----------------------------------------------------------------------------

  private onKernel(): void {
    const kernel = this.context.session?.kernel ?? null;
    if (kernel !== null && kernel.id === this.connection?.id) {
      this.connection = kernel;
      this.soon(0);
      return;
    }
    this.connection = kernel;
    this.running = 0;
    if (kernel === null) {
      this.become({ ...this.standing, state: 'ended', running: null, resume: null });
    } else {
      const { environment, backend } = this.standing;
      this.become({ ...UNKNOWN, environment, backend });
      this.soon(0);
    }
    this.changes.ask();
  }

  private onKernelStatus(_: ISessionContext, status: Kernel.Status): void {
    if (status === 'dead') {
      this.become({ ...this.standing, state: 'ended', running: null, resume: null });
    } else if (status === 'restarting' || status === 'autorestarting') {
      this.running = 0;
      this.become({ ...this.standing, state: 'starting', text: null, running: null, resume: null });
      this.soon(PAUSE);
    }
  }

  private onConnection(_: ISessionContext, status: Kernel.ConnectionStatus): void {
    if (status === 'connected') {
      // Whatever was said meanwhile was not heard: the laptop slept, the server was restarted.
      this.running = 0;
      this.missed = true;
      this.soon(0);
    }
  }

  private onProperty(_: ISessionContext, what: string): void {
    if (what === 'path' || what === 'name') {
      this.changes.ask();
    }
  }

  private onMessage(_: ISessionContext, message: KernelMessage.IMessage): void {
    const said = heard(message);
    if (said === null) {
      return;
    }
    const now = new Date();
    switch (said.what) {
      case 'status':
        this.learn(sessionOf(said.content));
        this.become(readStatus(said.content, now));
        break;
      case 'progress':
        this.become(withProgress(this.standing, said.content, now));
        if (said.content.over === true) {
          this.soon(0);
        }
        break;
      case 'notice':
        this.notice(readNotice(said.content, now));
        break;
      case 'attached':
        this.learn(sessionOf(said.content));
        this.soon(0);
        break;
      case 'began':
        this.running += said.cell ? 1 : 0;
        if (said.cell && this.standing.state === 'ready') {
          this.become({ ...this.standing, state: 'running' });
        }
        this.step(false);
        break;
      case 'ended':
        this.running = said.cell ? Math.max(0, this.running - 1) : this.running;
        if (said.cell && this.running === 0 && this.standing.state === 'running') {
          this.become({ ...this.standing, state: 'ready', running: null });
        }
        this.step(true);
        break;
    }
  }

  private notice(notice: INotice | null): void {
    if (notice === null) {
      return;
    }
    this.told = [...this.told, notice].slice(-NOTICES);
    this.noticedSignal.emit(notice);
    this.changes.ask();
    this.soon(PAUSE);
  }

  // what follows from it ----------------------------------------------------------------------

  private step(ended: boolean): void {
    this.endedSince ||= ended;
    this.steps.ask();
    this.soon(PAUSE);
  }

  private tellSteps(): void {
    const ended = this.endedSince;
    this.endedSince = false;
    if (this.known !== null) {
      this.steppedSignal.emit({ session: this.known, steps: this.standing.steps, ended });
    }
  }

  private become(next: ISessionStatus): void {
    const before = this.standing;
    this.standing = next;
    this.changes.ask();
    const more = next.steps !== null && before.steps !== next.steps;
    if (more && this.known !== null) {
      // A step that this page heard nothing of: an upload, another client's, one while it slept.
      this.endedSince ||= before.steps !== null;
      this.steps.ask();
    }
  }

  private learn(session: string | null): void {
    if (session === null || session === this.known) {
      return;
    }
    const before = this.known;
    this.known = session;
    this.told = [];
    this.changes.ask();
    this.attachedSignal.emit({ before, session });
    void this.readNotices(session);
  }

  private async readNotices(session: string): Promise<void> {
    try {
      const stored = await this.server.notices(session, NOTICES);
      if (this.known === session && !this.isDisposed) {
        const newer = this.told.filter(
          each => !stored.some(one => one.code === each.code && one.text === each.text)
        );
        this.told = [...stored, ...newer].slice(-NOTICES);
        this.changes.ask();
      }
    } catch (error) {
      // They are told anew when the session is opened again; the status says what counts.
      console.warn('Reprise: the notices of this session could not be read.', error);
    }
  }

  // asking ------------------------------------------------------------------------------------

  /** Ask the kernel within `wait` milliseconds; questions meanwhile are one. */
  private soon(wait: number): void {
    if (this.isDisposed) {
      return;
    }
    const due = Date.now() + wait;
    if (this.timer !== null) {
      if (this.due <= due) {
        return;
      }
      clearTimeout(this.timer);
    }
    this.due = due;
    this.timer = setTimeout(() => {
      this.timer = null;
      void this.refresh();
    }, wait);
  }

  private async ask(): Promise<void> {
    const kernel = this.connection;
    if (kernel === null) {
      return;
    }
    try {
      const said = await askKernel(kernel, 'status_request', {});
      if (this.isDisposed || kernel.id !== this.connection?.id) {
        return;
      }
      this.take(said);
    } catch (error) {
      if (!(error instanceof NotAnswered)) {
        throw error;
      }
      await this.askServer(kernel);
    }
    if (this.missed) {
      this.missed = false;
      this.step(true);
    }
  }

  /** The kernel is silent (it starts, or it hangs): what does the server know? */
  private async askServer(kernel: Kernel.IKernelConnection): Promise<void> {
    const session = await this.server.sessionOfKernel(kernel.id);
    if (this.isDisposed || kernel.id !== this.connection?.id) {
      return;
    }
    this.learn(session);
    if (session !== null && !this.heardOf()) {
      const said = await this.server.status(session);
      if (said !== null && this.known === session && !this.heardOf()) {
        this.take(said);
      }
    }
    if (kernel.connectionStatus === 'connected' && kernel.status !== 'dead') {
      this.soon(AGAIN);
    }
  }

  /** Whether the kernel has said how things stand. */
  private heardOf(): boolean {
    return this.standing.heard !== null;
  }

  private take(said: Readonly<Record<string, unknown>>): void {
    const next = readStatus(said, new Date());
    this.learn(sessionOf(said));
    this.running = next.state === 'running' ? Math.max(1, this.running) : 0;
    this.become(next);
    if (next.state === 'starting' || next.state === 'unknown') {
      // Not every end of a start is told, so it is asked after.
      this.soon(2 * PAUSE);
    }
  }

  private async request(op: 'start' | 'cancel'): Promise<void> {
    const kernel = this.connection;
    if (kernel === null) {
      throw new NotAnswered('There is no kernel. Nothing was done.');
    }
    await askKernel(kernel, 'resume_request', { op });
    await this.refresh();
  }

  private readonly context: ISessionContext;
  private connection: Kernel.IKernelConnection | null = null;
  private known: string | null = null;
  private standing: ISessionStatus = UNKNOWN;
  private told: readonly INotice[] = [];
  /** Cells whose `busy` was heard and whose `idle` was not. */
  private running = 0;
  private endedSince = false;
  private missed = false;
  private asking: Promise<void> | null = null;
  private askAgain = false;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private due = 0;
  private readonly changes = new PerFrame(() => this.changedSignal.emit());
  private readonly steps = new PerFrame(() => this.tellSteps());
  private readonly changedSignal = new Signal<this, void>(this);
  private readonly steppedSignal = new Signal<this, IStepped>(this);
  private readonly attachedSignal = new Signal<this, IAttached>(this);
  private readonly noticedSignal = new Signal<this, INotice>(this);
  private readonly disposedSignal = new Signal<this, void>(this);
}
