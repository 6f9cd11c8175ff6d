// A notebook's session follows its kernel: asked, restarted, rewound, silent, away and back.

import { Signal } from '@lumino/signaling';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { IServerSays, NotebookSession } from '../../src/sessions/session';

const SESSION = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0001';
const OTHER = '0e3a1c9e-3a2f-4c67-9c5a-0d7f6b1f0002';

/** What of a kernel connection and a session context is used, with answers as the test sets them. */
class FakeContext {
  answer: Record<string, unknown> | null = { session: SESSION, state: 'ready', steps: 3 };
  asked: { type: string; content: unknown }[] = [];
  readonly kernelChanged = new Signal<this, unknown>(this);
  readonly statusChanged = new Signal<this, string>(this);
  readonly connectionStatusChanged = new Signal<this, string>(this);
  readonly iopubMessage = new Signal<this, unknown>(this);
  readonly propertyChanged = new Signal<this, string>(this);
  path = 'a.ipynb';
  restarted = 0;

  readonly kernel = {
    id: 'kernel-1',
    name: 'reprise',
    username: '',
    clientId: 'page',
    status: 'idle',
    connectionStatus: 'connected',
    isDisposed: false,
    disposed: new Signal<object, void>({}),
    sendControlMessage: (message: { header: { msg_type: string }; content: unknown }) => {
      this.asked.push({ type: message.header.msg_type, content: message.content });
      const future: {
        onReply: (reply: unknown) => void;
        dispose: () => void;
        done: Promise<void>;
      } = {
        onReply: () => undefined,
        dispose: () => undefined,
        done: new Promise(() => undefined)
      };
      const { answer } = this;
      if (answer !== null) {
        queueMicrotask(() => future.onReply({ content: { status: 'ok', ...answer } }));
      }
      return future;
    }
  };

  session: { kernel: FakeContext['kernel'] | null } | null = { kernel: this.kernel };

  restartKernel(): Promise<void> {
    this.restarted += 1;
    return Promise.resolve();
  }

  says(kind: string, content: object, parent = 'execute_request'): void {
    this.iopubMessage.emit({
      header: { msg_type: kind },
      parent_header: { msg_type: parent },
      content
    });
  }
}

class FakeServer implements IServerSays {
  kernels: Record<string, string> = {};
  sessionOfKernel = (kernel: string): Promise<string | null> =>
    Promise.resolve(this.kernels[kernel] ?? null);
  status = (): Promise<null> => Promise.resolve(null);
  notices = (): Promise<never[]> => Promise.resolve([]);
}

let context: FakeContext;
let server: FakeServer;
let session: NotebookSession;

function begin(): NotebookSession {
  session = new NotebookSession({ panel: {} as never, context: context as never }, server);
  return session;
}

beforeEach(() => {
  vi.useFakeTimers();
  context = new FakeContext();
  server = new FakeServer();
});

afterEach(() => {
  session.dispose();
  vi.useRealTimers();
});

test('it asks its kernel, and says what it has heard', async () => {
  const attached = vi.fn();
  begin().attached.connect(attached);
  expect(session.status.state).toBe('unknown');
  await vi.advanceTimersByTimeAsync(50);
  expect([session.id, session.status.state, session.status.steps]).toEqual([SESSION, 'ready', 3]);
  expect(attached).toHaveBeenCalledWith(session, { before: null, session: SESSION });
});

test('steps of a frame are one signal, and the kernel is not asked for each of them', async () => {
  begin();
  await vi.advanceTimersByTimeAsync(1_000);
  const stepped = vi.fn();
  session.stepped.connect(stepped);
  context.asked = [];
  for (let step = 0; step < 100; step += 1) {
    context.says('status', { execution_state: 'busy' });
    context.says('status', { execution_state: 'idle' });
  }
  await vi.advanceTimersByTimeAsync(20);
  expect(stepped).toHaveBeenCalledTimes(1);
  expect(stepped.mock.calls[0]?.[1]).toMatchObject({ session: SESSION, ended: true });
  await vi.advanceTimersByTimeAsync(2_000);
  expect(context.asked.length).toBeLessThanOrEqual(2);
});

test('a rewind changes the session under a living kernel', async () => {
  begin();
  await vi.advanceTimersByTimeAsync(50);
  const attached = vi.fn();
  session.attached.connect(attached);
  context.answer = { session: OTHER, state: 'ready', steps: 2 };
  context.says('reprise_attached', { session: OTHER }, '');
  await vi.advanceTimersByTimeAsync(50);
  expect(attached).toHaveBeenCalledWith(session, { before: SESSION, session: OTHER });
  expect(session.id).toBe(OTHER);
});

test('a kernel that says nothing is looked up at the server, and asked again', async () => {
  context.answer = null;
  server.kernels['kernel-1'] = SESSION;
  begin();
  await vi.advanceTimersByTimeAsync(10_100);
  expect(session.id).toBe(SESSION);
  context.answer = { session: SESSION, state: 'ready', steps: 3 };
  await vi.advanceTimersByTimeAsync(20_000);
  expect(session.status.state).toBe('ready');
});

test('what was said while the line was down is asked after, and told as steps', async () => {
  begin();
  await vi.advanceTimersByTimeAsync(50);
  const stepped = vi.fn();
  session.stepped.connect(stepped);
  context.answer = { session: SESSION, state: 'ready', steps: 9 };
  context.connectionStatusChanged.emit('connected');
  await vi.advanceTimersByTimeAsync(100);
  expect(session.status.steps).toBe(9);
  expect(stepped.mock.lastCall?.[1]).toMatchObject({ ended: true, steps: 9 });
});

test('a kernel that is gone is an ended session, and a new one begins anew', async () => {
  begin();
  await vi.advanceTimersByTimeAsync(50);
  context.session = null;
  context.kernelChanged.emit({});
  expect(session.status.state).toBe('ended');
  await expect(session.startNow()).rejects.toThrow('There is no kernel. Nothing was done.');
  context.session = { kernel: { ...context.kernel, id: 'kernel-2' } };
  context.kernelChanged.emit({});
  await vi.advanceTimersByTimeAsync(50);
  expect([session.kernel, session.status.state]).toEqual(['kernel-2', 'ready']);
});

test('coming back is begun and stopped by requests of its own, never by an interrupt', async () => {
  begin();
  await vi.advanceTimersByTimeAsync(50);
  context.asked = [];
  await session.cancelResume();
  await session.startNow();
  expect(context.asked.filter(each => each.type === 'resume_request')).toEqual([
    { type: 'resume_request', content: { op: 'cancel' } },
    { type: 'resume_request', content: { op: 'start' } }
  ]);
});

test('disposed, it hears and says nothing', async () => {
  begin();
  await vi.advanceTimersByTimeAsync(50);
  const changed = vi.fn();
  session.statusChanged.connect(changed);
  session.dispose();
  context.says('reprise_status', { session: OTHER, state: 'failed' }, '');
  context.connectionStatusChanged.emit('connected');
  await vi.advanceTimersByTimeAsync(20_000);
  expect(changed).not.toHaveBeenCalled();
  expect(session.id).toBe(SESSION);
});
