// Rules are written so that they read back as they were; findings stand at their lines; drafts stay.
// @vitest-environment node

import { nullTranslator } from '@jupyterlab/translation';
import * as fc from 'fast-check';
// @ts-expect-error: it has no types of its own; what it gives is looked at here.
import { load } from 'js-yaml';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { Api } from '../../src/api/client';
import { Drafts } from '../../src/policy/drafts';
import { placed } from '../../src/policy/placed';
import { PoliciesService } from '../../src/policy/service';
import { conditions, outcomeWords, trialWords } from '../../src/policy/words';
import { FIRST, rulesText } from '../../src/policy/yaml';
import { FakeServer } from '../server';

const trans = nullTranslator.load('reprise');

// Writing ------------------------------------------------------------------------------------------

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom(
    'yes',
    'null',
    '1.0',
    '*',
    '**',
    '- a',
    'a: b',
    '# x',
    '!x',
    '&a',
    '%',
    '@',
    '~',
    '"',
    ' '
  )
);
const rule = fc.record(
  {
    name: fc.stringMatching(/^[a-z][a-z0-9-]{0,10}$/),
    decision: fc.constantFrom('allow', 'ask', 'deny'),
    why: text,
    tool: fc.array(text, { minLength: 2, maxLength: 3 }),
    path: fc.array(text, { minLength: 2, maxLength: 3 }),
    argv: fc.array(fc.array(text, { minLength: 2, maxLength: 3 }), { minLength: 1, maxLength: 3 }),
    tainted: fc.oneof(fc.boolean(), fc.constant(['network', 'mcp']))
  },
  { requiredKeys: ['name', 'decision'] }
);

test('what is written reads back as it was, whatever stands in it', () => {
  fc.assert(
    fc.property(fc.array(rule, { maxLength: 4 }), rules => {
      // Half of a pair is no text that a policy may hold.
      fc.pre(!/[\ud800-\udfff]/u.test(JSON.stringify(rules)));
      expect(load(rulesText(rules))).toEqual({ rules });
    })
  );
});

test('a list of one is written as that one, words in their order', () => {
  expect(rulesText([])).toBe('rules: []\n');
  expect(
    rulesText([
      { tool: ['mcp/crm/*'], decision: 'deny', name: 'no-crm', why: 'Ask: first.', tainted: true },
      {
        name: 'log',
        decision: 'allow',
        argv: [
          ['git', 'log', '**'],
          ['git', 'status']
        ]
      }
    ])
  ).toBe(
    [
      'rules:',
      '  - name: no-crm',
      '    decision: deny',
      '    why: "Ask: first."',
      '    tool: "mcp/crm/*"',
      '    tainted: true',
      '  - name: log',
      '    decision: allow',
      '    argv: ',
      '      - [git, log, "**"]',
      '      - [git, status]',
      ''
    ].join('\n')
  );
  expect(load(FIRST)).toHaveProperty('rules.0.decision', 'ask');
});

// Findings -----------------------------------------------------------------------------------------

test('findings stand at their lines, within the text', () => {
  const problem = (line: number): { line: number; text: string; mend: string } => ({
    line,
    text: 'It is wrong.',
    mend: 'Mend it.'
  });
  const written = 'rules:\n  - name: x\n    decision: perhaps\n';
  expect(placed(written, [problem(3)], [problem(0)])).toEqual([
    { from: 0, to: 6, severity: 'warning', message: 'It is wrong. Mend it.' },
    { from: 23, to: 40, severity: 'error', message: 'It is wrong. Mend it.' }
  ]);
  fc.assert(
    fc.property(fc.string({ maxLength: 60 }), fc.integer({ min: -3, max: 90 }), (some, line) => {
      for (const { from, to } of placed(some, [problem(line)], [])) {
        expect(0 <= from && from <= to && to <= some.length).toBe(true);
      }
    })
  );
});

test('an outcome, a trial and a rule are said in a line', () => {
  const verdict = { decision: 'ask' as const, rule: 'team/7', why: '' };
  expect(outcomeWords({ verdict }, trans)).toBe('Ask, by team/7.');
  const change = { conversation: '', title: '', tool: '', before: null, now: verdict };
  expect(trialWords({ calls: 200, changes: [change, change, change] }, trans)).toBe(
    'Of the last 200 calls 3 would change.'
  );
  expect(trialWords({ calls: 0, changes: [] }, trans)).toContain('No call yet');
  expect(
    conditions({ name: 'a', decision: 'deny', tool: ['x', 'y'], argv: [['git', 'log']] })
  ).toBe('tool: x, y · argv: git log');
});

// Drafts -------------------------------------------------------------------------------------------

test('a draft stays until it is saved, apart for each server and scope', () => {
  const map = new Map<string, string>();
  const store = {
    getItem: (key: string) => map.get(key) ?? null,
    setItem: (key: string, value: string) => void map.set(key, value),
    removeItem: (key: string) => void map.delete(key)
  };
  const drafts = new Drafts(store, 'http://a/');
  expect(drafts.keep('personal', { text: 'rules: []', after: 3 })).toBe(true);
  expect(drafts.get('personal')).toEqual({ text: 'rules: []', after: 3 });
  expect(drafts.get('organisation')).toBeNull();
  expect(new Drafts(store, 'http://b/').get('personal')).toBeNull();
  map.set([...map.keys()][0]!, '{"text": 3}');
  expect(drafts.get('personal')).toBeNull();
  drafts.keep('personal', null);
  expect(map.size).toBe(0);
  const full = {
    ...store,
    setItem: () => {
      throw new Error('QuotaExceededError');
    }
  };
  expect(new Drafts(full, 'x').keep('personal', { text: '', after: 0 })).toBe(false);
});

// The server ---------------------------------------------------------------------------------------

let server: FakeServer;
let api: Api;
let policies: PoliciesService;

beforeEach(async () => {
  server = await FakeServer.start();
  api = new Api({ settings: server.settings });
  policies = new PoliciesService(api);
});

afterEach(async () => {
  policies.dispose();
  api.dispose();
  await server.close();
});

test('a scope that one may not set says why, in the words of whoever knows', async () => {
  const me = (may: boolean): object => ({
    name: 'alice',
    anonymous: false,
    login: 'alice',
    personal: { may: true, why: 'This is you.' },
    governance: { may, why: 'The database has one login for everybody.' }
  });
  server.on('GET /me', () => ({ json: me(false) }));
  server.on('GET /skill-scopes', () => ({
    json: {
      scopes: [
        { scope: 'personal', role: 'owner' },
        { scope: 'team/ml', role: 'admin' },
        { scope: 'organisation', role: 'member' }
      ]
    }
  }));
  expect(await policies.scopes()).toEqual([
    { scope: 'personal', may: true, why: null },
    { scope: 'team/ml', may: false, why: 'The database has one login for everybody.' },
    { scope: 'organisation', may: false, why: 'The database has one login for everybody.' }
  ]);
  server.on('GET /me', () => ({ json: me(true) }));
  expect(await policies.scopes()).toMatchObject([
    { may: true },
    { scope: 'team/ml', may: true },
    { scope: 'organisation', may: false, why: null }
  ]);
});

test('of an act only what was said is asked, and a draft among it', async () => {
  const verdict = { decision: 'deny', rule: 'personal/x', why: 'No.' };
  server.on('POST /policy-trials', asked => {
    expect(asked.body).toEqual({
      tool: 'write_file',
      paths: ['a.csv'],
      isolated: true,
      tainted: ['network'],
      policy: 'rules: []',
      scope: 'team/ml'
    });
    const levels = [{ level: 'personal', rule: { name: 'x', decision: 'deny' } }];
    return { json: { verdict, now: verdict, levels, plain: false } };
  });
  const act = {
    tool: 'write_file',
    shell: '',
    code: '',
    path: 'a.csv',
    host: '',
    skill: '',
    standing: 'trusted' as const,
    environment: '',
    isolated: true,
    network: '',
    tainted: ['network' as const]
  };
  const said = await policies.try(act, { scope: 'team/ml', text: 'rules: []' });
  expect([said.verdict.rule, said.compound]).toEqual(['personal/x', true]);
});
