// A workspace as of a past step being built: a job with progress, that can be cancelled.

import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { ApiError, Schemas } from '../api/tokens';
import { failureOf, WorkspaceFiles } from './files';

export class Building implements IDisposable {
  constructor(
    private readonly _files: WorkspaceFiles,
    readonly session: string,
    /** null: as after the last step. */
    readonly step: number | null
  ) {}

  get progress(): Schemas['Job']['progress'] | null {
    return this._job?.progress ?? null;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._stopped.signal.aborted;
  }

  /** Build it. Resolves when it stands; rejects with why it does not, `cancelled` among others. */
  async run(): Promise<void> {
    const tell = (job: Schemas['Job']): void => {
      this._job = job;
      if (!this.isDisposed) {
        this._changed.emit();
      }
    };
    const job = await this._files.build(this.session, this.step);
    tell(job);
    const ended = await this._files.follow(job, tell, this._stopped.signal);
    if (ended.state !== 'done') {
      const failure = failureOf(ended);
      throw new ApiError(
        0,
        failure?.code ?? ended.state,
        failure?.message ?? 'The files could not be built. The log is whole.'
      );
    }
  }

  async cancel(): Promise<void> {
    if (this._job !== null) {
      await this._files.cancel(this._job);
    }
  }

  /** Look at it no more; the job goes on, for others may look at it. */
  dispose(): void {
    if (!this.isDisposed) {
      this._stopped.abort();
      Signal.clearData(this);
    }
  }

  private _job: Schemas['Job'] | null = null;
  private readonly _stopped = new AbortController();
  private readonly _changed = new Signal<this, void>(this);
}
