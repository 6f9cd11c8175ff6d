// What notes at cells ask of the log, over the server's API.

import { IApi } from '../api/tokens';
import { ICellLog, ICellStep } from './service';

export class CellLog implements ICellLog {
  constructor(private readonly _api: IApi) {}

  async newest(
    session: string,
    after: number
  ): Promise<{ steps: number; cells: readonly ICellStep[] }> {
    return this._api.get('/sessions/{session}/cells', {
      params: { path: { session }, query: { after } }
    });
  }

  async cause(session: string, seq: number): Promise<Readonly<Record<string, unknown>>> {
    const step = await this._api.get('/sessions/{session}/steps/{seq}', {
      params: { path: { session, seq } }
    });
    return step.cause ?? {};
  }
}
