/** Rows and forks of sessions from the server's API. */

import type { IApi } from '../api/tokens';
import { sessionName } from './known';
import type { IRows, IStepSource } from './source';
import type { IFork, IStepFilter } from './tokens';

export class ApiSource implements IStepSource {
  constructor(private readonly _api: IApi) {}

  async rows(
    session: string,
    filter: IStepFilter,
    offset: number,
    limit: number,
    signal?: AbortSignal
  ): Promise<IRows> {
    const words = filter.words.trim();
    const told = await this._api.get('/sessions/{session}/rows', {
      params: {
        path: { session },
        query: {
          offset,
          limit,
          ...(filter.kinds.length > 0 ? { kind: [...filter.kinds] } : {}),
          ...(filter.actors.length > 0 ? { actor: [...filter.actors] } : {}),
          ...(filter.outcomes.length > 0 ? { outcome: [...filter.outcomes] } : {}),
          ...(words === '' ? {} : { q: words })
        }
      },
      signal
    });
    return {
      total: told.total,
      found: told.found,
      atLeast: !told.found_exact,
      rows: told.rows
    };
  }

  async forks(session: string): Promise<readonly IFork[]> {
    const told = await this._api.get('/sessions/{session}/forks', {
      params: { path: { session } }
    });
    return told.forks.map(each => ({
      session: each.id,
      parent: each.parent ?? '',
      seq: each.fork_seq ?? -1,
      name: sessionName(each)
    }));
  }
}
