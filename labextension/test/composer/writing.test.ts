// Nothing that was written is lost: sent once, queued in order, back in the input where it failed.

import { Signal } from '@lumino/signaling';
import { beforeEach, describe, expect, it } from 'vitest';

import { Drafts } from '../../src/composer/drafts';
import type { IItem } from '../../src/composer/message';
import type {
  ComposerAct,
  ComposerState,
  IComposerHost,
  IEntry,
  IMessage
} from '../../src/composer/tokens';
import { Writing } from '../../src/composer/writing';

class FakeHost implements IComposerHost {
  key = 'c1';
  state: ComposerState = 'ready';
  known = true;
  why = '';
  ended: string | null = null;
  conversation: string | null = 'c1';
  session = null;
  path = null;
  entries: readonly IEntry[] = [];
  isDisposed = false;
  sent: IMessage[] = [];
  stopped = 0;
  fails: Error | null = null;
  readonly changed = new Signal<this, void>(this);
  readonly disposed = new Signal<this, void>(this);
  readonly acts = new Map<ComposerAct, () => Promise<void>>();

  send(message: IMessage): Promise<void> {
    if (this.fails !== null) {
      return Promise.reject(this.fails);
    }
    this.sent.push(message);
    this.state = 'running';
    this.ended = null;
    this.changed.emit();
    return Promise.resolve();
  }

  stop(): Promise<void> {
    this.stopped += 1;
    return Promise.resolve();
  }

  ends(ended: string): void {
    this.state = 'ready';
    this.ended = ended;
    this.changed.emit();
  }

  dispose(): void {
    this.isDisposed = true;
  }

  get texts(): string[] {
    return this.sent.map(each => each.text);
  }
}

const CELL: IItem = { kind: 'cell', name: 'a', title: 'cell 1', content: 'a = 1', more: '' };
const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

function drafts(): Drafts {
  return new Drafts(localStorage, sessionStorage, 'base');
}

beforeEach(() => {
  localStorage.clear();
  sessionStorage.clear();
});

describe('a message', () => {
  it('is sent with what it brings, and the input is empty', async () => {
    const host = new FakeHost();
    const writing = new Writing(host, drafts());
    expect(await writing.submit()).toBe('nothing');
    writing.write('Why?');
    writing.bring(CELL);
    writing.bring({ ...CELL, content: 'a = 2' });
    expect(await writing.submit()).toBe('sent');
    expect(host.sent[0]?.brought).toEqual([{ kind: 'cell', name: 'a' }]);
    expect(host.texts[0]).toContain('| a = 2');
    expect([writing.words, writing.items, writing.queue]).toEqual(['', [], []]);
  });

  it('brings things as they are when it is sent', async () => {
    const host = new FakeHost();
    const writing = new Writing(host, drafts(), item =>
      Promise.resolve(item.name === 'gone' ? null : { ...item, content: 'fresh' })
    );
    writing.bring(CELL);
    writing.bring({ ...CELL, name: 'gone' });
    await writing.submit();
    expect(host.sent[0]?.brought).toEqual([{ kind: 'cell', name: 'a' }]);
    expect(host.texts[0]).toContain('| fresh');
  });

  it('waits for the end of a turn, in order, and is sent once', async () => {
    const host = new FakeHost();
    const writing = new Writing(host, drafts());
    host.state = 'running';
    for (const words of ['one', 'two']) {
      writing.write(words);
      expect(await writing.submit()).toBe('queued');
    }
    expect(host.sent).toEqual([]);
    host.ends('done');
    host.changed.emit();
    await settled();
    expect(host.texts).toEqual(['one']);
    host.ends('done');
    await settled();
    expect(host.texts).toEqual(['one', 'two']);
    expect(writing.queue).toEqual([]);
  });

  it('is held where the turn was stopped, until somebody sends or takes it', async () => {
    const host = new FakeHost();
    const writing = new Writing(host, drafts());
    host.state = 'running';
    writing.write('next');
    await writing.submit();
    writing.write('after');
    await writing.submit();
    host.ends('cancelled');
    await settled();
    expect(host.sent).toEqual([]);
    expect(writing.held).toBe(true);
    writing.unqueue(1, true);
    expect(writing.words).toBe('after');
    await writing.sendNow();
    expect(host.texts).toEqual(['next']);
    expect(writing.held).toBe(false);
  });

  it('is stopped as soon as it can be, where Stop was pressed before it was begun', async () => {
    const host = new FakeHost();
    host.conversation = null;
    const writing = new Writing(host, drafts());
    writing.write('words');
    await writing.submit();
    await writing.stop();
    expect(host.stopped).toBe(0);
    host.conversation = 'c1';
    host.changed.emit();
    host.changed.emit();
    expect(host.stopped).toBe(1);
  });

  it('is back in the input where it was not taken, before what was written since', async () => {
    const host = new FakeHost();
    const writing = new Writing(host, drafts());
    host.fails = new Error('No model key on the server.');
    writing.write('first');
    writing.bring(CELL);
    const sent = writing.submit();
    writing.write('second');
    expect(await sent).toBe('refused');
    expect(writing.words).toBe('first\nsecond');
    expect(writing.items).toEqual([CELL]);
    expect(writing.error).toBe(host.fails);
    writing.write('first');
    expect(writing.error).toBeNull();
  });
});

describe('nothing is lost on the way', () => {
  it('keeps what is queued while a message is sent that is not taken', async () => {
    const host = new FakeHost();
    const writing = new Writing(host, drafts());
    host.fails = new Error('No model key on the server.');
    writing.write('first');
    const sent = writing.submit();
    writing.write('second');
    expect(await writing.submit()).toBe('queued');
    expect(await sent).toBe('refused');
    expect(writing.words).toBe('first');
    expect(writing.queue.map(each => each.words)).toEqual(['second']);
  });

  it('sends nothing from an earlier page before it is known how the conversation stands', async () => {
    const before = new FakeHost();
    before.state = 'running';
    const writing = new Writing(before, drafts());
    writing.write('queued');
    await writing.submit();
    const host = new FakeHost();
    host.known = false;
    const again = new Writing(host, drafts());
    host.changed.emit();
    await settled();
    expect(host.texts).toEqual([]);
    host.known = true;
    host.ends('failed');
    await settled();
    expect(host.texts).toEqual([]);
    expect(again.held).toBe(true);
  });

  it('waits with a message for what it brings, and sends it once', async () => {
    const host = new FakeHost();
    const writing = new Writing(host, drafts());
    writing.write('Why is df empty?');
    let come!: (item: IItem) => void;
    const fetched = writing.fetch(new Promise(resolve => (come = resolve)));
    const sent = writing.submit();
    expect(await writing.submit()).toBe('refused');
    await settled();
    expect(host.texts).toEqual([]);
    come({ ...CELL, kind: 'variable', name: 'df' });
    await fetched;
    expect(await sent).toBe('sent');
    expect(host.sent).toHaveLength(1);
    expect(host.sent[0]?.brought).toEqual([{ kind: 'variable', name: 'df' }]);
  });

  it('stays in the input where what it brings does not come, or where somebody writes on', async () => {
    const host = new FakeHost();
    const writing = new Writing(host, drafts());
    writing.write('words');
    void writing.fetch(Promise.reject(new Error('The kernel is busy.')));
    expect(await writing.submit()).toBe('refused');
    expect([writing.words, String(writing.error)]).toEqual(['words', 'Error: The kernel is busy.']);
    void writing.fetch(Promise.resolve(CELL));
    const sent = writing.submit();
    writing.write('words, and more');
    expect(await sent).toBe('refused');
    expect(host.sent).toEqual([]);
  });
});

describe('commands', () => {
  it('do what can be done now, and send nothing', async () => {
    const host = new FakeHost();
    const writing = new Writing(host, drafts());
    let undone = 0;
    host.acts.set('undo', () => {
      undone += 1;
      return Promise.resolve();
    });
    writing.write('/undo');
    expect(await writing.submit()).toBe('did');
    writing.write('/continue');
    expect(await writing.submit()).toBe('refused');
    expect(String(writing.error)).toContain('nothing to /continue');
    expect(writing.words).toBe('/continue');
    expect([undone, host.sent]).toEqual([1, []]);
  });

  it('run a skill by words that the chat shows', async () => {
    const host = new FakeHost();
    const writing = new Writing(host, drafts());
    writing.write('/skill');
    expect(await writing.submit()).toBe('refused');
    writing.write('/skill profile-data on a.csv');
    expect(await writing.submit()).toBe('sent');
    expect(host.texts[0]).toMatch(/^Use the skill profile-data: on a.csv\n/);
    expect(host.sent[0]?.brought).toEqual([{ kind: 'skill', name: 'profile-data' }]);
  });
});

describe('drafts', () => {
  it('are there after the page was loaded anew, each with its conversation', () => {
    const writing = new Writing(new FakeHost(), drafts());
    writing.write('half a thou');
    writing.bring(CELL);
    const other = new FakeHost();
    other.key = 'c2';
    expect(new Writing(other, drafts()).words).toBe('');
    const again = new Writing(new FakeHost(), drafts());
    expect([again.words, again.items]).toEqual(['half a thou', [CELL]]);
  });

  it('keep the queue for this tab alone: two would send it twice', async () => {
    const host = new FakeHost();
    const writing = new Writing(host, drafts());
    host.state = 'running';
    writing.write('queued');
    await writing.submit();
    expect(new Drafts(localStorage, null, 'base').get('c1').queue).toEqual([]);
    expect(
      drafts()
        .get('c1')
        .queue.map(each => each.words)
    ).toEqual(['queued']);
  });

  it('go with a conversation that is begun', () => {
    const host = new FakeHost();
    host.key = 'new:a.ipynb';
    const writing = new Writing(host, drafts());
    writing.write('words');
    host.key = 'c9';
    host.changed.emit();
    expect(drafts().get('new:a.ipynb').words).toBe('');
    expect(drafts().get('c9').words).toBe('words');
    expect(writing.words).toBe('words');
  });

  it('are as many as are of use, and none breaks the page', () => {
    const store = drafts();
    for (let number = 0; number < 70; number += 1) {
      store.set(`c${number}`, { words: `w${number}`, items: [], queue: [] });
    }
    expect(drafts().get('c0').words).toBe('');
    expect(drafts().get('c69').words).toBe('w69');
    localStorage.setItem('reprise:draft:base:bad', '{"words": 7, "items": [null, {"kind": "x"}]}');
    expect(drafts().get('bad')).toEqual({ words: '', items: [], queue: [] });
    localStorage.setItem('reprise:draft:base:worse', '[');
    expect(drafts().get('worse').words).toBe('');
    const broken = {
      getItem: () => {
        throw new Error('denied');
      },
      setItem: () => {
        throw new Error('full');
      },
      removeItem: () => undefined
    } as unknown as Storage;
    const page = new Drafts(broken, broken, 'base');
    page.set('c', { words: 'kept here', items: [], queue: [] });
    expect(page.get('c').words).toBe('kept here');
  });
});
