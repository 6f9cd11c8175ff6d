// What is filled in when, and by whom: the service alone, on a server and a notebook of the test's own.
// @vitest-environment node

import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { ApiError } from '../../src/api/tokens';
import { IMessage } from '../../src/outputs/canvas';
import { ICellNow, ICellStep, IMemory } from '../../src/outputs/memory';
import {
  ICell,
  ICellsTold,
  INotebookCells,
  IQuestion,
  IRequest,
  IShown,
  IShownServer
} from '../../src/outputs/contract';
import { Outputs } from '../../src/outputs/service';

/** A step of the log. */
interface Step extends ICellStep {
  texts: string[];
  late: string[];
  question: IQuestion | null;
}

class Log {
  steps: Step[] = [];
  batches = 0;
  painter: string | null = null;
  asked: string[] = [];
  answered: string[] = [];
  fails: ApiError | null = null;
  refuses: ApiError | null = null;

  constructor(readonly session = 's') {}

  add(cell: string, more: Partial<Step> = {}): Step {
    const seq = this.steps.length;
    const step: Step = {
      cell,
      seq,
      msg_id: `m${seq}`,
      client: 'gone',
      connected: false,
      actor: 'user',
      outcome: 'ok',
      execution_count: seq + 1,
      late_only: false,
      texts: [`of ${cell}`],
      late: [],
      question: null,
      ...more
    };
    this.batches += step.texts.length;
    this.steps.push(step);
    return step;
  }

  cells(_: string, has: IMemory | null): Promise<ICellsTold> {
    this._ask(`cells after ${has?.step ?? null}`);
    const newest = new Map<string, ICellStep>();
    for (const step of this.steps) {
      if (step.seq > (has?.step ?? -1)) {
        newest.delete(step.cell!);
        newest.set(step.cell!, step);
      } else if (step.late.length > 0 && has?.outputs !== this.batches) {
        newest.set(step.cell!, { ...step, late_only: true });
      }
    }
    return Promise.resolve({
      steps: this.steps.length,
      outputs: this.batches,
      own: '1',
      after: has?.step ?? null,
      cells: [...newest.values()]
    });
  }

  shown(_: string, seq: number, after: string | null): Promise<IShown> {
    this._ask(`shown ${seq}${after === null ? '' : ` after ${after}`}`);
    const step = this.steps[seq]!;
    const all = [...step.texts, ...step.late];
    const from = after === null ? 0 : after.startsWith('1.') ? step.texts.length : Number(after);
    return Promise.resolve({
      ...step,
      whole: after === null,
      messages: all.slice(from).map((text): IMessage => ['stream', { name: 'stdout', text }]),
      next: String(all.length),
      more: false,
      touched: [],
      question: step.question
    });
  }

  answer(_: string, request: string, value: string): Promise<void> {
    if (this.refuses !== null) {
      return Promise.reject(this.refuses);
    }
    this.answered.push(`${request}: ${value}`);
    return Promise.resolve();
  }

  painting(page: string): IShownServer['paint'] {
    return (_, paints) => {
      this._ask(paints ? 'claim' : 'release');
      if (!paints) {
        this.painter = this.painter === page ? null : this.painter;
        return Promise.resolve({ paints: false, seconds: 0 });
      }
      this.painter ??= page;
      return Promise.resolve({ paints: this.painter === page, seconds: 15 });
    };
  }

  for(page: string): IShownServer {
    return {
      cells: (...args) => this.cells(...args),
      shown: (...args) => this.shown(...args),
      answer: (...args) => this.answer(...args),
      paint: this.painting(page)
    };
  }

  private _ask(what: string): void {
    this.asked.push(what);
    if (this.fails !== null) {
      throw this.fails;
    }
  }
}

class Cell implements ICell {
  count: number | null = null;
  texts: string[] = [];
  running = false;
  question: IQuestion | null = null;
  answer: ((value: string) => Promise<boolean>) | null = null;

  get now(): ICellNow {
    return { count: this.count };
  }

  show(told: IShown, live: boolean): void {
    this.texts = told.messages.map(each => String(each[1].text));
    this.running = live;
    this.count = live ? null : told.execution_count;
  }

  add(told: IShown): void {
    this.texts.push(...told.messages.map(each => String(each[1].text)));
  }

  renew(): void {
    throw new Error('no displays here');
  }

  addLate(told: IShown, late: IShown): void {
    if (this.texts.length > 0) {
      this.show(told, false);
    } else {
      this.add(late);
    }
  }

  shows(told: IShown): boolean {
    const wanted = told.messages.map(each => String(each[1].text));
    return this.count === told.execution_count && this.texts.join() === wanted.join();
  }

  end(count: number | null): void {
    this.running = false;
    this.count = count;
  }

  ask(question: IQuestion | null, answered: (value: string) => Promise<boolean>): void {
    this.question = question;
    this.answer = question === null ? null : answered;
  }
}

class Notebook implements INotebookCells {
  shared = false;
  client = 'here';
  requests = new Map<string, IRequest>();
  memory: IMemory | null = null;
  cells = new Map<string, Cell>();
  dirty = false;

  constructor(...names: string[]) {
    names.forEach(name => this.cells.set(name, new Cell()));
  }

  cell(id: string): Cell | null {
    return this.cells.get(id) ?? null;
  }

  forget(request: string): void {
    this.requests.delete(request);
  }

  change(counts: boolean, work: () => void): void {
    work();
    this.dirty ||= counts;
  }
}

let log: Log;
let made: Outputs[];
let idle: boolean;
let said: unknown[];

beforeEach(() => {
  vi.useFakeTimers();
  log = new Log();
  made = [];
  idle = false;
  said = [];
});

afterEach(() => {
  made.forEach(each => {
    each.dispose();
  });
  vi.useRealTimers();
  expect(said).toEqual([]);
});

function page(notebook: Notebook, name = 'page'): Outputs {
  const found = new Outputs(
    () => log.session,
    notebook,
    log.for(name),
    () => idle,
    error => said.push(error)
  );
  made.push(found);
  return found;
}

async function pass(seconds = 1): Promise<void> {
  await vi.advanceTimersByTimeAsync(1_000 * seconds);
}

function memory(step: number, outputs = 0): IMemory {
  return { session: log.session, step, outputs };
}

test('what has ended is filled in, once, and remembered', async () => {
  const notebook = new Notebook('a', 'b', 'c');
  notebook.memory = memory(0, 1);
  log.add('a');
  log.add('b');
  log.add('gone');
  log.add('b', { texts: ['newer'] });
  const outputs = page(notebook);
  outputs.look();
  outputs.look();
  await pass();
  expect(notebook.cell('a')!.texts).toEqual([]);
  expect(notebook.cell('b')).toMatchObject({ texts: ['newer'], count: 4, running: false });
  expect(notebook.memory).toEqual(memory(3, 4));
  expect(notebook.dirty).toBe(true);
  expect(log.asked).toEqual(['cells after 0', 'claim', 'shown 3', 'release']);
  outputs.look();
  await pass();
  expect(log.asked.slice(4)).toEqual(['cells after 3']);
});

test('a notebook that misses nothing is not changed', async () => {
  const notebook = new Notebook('a');
  notebook.memory = memory(0, 1);
  log.add('a');
  log.add('nowhere');
  page(notebook).look();
  await pass();
  expect(notebook.memory).toEqual(memory(0, 1));
  expect(notebook.dirty).toBe(false);
});

test('a running step is shown so far, and goes on until its end', async () => {
  const notebook = new Notebook('a');
  const step = log.add('a', { outcome: null, execution_count: null });
  const outputs = page(notebook);
  outputs.look();
  await pass();
  expect(notebook.cell('a')).toMatchObject({ texts: ['of a'], running: true, count: null });
  expect(notebook.memory).toBeNull();
  step.texts.push('more');
  outputs.heard('m0');
  await pass();
  expect(notebook.cell('a')!.texts).toEqual(['of a', 'more']);
  step.texts.push('end');
  Object.assign(step, { outcome: 'error', execution_count: 5 });
  await pass(12); // nobody rings
  expect(notebook.cell('a')).toMatchObject({ texts: ['of a', 'more', 'end'], running: false });
  expect(notebook.cell('a')!.count).toBe(5);
  expect(notebook.memory?.step).toBe(0);
  expect(log.painter).toBeNull();
  expect(outputs.followed).toEqual([]);
});

test('a running step that asks is answered here, and asks no more when another has answered', async () => {
  const notebook = new Notebook('a');
  const step = log.add('a', { outcome: null, question: { prompt: 'Who? ', password: false } });
  page(notebook).look();
  await pass();
  expect(notebook.cell('a')!.question?.prompt).toBe('Who? ');
  expect(await notebook.cell('a')!.answer!('Ada')).toBe(true);
  expect(log.answered).toEqual(['m0: Ada']);
  // Another page was quicker.
  log.refuses = new ApiError(409, 'not-asked', 'This cell asks for nothing now.');
  step.question = { prompt: 'Again? ', password: false };
  await pass();
  expect(await notebook.cell('a')!.answer!('Bob')).toBe(false);
  log.refuses = null;
  step.question = { prompt: 'And? ', password: true };
  await pass();
  expect(notebook.cell('a')!.question).toEqual({ prompt: 'And? ', password: true });
  step.question = null;
  await pass(5);
  expect(notebook.cell('a')!.question).toBeNull();
});

test('a notebook that is saved while its first cell runs says up to where it shows the session', async () => {
  const notebook = new Notebook('a');
  const outputs = page(notebook);
  outputs.look();
  await pass();
  expect(notebook.memory).toBeNull();
  outputs.ran('a');
  expect(notebook.memory).toEqual(memory(-1));
});

test('what this page runs itself shows itself, unless its connection was lost', async () => {
  const notebook = new Notebook('a', 'b');
  notebook.memory = memory(-1);
  notebook.requests.set('m0', { cell: 'a', broken: false, ended: false });
  const first = log.add('a', { outcome: null });
  const outputs = page(notebook);
  outputs.look();
  await pass();
  expect(notebook.cell('a')!.texts).toEqual([]);
  // It ends, heard to the end: nothing is asked.
  const before = log.asked.length;
  first.outcome = 'ok';
  notebook.requests.set('m0', { cell: 'a', broken: false, ended: true });
  outputs.ended({ session: 's', step: 0, outputs: 1 });
  await pass();
  expect(notebook.memory).toEqual(memory(0, 1));
  expect(log.asked.length).toBe(before);
  // The next one loses its connection.
  notebook.requests.set('m1', { cell: 'b', broken: true, ended: false });
  log.add('b', { outcome: null });
  outputs.look();
  await pass();
  expect(notebook.cell('b')).toMatchObject({ texts: ['of b'], running: true });
  log.steps[1]!.outcome = 'ok';
  await pass(12);
  expect(notebook.cell('b')!.running).toBe(false);
  expect(notebook.requests.has('m1')).toBe(false);
});

test('steps of others between two of its own are looked up', async () => {
  const notebook = new Notebook('a', 'b');
  notebook.memory = memory(0, 1);
  log.add('a');
  log.add('b');
  log.add('a', { texts: ['again'] });
  notebook.requests.set('m2', { cell: 'a', broken: false, ended: true });
  const outputs = page(notebook);
  outputs.ended({ session: 's', step: 2, outputs: 3 });
  await pass();
  expect(notebook.cell('b')!.texts).toEqual(['of b']);
  expect(notebook.cell('a')!.texts).toEqual([]);
  expect(notebook.memory).toEqual(memory(2, 3));
});

test('messages of others without end are looked after now and then', async () => {
  const notebook = new Notebook('a');
  log.add('a', { actor: 'agent', outcome: null });
  const outputs = page(notebook);
  for (let n = 0; n < 300; n++) {
    outputs.heard('m0');
    await pass(0.1);
  }
  expect(log.asked.length).toBeGreaterThan(5);
  expect(log.asked.length).toBeLessThan(15);
});

test('a cell that is run again here is left alone', async () => {
  const notebook = new Notebook('a');
  const step = log.add('a', { outcome: null });
  const outputs = page(notebook);
  outputs.look();
  await pass();
  notebook.requests.set('new', { cell: 'a', broken: false, ended: false });
  outputs.ran('a');
  notebook.cell('a')!.texts = [];
  step.texts.push('more');
  step.outcome = 'ok';
  await pass(12);
  outputs.look();
  await pass(12);
  expect(notebook.cell('a')!.texts).toEqual([]);
});

test('of two pages of one document, one writes; the other follows when it is gone', async () => {
  const notebook = new Notebook('a');
  notebook.shared = true;
  const step = log.add('a', { outcome: null });
  const one = page(notebook, 'one');
  const two = page(notebook, 'two');
  one.look();
  await pass();
  two.look();
  await pass();
  expect(log.painter).toBe('one');
  expect(two.followed).toEqual([]);
  step.texts.push('more');
  await pass(12);
  expect(notebook.cell('a')!.texts).toEqual(['of a', 'more']);
  one.dispose(); // its word ends, or runs out
  step.texts.push('and more');
  await pass(12);
  expect(log.painter).toBe('two');
  expect(notebook.cell('a')!.texts).toEqual(['of a', 'more', 'and more']);
});

test('in a shared document a page that runs the cell writes it itself while it is there', async () => {
  const notebook = new Notebook('a');
  notebook.shared = true;
  const step = log.add('a', { outcome: null, client: 'there', connected: true });
  page(notebook).look();
  await pass(10);
  expect(notebook.cell('a')!.texts).toEqual([]);
  step.connected = false;
  await pass(10);
  expect(notebook.cell('a')).toMatchObject({ texts: ['of a'], running: true });
});

test('of two copies each shows it, and the one that saves is one', async () => {
  const mine = new Notebook('a');
  const other = new Notebook('a');
  log.add('a', { outcome: null });
  page(mine, 'one').look();
  await pass();
  page(other, 'two').look();
  await pass();
  expect(mine.cell('a')!.texts).toEqual(['of a']);
  expect(other.cell('a')!.texts).toEqual(['of a']);
  expect([mine.dirty, other.dirty]).toEqual([true, false]);
  expect(other.memory).toBeNull();
  // Nor does a copy save what the page that runs it saves.
  const third = new Notebook('b');
  log.add('b', { client: 'there', connected: true });
  log.painter = null;
  page(third, 'three').look();
  await pass();
  expect(third.cell('b')!.texts).toEqual(['of b']);
  expect(third.dirty).toBe(false);
});

test('what the agent runs is written by the agent, and only else filled in', async () => {
  const notebook = new Notebook('a', 'b');
  const step = log.add('a', { actor: 'agent', outcome: null });
  log.add('b', { actor: 'agent' });
  page(notebook).look();
  Object.assign(notebook.cell('b')!, { texts: ['of b'], count: 2 });
  await pass();
  expect(notebook.cell('a')!.texts).toEqual([]);
  step.outcome = 'ok';
  await pass(25);
  expect(notebook.cell('a')!.texts).toEqual(['of a']);
  expect(log.asked.filter(each => each.startsWith('shown')).length).toBe(2);
});

test('output after a step has ended is added, and nothing that was cleared comes back', async () => {
  const notebook = new Notebook('a', 'b');
  notebook.memory = memory(1, 2);
  log.add('a').late.push('later');
  log.add('b').late.push('later');
  log.batches += 2;
  notebook.cell('a')!.texts = ['of a'];
  page(notebook).look();
  await pass();
  expect(notebook.cell('a')!.texts).toEqual(['of a', 'later']);
  expect(notebook.cell('b')!.texts).toEqual(['later']);
  expect(notebook.memory).toEqual(memory(1, 4));
});

test('a request that was lost and became no step ends when the kernel does nothing', async () => {
  const notebook = new Notebook('a');
  notebook.requests.set('never', { cell: 'a', broken: true, ended: false });
  notebook.cell('a')!.running = true;
  page(notebook).look();
  await pass(30);
  expect(notebook.cell('a')!.running).toBe(true);
  idle = true;
  await pass(30);
  expect(notebook.cell('a')!.running).toBe(false);
  expect(notebook.requests.size).toBe(0);
});

test('a rewound notebook counts from the step that both share', async () => {
  const notebook = new Notebook('a');
  notebook.memory = memory(5, 9);
  const outputs = page(notebook);
  log = new Log('t');
  log.add('a');
  made.pop();
  const there = page(notebook);
  vi.spyOn(log, 'cells').mockResolvedValue({ steps: 1, outputs: 1, own: '2', after: 0, cells: [] });
  there.look();
  await pass();
  expect(notebook.memory).toEqual({ session: 's', step: 5, outputs: 9 });
  // The next run of its own follows on what is shared.
  there.ended({ session: 't', step: 1, outputs: 2 });
  expect(notebook.memory).toEqual({ session: 't', step: 1, outputs: 2 });
  outputs.dispose();
});

test('without a connection nothing is lost, and nobody is bothered', async () => {
  const notebook = new Notebook('a');
  const step = log.add('a', { outcome: null });
  const outputs = page(notebook);
  outputs.look();
  await pass();
  log.fails = new ApiError(0, 'offline', 'The server does not answer.');
  await pass(20);
  expect(outputs.followed).toEqual([]);
  expect(notebook.cell('a')!.running).toBe(true);
  log.fails = null;
  step.texts.push('meanwhile');
  step.outcome = 'ok';
  outputs.look(); // as it does when the line stands again
  await pass(12);
  expect(notebook.cell('a')).toMatchObject({ texts: ['of a', 'meanwhile'], running: false });
});

test('a busy server is asked again when it says', async () => {
  const notebook = new Notebook('a');
  log.add('a');
  log.fails = new ApiError(429, 'too-many', 'Too many requests.', null, 7);
  page(notebook).look();
  await pass(3);
  expect(log.asked.length).toBe(1);
  log.fails = null;
  await pass(8);
  expect(notebook.cell('a')!.texts).toEqual(['of a']);
  expect(said.splice(0).length).toBe(1);
});
