// Which rule allowed a connection, and which refusals wait for one, as docs/network.md has rules.
// @vitest-environment node

import * as fc from 'fast-check';
import { nullTranslator } from '@jupyterlab/translation';
import { expect, test } from 'vitest';

import { pending, placeOf, ruleOf, split, waiting } from '../../src/environments/places';
import { rowOf } from '../../src/environments/service';
import { IAskedHost } from '../../src/environments/tokens';
import { inShort, limits, networkWords, refusal } from '../../src/environments/words';

const trans = nullTranslator.load('reprise');

function row(host: string, port: number, more: Partial<IAskedHost> = {}): IAskedHost {
  return { ...rowOf({ host, port, verdict: 'refused', seq: 1, at: '2026-11-30' }), ...more };
}

test.each([
  ['example.org', 443, 'example.org', true],
  ['example.org', 80, 'example.org', true],
  ['example.org', 8443, 'example.org', false],
  ['example.org', 8443, 'example.org:8443', true],
  ['example.org', 443, 'example.org:8443', false],
  ['a.example.org', 443, '*.example.org', true],
  ['example.org', 443, '*.example.org', false],
  ['badexample.org', 443, '*.example.org', false],
  ['a.example.org', 443, 'example.org', false],
  ['2001:db8::7', 443, '[2001:db8::7]', true],
  ['2001:db8::7', 8080, '[2001:db8::7]:8080', true],
  ['10.1.2.3', 80, '10.1.2.3:80', true]
])('%s:%i under the rule %s: %s', (host, port, place, fits) => {
  expect(ruleOf(row(host, port), [place])).toBe(fits ? place : null);
});

test('the place that is offered for a refusal is one that allows it', () => {
  const host = fc.oneof(fc.domain(), fc.ipV4(), fc.constant('2001:db8::7'));
  fc.assert(
    fc.property(host, fc.integer({ min: 1, max: 65535 }), (name, port) => {
      const asked = row(name, port);
      const place = placeOf(asked);
      expect(ruleOf(asked, [place])).toBe(place);
      expect(split(place).host).toBe(name);
    })
  );
});

test('what waits is the newest refusal of each place that no rule allows yet', () => {
  const rows = [
    row('a.example', 443, { seq: 1 }),
    row('b.example', 443, { seq: 2 }),
    row('a.example', 80, { seq: 3 }),
    row('c.example', 443, { seq: 4, verdict: 'allowed' }),
    row('d.example', 443, { seq: 5, replay: true }),
    row('e.example', 9000, { seq: 6 })
  ];
  expect(waiting(rows, ['b.example']).map(each => [each.host, each.seq])).toEqual([
    ['e.example', 6],
    ['a.example', 3]
  ]);
});

test('what was chosen holds from the next kernel on, and what was taken back until then', () => {
  expect(pending(['a', 'b'], ['b', 'c'])).toEqual(['a']);
  expect(pending(['b', 'c'], ['a', 'b'])).toEqual(['c']);
});

test('rows that are not as expected are refused ones of nobody', () => {
  expect(rowOf({})).toMatchObject({ verdict: 'refused', host: '', port: 0, seq: null });
  expect(rowOf({ verdict: '<b>', detail: { method: 'GET', url: 'https://a/' } })).toMatchObject({
    verdict: 'refused',
    request: 'GET https://a/'
  });
});

test('isolation and network are said in words', () => {
  const environment = {
    environment: 'web',
    built: null,
    image: null,
    here: false,
    bytes: null,
    sessions: null,
    network: ['a.example', 'b.example'],
    output: 'live' as const,
    team: 'team/ml'
  };
  expect(inShort(environment, true, trans)).toBe(
    'isolated, reaches a.example and 1 more, not on this machine, for team/ml, scripts in outputs run'
  );
  expect(inShort({ ...environment, here: true, output: 'auto', team: null }, false, trans)).toBe(
    "not isolated, this machine's network"
  );
  expect(networkWords([], true, trans)).toBe('no network');
  expect(networkWords(['package-index'], true, trans)).toBe('reaches the package index');
  expect(refusal(row('a.example', 443), [], trans)).toBe(
    'Refused a.example:443: no network here. Nothing was sent.'
  );
});

test('limits are told in the order in which they are looked for, unknown ones last', () => {
  const said = limits(
    { limits: { new_one: 3, memory: 4_000_000_000, wall: 0 }, set: ['memory'] },
    trans
  );
  expect(said).toEqual([
    { name: 'Memory', value: '4.0 GB', set: true },
    { name: 'Time of a step', value: 'no limit', set: false },
    { name: 'new_one', value: '3', set: false }
  ]);
});
