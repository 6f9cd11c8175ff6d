/** A session in memory that answers as the server does, when it is told to. */

import type { IRows, IStepSource } from '../../src/timeline/source';
import type { IFork, IStepFilter, IStepRow } from '../../src/timeline/tokens';

export class Session implements IStepSource {
  steps: IStepRow[] = [];
  asked: number[] = [];
  failing: Error | null = null;
  held: (() => void)[] | null = null;

  append(count: number, more: Partial<IStepRow> = {}): void {
    for (let n = 0; n < count; n++) {
      const seq = this.steps.length;
      this.steps.push({
        row: seq,
        seq,
        kind: 'cell',
        actor: { kind: 'user' },
        at: '2026-11-30T01:00:00+00:00',
        outcome: 'ok',
        cause: null,
        duration_s: 0.1,
        execution_count: seq,
        cell: null,
        text: `step ${seq}`,
        lines: 1,
        shown: null,
        ...more
      });
    }
  }

  end(seq: number, outcome: IStepRow['outcome']): void {
    this.steps[seq] = { ...this.steps[seq]!, outcome };
  }

  async rows(
    _: string,
    filter: IStepFilter,
    offset: number,
    limit: number,
    signal?: AbortSignal
  ): Promise<IRows> {
    this.asked.push(offset);
    if (this.held !== null) {
      await new Promise<void>(go => this.held?.push(go));
    }
    if (signal?.aborted) {
      throw new DOMException('given up', 'AbortError');
    }
    if (this.failing !== null) {
      throw this.failing;
    }
    const fit = this.steps
      .filter(
        row =>
          (filter.outcomes.length === 0 || filter.outcomes.includes(row.outcome ?? 'running')) &&
          row.text.includes(filter.words)
      )
      .map((each, row) => ({ ...each, row }));
    const rows = fit.slice(offset, offset + limit);
    return { total: this.steps.length, found: fit.length, atLeast: false, rows };
  }

  async forks(): Promise<readonly IFork[]> {
    return [];
  }
}
