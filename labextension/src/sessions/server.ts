// What the server says of a session, where the kernel cannot: its REST answers, read for ISessions.

import { ApiError, IApi } from '../api/tokens';
import { readNotice } from './reading';
import type { IServerSays } from './session';
import type { INotice } from './tokens';

/** Notices in one answer. */
const PAGE = 1_000;

/** Pages of notices that are read to find the newest: a session that has more shows its first. */
const PAGES = 20;

type Said = Readonly<Record<string, unknown>>;

export class ServerSays implements IServerSays {
  constructor(private readonly _api: IApi) {}

  async sessionOfKernel(kernel: string): Promise<string | null> {
    const said = await known(this._api.get('/kernels/{kernel}', { params: { path: { kernel } } }));
    return said?.session ?? null;
  }

  status(session: string): Promise<Said | null> {
    return known(this._api.get('/sessions/{session}/status', { params: { path: { session } } }));
  }

  async notices(session: string, newest: number): Promise<readonly INotice[]> {
    let found: INotice[] = [];
    let after: number | undefined;
    for (let page = 0; page < PAGES; page += 1) {
      const said = await this._api.get('/sessions/{session}/notices', {
        params: { path: { session }, query: { after, limit: PAGE } }
      });
      const now = new Date();
      const read = said.notices.map(each => readNotice(each, now)).filter(each => each !== null);
      found = [...found, ...read].slice(-newest);
      if (said.next === null) {
        break;
      }
      after = said.next;
    }
    return found;
  }
}

/** Null where it is not there, or nobody answers: what is known stays as it is. */
async function known<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiError) {
      return null;
    }
    throw error;
  }
}
