// The catalog without a page: against a server that holds every request against the document.
// @vitest-environment node

import { afterEach, beforeEach, expect, test } from 'vitest';

import { Api } from '../../src/api/client';
import { ApiError } from '../../src/api/tokens';
import { Skills } from '../../src/skills/service';
import { tarOf } from '../../src/skills/tar';
import { ISkills } from '../../src/skills/tokens';
import { FakeServer } from '../server';
import { DIGEST, page, promotion, version } from './catalog';

let server: FakeServer;
let api: Api;
let skills: Skills;

beforeEach(async () => {
  server = await FakeServer.start();
  api = new Api({ settings: server.settings });
  skills = new Skills(api);
});

afterEach(async () => {
  skills.dispose();
  api.dispose();
  await server.close();
});

const SHIPPED = [
  { name: 'profile-dataset', description: 'Profiles a table before it is used.', digest: DIGEST },
  { name: 'compare-runs', description: 'Compares two runs.', digest: DIGEST }
];

test('a list has what comes with Reprise behind what was added, and names each exactly', async () => {
  server.on('GET /skills', () => ({
    json: { skills: [version()], shipped: SHIPPED, total: 1, next_offset: null }
  }));
  const { entries, total } = await skills.list();
  expect(entries.map(each => each.named)).toEqual([
    { skill: 'count-rows@3', scope: 'personal' },
    { skill: 'profile-dataset' },
    { skill: 'compare-runs' }
  ]);
  expect(total).toBe(3);
  expect(entries[1]?.standing).toBe('trusted');
});

test('words are searched on the server, and in what it does not search: what is shipped', async () => {
  server.on('GET /skills', asked =>
    asked.query.q === undefined
      ? { json: { skills: [], shipped: SHIPPED, total: 0, next_offset: null } }
      : { json: { skills: [version()], shipped: [], total: 1, next_offset: null } }
  );
  const found = await skills.list({ words: ' table  PROFILES ' });
  expect(found.entries.map(each => each.name)).toEqual(['count-rows', 'profile-dataset']);
  expect(server.asked[0]).toBe('GET /skills?q=table%20%20PROFILES&limit=500');
  expect((await skills.list({ scope: 'shipped' })).total).toBe(2);
});

test('a list that comes in pages is whole', async () => {
  server.on('GET /skills/{skill}/versions', asked => {
    expect(asked.path.skill).toBe('count-rows');
    expect(asked.query.scope).toBe('team/ml');
    return asked.query.offset === '0'
      ? { json: { versions: [version({ number: 2 })], total: 2, next_offset: 1 } }
      : { json: { versions: [version({ number: 1 })], total: 2, next_offset: null } };
  });
  const found = await skills.versions({ skill: 'count-rows@2', scope: 'team/ml' });
  expect(found.map(each => each.number)).toEqual([2, 1]);
});

test('trust says the digest that was looked at, and is pressed before it is asked for again', async () => {
  const decision = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0001';
  const pressed: string[] = [];
  api.setDecider({
    decide: (id, frame) => {
      pressed.push(`${id} ${frame}`);
      return Promise.resolve();
    }
  });
  server.on('POST /skills/{skill}/trust', asked => {
    expect(asked.body).toEqual({ digest: DIGEST, scope: 'team/ml', reason: 'read it' });
    return asked.headers['x-reprise-decision'] === decision
      ? { json: { digest: DIGEST, standing: 'trusted' } }
      : {
          status: 428,
          json: {
            error: { code: 'decision-needed', message: 'Press it.', decision, frame: '/frame' }
          }
        };
  });
  expect(await skills.trust(version(), 'team/ml', 'read it')).toBe('trusted');
  expect(pressed).toEqual([`${decision} /frame`]);
  expect(server.asked).toEqual([
    'POST /skills/count-rows%403/trust?scope=personal',
    'POST /skills/count-rows%403/trust?scope=personal'
  ]);
});

test('who changes their mind in the frame has changed nothing', async () => {
  api.setDecider({
    decide: () => Promise.reject(new ApiError(428, 'cancelled', 'Not decided.'))
  });
  server.on('POST /skills/{skill}/release', () => ({
    status: 428,
    json: { error: { code: 'decision-needed', message: 'Press.', decision: 'd', frame: '/f' } }
  }));
  await expect(skills.release(version())).rejects.toMatchObject({ code: 'cancelled' });
  expect(server.asked).toHaveLength(1);
});

test('what became another content meanwhile is told as the server tells it', async () => {
  server.on('POST /skills/{skill}/restoration', () => ({
    status: 409,
    json: { error: { code: 'content-changed', message: 'Look at it again.' } }
  }));
  await expect(skills.restore(version())).rejects.toMatchObject({
    code: 'content-changed',
    message: 'Look at it again.'
  });
});

test('a cost is asked for once for each content and standing, a few at a time, and again when it failed', async () => {
  let open = 0;
  let most = 0;
  let broken = true;
  server.on('GET /skills/{skill}/cost', async asked => {
    open += 1;
    most = Math.max(most, open);
    await new Promise(resolve => setTimeout(resolve, 5));
    open -= 1;
    if (asked.path.skill === 'broken@1' && broken) {
      return { status: 503, json: { error: { code: 'unavailable', message: 'Later.' } } };
    }
    const digest = DIGEST;
    return {
      json: { reference: 'x', digest, counted: false, listed: 1, loaded: 2, files: [] }
    };
  });
  const entry = (name: string, digest: string): ISkills.IEntry => ({
    named: { skill: `${name}@1`, scope: 'personal' },
    name,
    description: '',
    digest,
    standing: 'untrusted',
    version: null
  });
  const many = Array.from({ length: 12 }, (_, index) => entry(`skill-${index}`, `${index}`));
  await Promise.all([...many, ...many].map(each => skills.cost(each)));
  expect(server.asked).toHaveLength(12);
  expect(most).toBeLessThanOrEqual(3);
  const failing = entry('broken', 'x');
  await expect(skills.cost(failing)).rejects.toMatchObject({ status: 503 });
  broken = false;
  expect((await skills.cost(failing)).loaded).toBe(2);
});

test('an archive is sent as what it is by its bytes, under a name that the server takes', async () => {
  server.on('POST /skill-checks', asked => {
    expect(asked.headers['content-type']).toBe('application/x-tar');
    expect(asked.query.filename).toBe('my_skills_.zip');
    return {
      json: {
        skills: [
          { folder: 'a', name: 'a', digest: DIGEST, why_not: null, findings: [], cost: null }
        ],
        notes: []
      }
    };
  });
  const archive = tarOf([{ path: 'a/SKILL.md', executable: false, content: 'x' }]);
  const [checked] = await skills.checkArchive(archive, 'my/skills\n.zip');
  expect(checked?.name).toBe('a');
  await expect(skills.checkArchive(new Blob(['nothing']), 'a.zip')).rejects.toMatchObject({
    code: 'no-archive'
  });
  expect(server.asked).toHaveLength(1);
});

test('of an archive the skills are added that were chosen', async () => {
  server.on('POST /skills', asked => {
    expect(asked.query).toEqual({ filename: 's.tar', note: 'new', name: ['a', 'b'] });
    return { status: 201, json: { skills: [], notes: [] } };
  });
  await skills.addArchive(tarOf([]), 's.tar', ['a', 'b'], 'new').catch((error: unknown) => {
    // An archive of nothing has no mark of its own.
    expect(error).toMatchObject({ code: 'no-archive' });
  });
  const archive = tarOf([{ path: 'a/SKILL.md', executable: false, content: 'x' }]);
  await skills.addArchive(archive, 's.tar', ['a', 'b'], 'new');
});

test('files go as text or as bytes, with who may execute them', async () => {
  server.on('POST /skills', asked => {
    expect(asked.body).toEqual({
      folder: 'a',
      files: [
        { path: 'SKILL.md', executable: false, text: 'héllo' },
        { path: 'x.bin', executable: true, base64: 'AP+A' }
      ]
    });
    return { status: 201, json: { skills: [], notes: [] } };
  });
  await skills.save('a', [
    { path: 'SKILL.md', executable: false, content: 'héllo' },
    { path: 'x.bin', executable: true, content: Uint8Array.of(0, 255, 128) }
  ]);
});

test('a decision about a promotion is of the content that was looked at', async () => {
  server.on('POST /skill-promotions/{promotion}/decision', asked => {
    expect(asked.body).toEqual({ approve: true, release: true, digest: DIGEST });
    return { json: promotion({ decided: 'approved', decided_by: 'ben' }) };
  });
  const done = await skills.decide(promotion(), { approve: true, release: true, reason: '' });
  expect(done.decided_by).toBe('ben');
});

test('what a script shows is text, errors of it too', async () => {
  const job = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0001';
  server.on('GET /jobs/{job}/outputs', () => ({
    json: {
      outputs: [
        ['stream', { name: 'stdout', text: 'rows 3\n' }, {}, []],
        ['display_data', { data: { 'text/plain': 'a figure', 'text/html': '<b>' } }, {}, []],
        ['error', { ename: 'E', evalue: 'v', traceback: ['one', 'two'] }, {}, []]
      ],
      next: 2,
      skipped: false,
      state: 'running',
      ended: false
    }
  }));
  expect(await skills.outputs(job, -1)).toEqual({
    text: 'rows 3\na figure\none\ntwo\n',
    next: 2,
    ended: false
  });
});

test('a connection that comes back is a change: what is shown may be old', async () => {
  const told: string[] = [];
  skills.changed.connect((_, change) => told.push(change.action));
  server.on('GET /skill-scopes', () => ({ json: { scopes: [] } }));
  server.on('GET /me', () => ({ status: 403, json: { error: { code: 'x', message: 'x' } } }));
  await server.go();
  await expect(skills.scopes()).rejects.toMatchObject({ code: 'offline' });
  server.come();
  await skills.scopes();
  expect(told).toEqual(['resynced']);
});

test('members and teams go by the logins that the database knows', async () => {
  server
    .on('GET /skill-members', asked => {
      expect(asked.query.scope).toBe('team/ml');
      return { json: page('members', [{ login: 'ben', role: 'reviewer' }]) };
    })
    .on('PUT /skill-members', asked => {
      expect(asked.body).toEqual({ scope: 'team/ml', login: 'carla', role: 'member' });
      return { json: { login: 'carla', role: 'member' } };
    })
    .on('DELETE /skill-members', asked => {
      expect(asked.query).toEqual({ scope: 'team/ml', login: 'ben' });
      return { status: 204, bytes: '', type: 'text/plain' };
    });
  expect(await skills.members('team/ml')).toEqual([{ login: 'ben', role: 'reviewer' }]);
  await skills.appoint('team/ml', 'carla', 'member');
  await skills.dismiss('team/ml', 'ben');
});
