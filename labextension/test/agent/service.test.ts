/** The agent's service in Node, against a server that holds what it asks against the document. */
// @vitest-environment node

import { afterEach, beforeEach, expect, test } from 'vitest';
import type { WebSocket } from 'ws';

import { Agent } from '../../src/agent/service';
import type { IConversation, IHeld } from '../../src/agent/tokens';
import { Api } from '../../src/api/client';
import { ApiError } from '../../src/api/tokens';
import { type Answer, type Asked, FakeServer } from '../server';
import { OTHER, SESSION, Story } from './entries';

const ID = '7d9a3c1e-3a2f-4c67-9c5a-0d7f6b1f00aa';
const AT = '2026-11-30T12:00:00Z';

let server: FakeServer;
let api: Api;
let agent: Agent;
let story: Story;
let running: boolean;
let yours: boolean;
let lines: { socket: WebSocket; after: number; heard: Record<string, unknown>[] }[];
const held: IHeld[] = [];

function info(): Record<string, unknown> {
  const entries = story.entries.length;
  return {
    id: ID,
    session: SESSION,
    notebook: 'churn.ipynb',
    title: 'Recall',
    began_at: AT,
    last_at: AT,
    entries,
    turns: story.entries.filter(each => each.kind === 'said').length
  };
}

beforeEach(async () => {
  server = await FakeServer.start();
  api = new Api({ settings: server.settings });
  agent = new Agent(api);
  story = new Story().begun();
  running = false;
  yours = true;
  lines = [];
  server.on('GET /conversations/{conversation}', () => ({
    json: { ...info(), owner: 'alice', yours, running, ended: null, questions: [] }
  }));
  server.on('GET /conversations/{conversation}/entries', asked => {
    const after = Number(asked.query.after ?? -1);
    const limit = Number(asked.query.limit ?? 100);
    const found = story.entries.filter(each => each.seq > after).slice(0, limit);
    const last = found.at(-1)?.seq ?? after;
    return {
      json: { entries: found, next: last + 1 < story.entries.length ? last : null }
    };
  });
  server.onSocket((socket, _, query) => {
    const after = Number(query.get('after'));
    const line = { socket, after, heard: [] as Record<string, unknown>[] };
    lines.push(line);
    socket.on('message', (data: Buffer) => line.heard.push(JSON.parse(data.toString('utf8'))));
    const last = story.entries.length - 1;
    tell('hello', { conversation: ID, owner: 'alice', yours, running, after, last }, socket);
    for (const entry of story.entries.filter(each => each.seq > after)) {
      tell('entry', { entry }, socket);
    }
    tell('told', { after: last, ended: null }, socket);
  });
});

afterEach(async () => {
  for (const each of held.splice(0)) {
    each.dispose();
  }
  agent.dispose();
  api.dispose();
  await server.close();
});

function tell(type: string, message: Record<string, unknown>, to?: WebSocket): void {
  (to ?? lines.at(-1)!.socket).send(server.told(type, message));
}

/** The newest entry of the story, told to the newest line. */
function tellNewest(): void {
  tell('entry', { entry: story.entries.at(-1) });
}

function open(): IConversation {
  const found = agent.open(ID);
  held.push(found);
  return found.conversation;
}

async function until(holds: () => boolean): Promise<void> {
  for (let n = 0; n < 3_000; n += 1) {
    if (holds()) {
      return;
    }
    await new Promise(resolve => setTimeout(resolve, 10));
  }
  throw new Error(`it did not become so: ${String(holds)}`);
}

async function live(): Promise<IConversation> {
  const conversation = open();
  await until(() => conversation.line.is === 'live' && conversation.whole);
  return conversation;
}

async function refusal(asked: Promise<unknown>): Promise<ApiError> {
  return asked.then(
    () => {
      throw new Error('it was not refused');
    },
    (error: unknown) => {
      expect(error).toBeInstanceOf(ApiError);
      return error as ApiError;
    }
  );
}

test('an open conversation shows what is stored, then what is told', async () => {
  story.said('Why?');
  const conversation = await live();
  expect(conversation.model.turns).toHaveLength(1);
  expect(conversation.yours).toBe(true);
  const entered: string[] = [];
  conversation.entered.connect((_, entry) => entered.push(entry.kind));
  let changes = 0;
  conversation.changed.connect(() => (changes += 1));
  tell('delta', { delta: { type: 'text', index: 0, text: 'Bec' } });
  tell('delta', { delta: { type: 'text', index: 0, text: 'ause' } });
  await until(() => conversation.draft[0]?.text === 'Because');
  changes = 0;
  await new Promise<void>(resolve => {
    conversation.streamed.connect(() => resolve());
    tell('delta', { delta: { type: 'text', index: 0, text: '' } });
  });
  // Whoever follows the model draws nothing anew for a piece of an answer.
  expect(changes).toBe(0);
  story.answered('Because.');
  tell('entry', { entry: story.entries.at(-2) });
  tellNewest();
  await until(() => conversation.model.turns[0]?.parts.length === 1);
  expect(conversation.draft).toEqual([]);
  expect(entered).toEqual(['asked', 'answered']);
  tell('shown', { call: 'c1', text: 'one\ntwo\n' });
  await until(() => conversation.output('c1')?.total === 2);
  running = false;
  tell('ended', { status: 'done' });
  await until(() => conversation.output('c1') === null);
});

test('a line that broke comes again with `after`, and nothing is missed or told twice', async () => {
  const conversation = await live();
  story.said('One');
  tellNewest();
  await until(() => conversation.model.seq === 2);
  lines[0]!.socket.terminate();
  story.answered('Two').ended();
  await until(() => conversation.model.seq === story.entries.length - 1);
  expect(lines[1]!.after).toBe(2);
  expect(conversation.entries.map(each => each.seq)).toEqual(story.entries.map(each => each.seq));
  await until(() => conversation.line.is === 'live');
});

test('a turn that began and ended while the line was down does not seem to run', async () => {
  const conversation = await live();
  lines[0]!.socket.terminate();
  story.said('Meanwhile').answered('Done.').ended();
  await until(() => conversation.model.turns[0]?.ended === 'done');
  await until(() => conversation.line.is === 'live');
  expect(conversation.running).toBe(false);
  story.said('Here');
  tellNewest();
  await until(() => conversation.running);
});

test('what was said runs before its entry has come', async () => {
  const conversation = await live();
  server.on('POST /conversations/{conversation}/say', () => ({ status: 202, json: { turn: 1 } }));
  await conversation.say('One');
  expect(conversation.running).toBe(true);
});

test('what was said while it was being opened runs, whatever answers say that came late', async () => {
  const heard: boolean[] = [];
  let answer = (): void => undefined;
  const before = new Promise<void>(done => (answer = done));
  server.on('GET /conversations/{conversation}', async () => {
    const now = { ...info(), owner: 'alice', yours, running, ended: null, questions: [] };
    await before;
    return { json: now };
  });
  server.on('GET /conversations/{conversation}/entries', async () => {
    // Frames are drawn meanwhile.
    await new Promise(resolve => setTimeout(resolve, 100));
    return { json: { entries: story.entries, next: null } };
  });
  server.on('POST /conversations/{conversation}/say', () => {
    story.said('One');
    return { status: 202, json: { turn: 1 } };
  });
  const conversation = open();
  await until(() => server.asked.includes(`GET /conversations/${ID}`));
  await conversation.say('One');
  conversation.changed.connect(() => heard.push(conversation.running));
  running = true;
  answer();
  await until(() => conversation.line.is === 'live' && conversation.whole);
  expect(conversation.model.turns).toHaveLength(1);
  expect(heard).not.toContain(false);
  story.answered('1').ended();
  tell('entry', { entry: story.entries.at(-2) });
  tellNewest();
  tell('ended', { status: 'done' });
  await until(() => !conversation.running);
});

test('one that is tried again twice at once is opened once', async () => {
  story.said('One').answered('1').ended();
  await server.go();
  const conversation = open();
  await until(() => conversation.line.is === 'offline');
  conversation.reconnect();
  await until(() => conversation.line.is === 'offline');
  server.come();
  conversation.reconnect();
  conversation.reconnect();
  await until(() => conversation.line.is === 'live' && conversation.whole);
  story.said('Two');
  tellNewest();
  await until(() => conversation.model.turns.length === 2);
  await api.connection.tryNow();
  expect(conversation.entries.map(each => each.seq)).toEqual(story.entries.map(each => each.seq));
  const opened = server.asked.filter(each => each === `GET /conversations/${ID}`);
  expect(opened).toHaveLength(1);
});

test('a server that is away is tried again, and what was shown stays', async () => {
  story.said('One').answered('1').ended();
  const conversation = await live();
  await server.go();
  await until(() => conversation.line.is === 'offline');
  expect(conversation.model.turns).toHaveLength(1);
  expect((await refusal(conversation.post({ type: 'notebook-open' }))).code).toBe('offline');
  story.said('Two');
  server.come();
  conversation.reconnect();
  await until(() => conversation.line.is === 'live' && conversation.model.turns.length === 2);
});

test('who is signed out is told so, and goes on after signing in', async () => {
  const conversation = await live();
  server.on('GET /conversations/{conversation}', () => ({
    status: 403,
    json: { error: { code: 'not-authenticated', message: 'Log in.' } }
  }));
  lines[0]!.socket.terminate();
  await until(() => conversation.line.is === 'expired');
  server.on('GET /conversations/{conversation}', () => ({
    json: { ...info(), owner: 'alice', yours, running, ended: null, questions: [] }
  }));
  server.on('GET /me', () => ({
    json: {
      name: 'alice',
      anonymous: false,
      login: 'alice',
      personal: { may: true, why: '' },
      governance: { may: false, why: '' }
    }
  }));
  await api.connection.tryNow();
  await until(() => conversation.line.is === 'live');
});

test('one that is gone says why', async () => {
  server.on('GET /conversations/{conversation}', () => ({
    status: 404,
    json: { error: { code: 'not-found', message: 'There is no such conversation.' } }
  }));
  const conversation = open();
  await until(() => conversation.line.is === 'refused');
  expect(conversation.line).toMatchObject({ why: 'There is no such conversation.' });
});

test('the newest turns of a long one come first, all of it soon after', async () => {
  for (let turn = 0; turn < 400; turn += 1) {
    story.said(`turn ${turn}`).answered(`answer ${turn}`).ended();
  }
  const conversation = open();
  await until(() => conversation.model.turns.length > 0);
  expect(conversation.model.turns.at(-1)?.said).toBe('turn 399');
  expect(conversation.model).toMatchObject({ model: 'claude', session: SESSION });
  await until(() => conversation.whole);
  expect(conversation.model.turns).toHaveLength(400);
  expect(conversation.entries.map(each => each.seq)).toEqual(story.entries.map(each => each.seq));
  expect(conversation.model.usage.costs).toEqual({ USD: '0.48' });
});

test('earlier turns that could not be had are asked for again', async () => {
  for (let turn = 0; turn < 400; turn += 1) {
    story.said(`turn ${turn}`).answered(`answer ${turn}`).ended();
  }
  let fails = false;
  const answer = (asked: Asked): Answer => {
    const after = Number(asked.query.after ?? -1);
    if (fails && after < 100) {
      return { status: 503, json: { error: { code: 'unavailable', message: 'Later.' } } };
    }
    fails = after > 1;
    const found = story.entries
      .filter(each => each.seq > after)
      .slice(0, Number(asked.query.limit));
    const last = found.at(-1)?.seq ?? after;
    return { json: { entries: found, next: last + 1 < story.entries.length ? last : null } };
  };
  server.on('GET /conversations/{conversation}/entries', answer);
  const conversation = open();
  await until(() => conversation.model.turns.length > 0 && fails);
  await new Promise(resolve => setTimeout(resolve, 300));
  expect(conversation.whole).toBe(false);
  fails = false;
  await until(() => conversation.whole);
  expect(conversation.model.turns).toHaveLength(400);
});

test('a turn of a thousand entries is shown whole', async () => {
  story.said('do much');
  for (let n = 0; n < 600; n += 1) {
    story.called(`c${n}`, 'read_file', 'read').result(`c${n}`);
  }
  const conversation = open();
  await until(() => conversation.model.turns.length > 0);
  expect(conversation.model.turns[0]?.parts).toHaveLength(600);
  await until(() => conversation.whole);
});

test('what a person does is asked for, and refusals are told', async () => {
  story.said('One').answered('1').ended();
  const conversation = await live();
  const bodies: unknown[] = [];
  const taken = (status: number, json: unknown) => (asked: { body: unknown }) => {
    bodies.push(asked.body);
    return { status, json };
  };
  server.on('POST /conversations/{conversation}/say', taken(202, { turn: 2 }));
  server.on('POST /conversations/{conversation}/cancel', taken(202, { stopping: true }));
  server.on('POST /conversations/{conversation}/continue', taken(202, { turn: 1 }));
  server.on('POST /conversations/{conversation}/questions/{question}', asked => {
    bodies.push([asked.path.question, asked.body]);
    return { status: 204, bytes: '', type: 'application/json' };
  });
  await conversation.say('Two', [{ kind: 'cell', name: 'a' }]);
  await conversation.cancel();
  await conversation.goOn();
  await conversation.deny('q1', 'use the copy in data/');
  await conversation.answer('q2', 'churn');
  expect(bodies).toEqual([
    { text: 'Two', brought: [{ kind: 'cell', name: 'a' }] },
    undefined,
    undefined,
    ['q1', { decision: 'deny', reason: 'use the copy in data/' }],
    ['q2', { decision: 'churn', reason: null }]
  ]);
  server.on('POST /conversations/{conversation}/say', () => ({
    status: 409,
    json: { error: { code: 'turn-runs', message: 'A turn of this conversation runs.' } }
  }));
  expect((await refusal(conversation.say('Three'))).code).toBe('turn-runs');
});

test('going back to an earlier turn undoes those after it, one by one, then says the new words', async () => {
  story.said('One').answered('1').ended().said('Two').answered('2').ended();
  const conversation = await live();
  const done: string[] = [];
  server.on('POST /conversations/{conversation}/undo', asked => {
    const turn = done.length === 0 ? 2 : 1;
    done.push(`undo ${turn} ${JSON.stringify(asked.body)}`);
    story.add('undone', { turn, session: OTHER, at: 1, cells: [], kept: [], outside: [] });
    return { json: { turn, session: OTHER, at: 1, cells: [], kept: [], outside: [] } };
  });
  server.on('POST /conversations/{conversation}/say', asked => {
    done.push(`say ${String(asked.body.text)}`);
    return { status: 202, json: { turn: 3 } };
  });
  await conversation.resend(1, 'One, otherwise', true);
  expect(done).toEqual(['undo 2 {"fork":true}', 'undo 1 {"fork":true}', 'say One, otherwise']);
  expect(conversation.model.turns.every(turn => turn.undone !== null)).toBe(true);
});

test('a turn that was cut goes on by retrying it; one that was done is said again', async () => {
  story.said('One').answered('1').ended('cancelled');
  const conversation = await live();
  const done: string[] = [];
  server.on('POST /conversations/{conversation}/continue', () => {
    done.push('continue');
    return { status: 202, json: { turn: 1 } };
  });
  await conversation.retry();
  expect(done).toEqual(['continue']);
});

test('messages of a page are answered by their id, and fail with the line', async () => {
  const conversation = await live();
  const first = conversation.post({ type: 'notebook-open' });
  const second = conversation.post({ type: 'notebook-take' });
  await until(() => lines[0]!.heard.length === 2);
  const [one, two] = lines[0]!.heard;
  tell('refused', { id: two!['id'], error: { code: 'no-notebook', message: 'None.' } });
  tell('done', { id: one!['id'] });
  await first;
  expect((await refusal(second)).code).toBe('no-notebook');
  const third = refusal(conversation.post({ type: 'notebook-open' }));
  await until(() => lines[0]!.heard.length === 3);
  lines[0]!.socket.terminate();
  expect((await third).code).toBe('offline');
});

test('a turn that another program runs is looked after', async () => {
  story.said('From a terminal');
  const conversation = await live();
  expect(conversation.model.open).toBe(true);
  story.answered('Done there.').ended();
  await until(() => conversation.model.turns[0]?.ended === 'done');
});

test('what waits in a session is counted, in open conversations and others', async () => {
  server.on('GET /conversations', () => ({ json: { conversations: [info()] } }));
  const question = {
    id: 'q1',
    seq: 5,
    call: 'c1',
    text: 'May it?',
    options: ['once', 'deny'],
    approval: true,
    until: AT,
    decision: null,
    frame: null
  };
  server.on('GET /conversations/{conversation}', () => ({
    json: { ...info(), owner: 'alice', yours, running, ended: null, questions: [question] }
  }));
  expect(agent.waiting(SESSION)).toBe(0);
  await until(() => agent.waiting(SESSION) === 1);
  // Once it is open, its own entries say it.
  open();
  await until(() => agent.waiting(SESSION) === 0);
});

test('how many wait is as the newest answer says, in whatever order answers come', async () => {
  server.on('GET /conversations', () => ({ json: { conversations: [info()] } }));
  const answers: ((count: number) => void)[] = [];
  const question = { id: 'q1', seq: 5, call: 'c1', text: 'May it?', options: [], approval: true };
  server.on('GET /conversations/{conversation}', () => {
    return new Promise(resolve => {
      answers.push(count => {
        const questions = Array(count).fill({
          ...question,
          until: AT,
          decision: null,
          frame: null
        });
        resolve({
          json: { ...info(), owner: 'alice', yours, running, ended: null, questions }
        });
      });
    });
  });
  const heard: number[] = [];
  agent.waitingChanged.connect(() => heard.push(agent.waiting(SESSION)));
  agent.waiting(SESSION);
  await until(() => answers.length === 1);
  api.connection.lost();
  await api.connection.tryNow().catch(() => undefined);
  await until(() => answers.length === 2);
  answers[1]!(1);
  await until(() => agent.waiting(SESSION) === 1);
  answers[0]!(3);
  await new Promise(resolve => setTimeout(resolve, 200));
  expect(heard).toEqual([1]);
});

test('one object serves all that hold a conversation open, and its line goes with the last', async () => {
  const conversation = await live();
  const other = agent.open(ID);
  expect(other.conversation).toBe(conversation);
  expect(agent.opened).toEqual([conversation]);
  held.pop()!.dispose();
  expect(conversation.line.is).toBe('live');
  other.dispose();
  expect(conversation.line.is).toBe('closed');
  expect(agent.opened).toEqual([]);
});
