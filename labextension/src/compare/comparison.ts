/** Two steps of a session beside each other: fetched, and their files and variables compared by a job. */

import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { ApiError } from '../api/tokens';
import type { IApi } from '../api/tokens';
import { ended, orRefusal } from '../timeline/jobs';
import type { Job } from '../timeline/jobs';
import { asStep } from '../timeline/step';
import type { IStep } from '../timeline/step';
import { asChanges } from './differences';
import type { IChanges } from './differences';

/** How a part of the comparison stands. */
export type Part<T> =
  | { readonly is: 'loading'; readonly job: Job | null }
  | { readonly is: 'here'; readonly value: T }
  | { readonly is: 'failed'; readonly error: unknown }
  | { readonly is: 'stopped' };

export interface IPairOfSteps {
  readonly before: IStep;
  readonly after: IStep;
}

export class Comparison implements IDisposable {
  constructor(
    private readonly _api: IApi,
    readonly session: string,
    before: number,
    after: number
  ) {
    this._before = before;
    this._after = after;
  }

  /** Something came, or other steps were chosen. */
  readonly changed = new Signal<this, void>(this);

  get before(): number {
    return this._before;
  }

  get after(): number {
    return this._after;
  }

  /** How many steps the session has; 0 while that is not known. */
  get total(): number {
    return this._total;
  }

  get steps(): Part<IPairOfSteps> {
    return this._steps;
  }

  get changes(): Part<IChanges> {
    return this._changes;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Compare other steps. */
  choose(before: number, after: number): void {
    if (before !== this._before || after !== this._after) {
      this._before = before;
      this._after = after;
      void this.load();
    }
  }

  /** Fetch both steps, and have files and variables compared. */
  async load(): Promise<void> {
    this._abort.abort();
    const abort = new AbortController();
    this._abort = abort;
    this._steps = { is: 'loading', job: null };
    this._changes = { is: 'loading', job: null };
    this.changed.emit(undefined);
    await Promise.all([this._loadSteps(abort.signal), this._loadChanges(abort.signal)]);
  }

  /** Have the work on files and variables end. */
  async stop(): Promise<void> {
    const { _changes: changes } = this;
    if (changes.is === 'loading' && changes.job !== null) {
      const { id } = changes.job;
      try {
        await this._api.post('/jobs/{job}/cancel', { params: { path: { job: id } } });
      } catch (error) {
        // Whoever waits for it hears of a job that is gone; one that goes on can be stopped again.
        console.warn('Reprise: the comparison was not stopped.', error);
      }
    }
  }

  async loadChanges(): Promise<void> {
    await this._loadChanges(this._abort.signal);
  }

  /** The bytes of a file as after a step, for a browser to show. Rejects as the API does. */
  async file(path: string, at: number): Promise<Blob> {
    const { session } = this;
    const job = await this._api.post('/sessions/{session}/workspaces', {
      params: { path: { session } },
      body: { at }
    });
    orRefusal(await ended(this._api, job, () => undefined, this._abort.signal));
    const query = new URLSearchParams({ path, at: String(at) });
    const told = await this._api.fetch(`sessions/${session}/files/content?${query.toString()}`);
    return told.blob();
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._abort.abort();
    Signal.clearData(this);
  }

  private async _loadSteps(signal: AbortSignal): Promise<void> {
    const { session } = this;
    try {
      const [info, before, after] = await Promise.all([
        this._api.get('/sessions/{session}', { params: { path: { session } }, signal }),
        ...[this._before, this._after].map(seq =>
          this._api.get('/sessions/{session}/steps/{seq}', {
            params: { path: { session, seq } },
            signal
          })
        )
      ] as const);
      if (signal.aborted || before === undefined || after === undefined) {
        return;
      }
      this._total = info.steps;
      this._steps = { is: 'here', value: { before: asStep(before), after: asStep(after) } };
    } catch (error) {
      if (signal.aborted) {
        return;
      }
      this._steps = { is: 'failed', error };
    }
    this.changed.emit(undefined);
  }

  private async _loadChanges(signal: AbortSignal): Promise<void> {
    const { session } = this;
    const since = Math.min(this._before, this._after);
    const until = Math.max(this._before, this._after);
    this._changes = { is: 'loading', job: null };
    this.changed.emit(undefined);
    try {
      const begun = await this._api.post('/sessions/{session}/changes', {
        params: { path: { session } },
        body: { since, until, variables: true },
        signal
      });
      const tell = (job: Job): void => {
        if (!signal.aborted) {
          this._changes = { is: 'loading', job };
          this.changed.emit(undefined);
        }
      };
      const job = orRefusal(await ended(this._api, begun, tell, signal));
      const told = await this._api.get('/jobs/{job}/result', {
        params: { path: { job: job.id } },
        signal
      });
      if (signal.aborted) {
        return;
      }
      this._changes = { is: 'here', value: asChanges(told) };
    } catch (error) {
      if (signal.aborted) {
        return;
      }
      const stopped = error instanceof ApiError && error.code === 'cancelled';
      this._changes = stopped ? { is: 'stopped' } : { is: 'failed', error };
    }
    this.changed.emit(undefined);
  }

  private _before: number;
  private _after: number;
  private _total = 0;
  private _steps: Part<IPairOfSteps> = { is: 'loading', job: null };
  private _changes: Part<IChanges> = { is: 'loading', job: null };
  private _abort = new AbortController();
  private _isDisposed = false;
}
