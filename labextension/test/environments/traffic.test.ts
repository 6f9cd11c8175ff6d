// What was asked of the network stays listed, also what was asked between steps.
// @vitest-environment node

import { expect, test } from 'vitest';

import { IAskedHost, IEnvironments } from '../../src/environments/tokens';
import { Traffic } from '../../src/environments/traffic';

function row(seq: number | null, second: number): IAskedHost {
  return {
    seq,
    at: `2026-11-30T12:00:${String(second).padStart(2, '0')}Z`,
    host: 'a.example',
    port: 443,
    verdict: 'refused',
    reason: '',
    up: 0,
    down: 0,
    replay: false,
    request: null
  };
}

test('a row between steps stays when later steps ask, and stands there once', async () => {
  // As the server tells them: those between steps by the step that they come behind.
  const told: [place: number, row: IAskedHost][] = [
    [1, row(1, 1)],
    [1, row(null, 2)]
  ];
  const environments = {
    chosen: () => Promise.resolve({}),
    asked: (_: string, from: number) =>
      Promise.resolve({
        rows: told.filter(([place]) => place >= from).map(([, each]) => each),
        next: null
      })
  } as unknown as IEnvironments;
  const traffic = new Traffic(environments, 'session');
  await traffic.refresh();
  told.push([9, row(9, 3)]);
  await traffic.refresh();
  await traffic.refresh();
  expect(traffic.rows.map(each => each.seq)).toEqual([1, null, 9]);
});
