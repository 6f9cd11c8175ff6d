// The files of workspaces over the server's API: listed, read, and changed by upload steps.

import { ApiError, IApi, Schemas } from '../api/tokens';
import { folderOf, IPlace, nameOf } from './paths';

/** Something in a folder of a workspace. */
export interface IEntry {
  readonly name: string;
  readonly path: string;
  readonly type: 'file' | 'dir' | 'link';
  readonly size: number | null;
  /** ISO 8601. */
  readonly modified: string | null;
  /** What a link leads to within the workspace. */
  readonly leads: 'file' | 'dir' | null;
}

export interface IFolder {
  readonly entries: readonly IEntry[];
  /** How many there are, whatever was asked for. */
  readonly total: number;
  /** Whether there are more than were asked for. */
  readonly more: boolean;
}

/** Changes that are one step: all of them, or none. */
export interface IChanges {
  make?: string[];
  remove?: string[];
  move?: { from: string; to: string }[];
  copy?: { from: string; to: string }[];
  replace?: boolean;
}

/** Bytes that one upload step may bring in (the server's limit). */
export const MOST_BYTES = 256 * 1024 * 1024;

/** Entries in one answer. */
const PAGE = 1_000;

type Job = Schemas['Job'];

interface IPage {
  readonly entries: readonly IEntry[];
  readonly total: number;
  readonly next: string | null;
}

export class WorkspaceFiles {
  constructor(private readonly _api: IApi) {}

  /** The first `limit` entries of a folder. */
  async folder(place: IPlace, limit: number): Promise<IFolder> {
    const entries: IEntry[] = [];
    let after: string | undefined;
    for (;;) {
      const page = await this._page(place, {
        path: place.path,
        limit: Math.min(PAGE, limit - entries.length),
        after
      });
      entries.push(...page.entries);
      if (page.next === null || entries.length >= limit) {
        return { entries, total: page.total, more: page.next !== null };
      }
      after = page.next;
    }
  }

  /** One entry; null where there is none. */
  async entry(place: IPlace): Promise<IEntry | null> {
    const name = nameOf(place.path);
    const page = await this._page(place, {
      path: folderOf(place.path),
      after: before(name),
      limit: 50
    });
    return page.entries.find(each => each.name === name) ?? null;
  }

  async bytes(place: IPlace): Promise<Blob> {
    const response = await this._api.fetch(this.address(place));
    return response.blob();
  }

  /** Where the bytes are, below the API: an attachment that no browser shows. */
  address(place: IPlace): string {
    const query = new URLSearchParams({ path: place.path, ...at(place) });
    return `sessions/${place.session}/files/content?${query}`;
  }

  /** The address of a file, to be downloaded. */
  url(place: IPlace): string {
    return this._api.url(this.address(place));
  }

  /** Bring a file in, as an upload step. Rejects with `exists` unless it may replace what is there. */
  async put(session: string, path: string, bytes: Blob, replace: boolean): Promise<void> {
    if (bytes.size > MOST_BYTES) {
      throw new ApiError(
        413,
        'too-large',
        `${nameOf(path)} has ${Math.round(bytes.size / 1048576)} MiB; a step brings in ${MOST_BYTES / 1048576} MiB at most. Nothing was changed. Mount large data instead: \`reprise env mount\`.`
      );
    }
    const query = new URLSearchParams({ path, replace: String(replace) });
    const response = await this._api.fetch(`sessions/${session}/files/content?${query}`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/octet-stream' },
      body: bytes
    });
    await this._ended((await response.json()) as Job);
  }

  async change(session: string, changes: IChanges): Promise<void> {
    const job = await this._api.post('/sessions/{session}/file-changes', {
      params: { path: { session } },
      body: changes
    });
    await this._ended(job);
  }

  /** Have the workspace built as after a step; `at` null: the last one. */
  build(session: string, step: number | null): Promise<Job> {
    return this._api.post('/sessions/{session}/workspaces', {
      params: { path: { session } },
      body: step === null ? {} : { at: step }
    });
  }

  /** Follow a job to its end. @param told - hears of each change */
  async follow(job: Job, told: (job: Job) => void, stopped: AbortSignal): Promise<Job> {
    let now = job;
    while (now.state === 'queued' || now.state === 'running') {
      now = await this._api.get('/jobs/{job}', {
        params: { path: { job: now.id }, query: { version: now.version, wait: 20 } },
        signal: stopped
      });
      told(now);
    }
    return now;
  }

  async cancel(job: Job): Promise<void> {
    await this._api.post('/jobs/{job}/cancel', { params: { path: { job: job.id } } });
  }

  /** The end of a step that changes files. Rejects when it did not come in. */
  private async _ended(job: Job): Promise<void> {
    const ended = await this.follow(job, () => undefined, new AbortController().signal);
    const summary = ended.summary as { outcome?: unknown; error?: unknown } | null;
    const outcome = summary?.outcome;
    if (ended.state !== 'done' || (outcome !== undefined && outcome !== 'ok')) {
      const said = failureOf(ended)?.message ?? summary?.error;
      throw new ApiError(
        0,
        'not-changed',
        typeof said === 'string'
          ? said
          : 'The files were not changed. The timeline shows how the step ended.'
      );
    }
  }

  private _page(
    { session, at: step }: IPlace,
    query: { path: string; limit: number; after: string | undefined }
  ): Promise<IPage> {
    return this._api.get('/sessions/{session}/files/folder', {
      params: { path: { session }, query: { ...query, ...(step === null ? {} : { at: step }) } }
    });
  }
}

/** Why a job failed; null where it did not. */
export function failureOf(job: Job): { readonly code: string; readonly message: string } | null {
  const { error } = job as { error: { code: string; message: string } | null };
  return error;
}

/** A name that comes shortly before another one, so that a page behind it holds that. */
function before(name: string): string {
  const stem = name.slice(0, -1);
  const last = name.charCodeAt(name.length - 1);
  // Not below a space, nor between the halves of a character.
  return last > 0x21 && last < 0xd800 ? `${stem}${String.fromCharCode(last - 1)}~` : stem;
}

function at(place: IPlace): Record<string, string> {
  return place.at === null ? {} : { at: String(place.at) };
}
