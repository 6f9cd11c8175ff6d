// Verifies sessions: a job on the server is begun or joined, followed, and its report read in parts.

import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { ApiError, IApi } from '../api/tokens';
import { ended, isOver, Job } from '../timeline/jobs';
import {
  IProgress,
  IVerification,
  IVerify,
  ReportHead,
  ReportRow,
  ReportState,
  ReportStep,
  StepVerdict,
  VerifyState
} from './tokens';

const NOTHING: IProgress = { text: '', done: null, total: null, counts: {} };

export class Verify implements IVerify {
  constructor(private readonly _api: IApi) {}

  of(session: string, from = 0): IVerification {
    return new Verification(this._api, session, from);
  }
}

export class Verification implements IVerification, IDisposable {
  constructor(
    private readonly _api: IApi,
    readonly session: string,
    readonly from: number
  ) {
    _api.events.connect(this._onEvent, this);
  }

  get state(): VerifyState {
    return this._state;
  }

  get progress(): IProgress {
    return this._job?.progress ?? NOTHING;
  }

  get head(): ReportHead | null {
    return this._head;
  }

  get endedAt(): Date | null {
    const at = this._job?.ended_at ?? null;
    return at === null ? null : new Date(at);
  }

  get newer(): number | null {
    return this._newer;
  }

  get failure(): Error | null {
    return this._failure;
  }

  get stoppedHere(): boolean {
    return this._stoppedHere;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get disposed(): ISignal<this, void> {
    return this._disposed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  async look(): Promise<void> {
    this._set('looking', null);
    try {
      const { jobs } = await this._api.get('/jobs', {
        params: { query: { session: this.session, kind: ['verify'] } }
      });
      // The newest first; of a cancelled one there is nothing to see.
      const found = jobs.find(job => isOf(job.asked, this.from) && job.state !== 'cancelled');
      if (found === undefined) {
        this._set('none', null);
      } else {
        await this._take(found);
      }
    } catch (error) {
      this._set('none', asError(error));
    }
  }

  forgotten(): void {
    if (this._state === 'none' && this._failure === null) {
      this._set('lost', null);
    }
  }

  async begin(): Promise<void> {
    this._following.abort();
    this._head = null;
    this._newer = null;
    this._job = null;
    this._stopSoon = false;
    this._stoppedHere = false;
    this._set('queued', null);
    try {
      const job = await this._api.post('/sessions/{session}/verify', {
        params: { path: { session: this.session } },
        body: { from: this.from }
      });
      await this._take(job);
    } catch (error) {
      this._set('failed', asError(error));
      return;
    }
    await this._stopIfWanted();
  }

  async stop(): Promise<void> {
    const job = this._job;
    if (this._isDisposed) {
      return;
    }
    this._stoppedHere = true;
    if (job === null) {
      // It is being asked for at this moment: it ends as soon as it has a name.
      this._stopSoon = true;
      return;
    }
    this._set('stopping', null);
    try {
      await this._api.post('/jobs/{job}/cancel', { params: { path: { job: job.id } } });
    } catch (error) {
      if (isLost(error)) {
        this._set('lost', null);
      } else {
        this._set(stateOf(job), asError(error));
      }
    }
  }

  private async _stopIfWanted(): Promise<void> {
    if (this._stopSoon) {
      await this.stop();
    }
  }

  rows(
    verdicts: readonly StepVerdict[],
    offset: number,
    limit: number
  ): Promise<{ steps: readonly ReportRow[]; found: number; total: number }> {
    return this._report(job =>
      this._api.get('/jobs/{job}/report/steps', {
        params: { path: { job }, query: { verdict: [...verdicts], offset, limit } }
      })
    );
  }

  step(seq: number): Promise<ReportStep> {
    return this._report(job =>
      this._api.get('/jobs/{job}/report/steps/{seq}', { params: { path: { job, seq } } })
    );
  }

  stateOf(number: number): Promise<ReportState> {
    return this._report(job =>
      this._api.get('/jobs/{job}/report/states/{number}', { params: { path: { job, number } } })
    );
  }

  save(form: 'html' | 'json'): Promise<{ name: string; data: Blob }> {
    return this._report(async job => {
      const answer = await this._api.fetch(
        form === 'html' ? `jobs/${job}/report/page` : `jobs/${job}/result`
      );
      const bytes = await answer.blob();
      const type = form === 'html' ? 'text/html' : 'application/json';
      return {
        name: `${fileName(this._head, this.session)} verified.${form}`,
        data: new Blob([bytes], { type })
      };
    });
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._following.abort();
    this._api.events.disconnect(this._onEvent, this);
    this._disposed.emit();
    Signal.clearData(this);
  }

  /** Follow a job to its end, unless another one is followed by then. */
  private async _take(job: Job): Promise<void> {
    this._following.abort();
    const following = new AbortController();
    this._following = following;
    this._heard(job);
    if (isOver(job)) {
      await this._finish(job, following.signal);
    } else {
      void this._follow(job, following.signal);
    }
  }

  private async _follow(job: Job, signal: AbortSignal): Promise<void> {
    const tell = (now: Job): void => {
      if (!signal.aborted) {
        this._heard(now);
      }
    };
    try {
      const last = await ended(this._api, job, tell, signal);
      if (!signal.aborted) {
        await this._finish(last, signal);
      }
    } catch (error) {
      if (!signal.aborted) {
        this._fail(error);
      }
    }
  }

  /** It cannot be followed, or its report cannot be had. */
  private _fail(error: unknown): void {
    this._set(isLost(error) ? 'lost' : 'failed', isLost(error) ? null : asError(error));
  }

  /** What was heard of the job, told as it is. */
  private _heard(job: Job): void {
    this._job = job;
    if (!isOver(job)) {
      this._set(stateOf(job), null);
    }
  }

  private async _finish(job: Job, signal: AbortSignal): Promise<void> {
    if (job.state !== 'done') {
      this._set(
        stateOf(job),
        job.state === 'failed' ? new ApiError(0, codeOf(job), messageOf(job)) : null
      );
      return;
    }
    try {
      const head = await this._api.get('/jobs/{job}/report', { params: { path: { job: job.id } } });
      if (signal.aborted) {
        return;
      }
      this._head = head;
      this._set('done', null);
    } catch (error) {
      if (!signal.aborted) {
        this._fail(error);
      }
      return;
    }
    await this._lookForNewer();
  }

  private async _lookForNewer(): Promise<void> {
    const head = this._head;
    if (head === null) {
      return;
    }
    try {
      const { steps } = await this._api.get('/sessions/{session}', {
        params: { path: { session: this.session } }
      });
      if (head === this._head) {
        this._newer = Math.max(0, steps - (head.from + head.steps));
        this._changed.emit();
      }
    } catch {
      // Whether there is more is not known; the report is what it is, and the line's state is told.
    }
  }

  private async _report<T>(ask: (job: string) => Promise<T>): Promise<T> {
    const job = this._job;
    if (job === null) {
      throw new ApiError(404, 'job-not-found', 'There is no report.');
    }
    try {
      return await ask(job.id);
    } catch (error) {
      if (isLost(error) && job === this._job) {
        this._set('lost', null);
      }
      throw error;
    }
  }

  private _onEvent(_: unknown, event: { about: string; session?: string | undefined }): void {
    if (this._state === 'done' && event.about === 'job' && event.session === this.session) {
      void this._lookForNewer();
    }
  }

  private _set(state: VerifyState, failure: Error | null): void {
    if (this._isDisposed) {
      return;
    }
    this._state = state;
    this._failure = failure;
    this._changed.emit();
  }

  private _state: VerifyState = 'none';
  private _job: Job | null = null;
  private _head: ReportHead | null = null;
  private _newer: number | null = null;
  private _failure: Error | null = null;
  /** Aborted, so that what was followed before is not heard any more. */
  private _following = new AbortController();
  private _stopSoon = false;
  private _stoppedHere = false;
  private _isDisposed = false;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _disposed = new Signal<this, void>(this);
}

function stateOf(job: Job): VerifyState {
  if (!isOver(job) && job.cancelling) {
    return 'stopping';
  }
  return job.state === 'cancelled' ? 'stopped' : job.state;
}

/** Whether a verify was asked for from this step on, to the end. */
function isOf(asked: Readonly<Record<string, unknown>>, from: number): boolean {
  return asked.from === from && asked.to === null;
}

function codeOf(job: Job): string {
  return job.error?.code ?? 'failed';
}

function messageOf(job: Job): string {
  return job.error?.message ?? 'The server did not say why.';
}

function isLost(error: unknown): boolean {
  return error instanceof ApiError && error.code === 'job-not-found';
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** A name for files, of the session's notebook where there is one. */
function fileName(head: ReportHead | null, session: string): string {
  const stem =
    (head?.title ?? '')
      .split('/')
      .pop()
      ?.replace(/\.ipynb$/, '') ?? '';
  // What a file may not be called somewhere, and what hides its end.
  const plain = stem.replace(/[\p{Cc}\p{Cf}\\/:*?"<>|]/gu, '').trim();
  return plain === '' ? session.slice(0, 8) : plain.slice(0, 100);
}
