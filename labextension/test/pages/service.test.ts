// Each conversation of an open notebook is answered by that notebook, on every line it gets.

import { Signal } from '@lumino/signaling';
import { describe, expect, it } from 'vitest';

import type { ConversationInfo, IAgent, IConversation, IHeld } from '../../src/agent/tokens';
import { bare, IOpenNotebook, Pages } from '../../src/pages/service';

type Sent = { readonly type: string } & Readonly<Record<string, unknown>>;

class FakeConversation {
  sent: Sent[] = [];
  refuses: string | null = null;
  yours = true;
  running = false;
  line = { is: 'live' };
  readonly changed = new Signal<this, void>(this);
  readonly told = new Signal<this, Sent>(this);
  readonly model = { notebook: null };

  constructor(
    readonly id: string,
    public info: { notebook: string | null } | null
  ) {}

  post(message: Sent): Promise<void> {
    if (message.type === this.refuses) {
      return Promise.reject(new Error('refused'));
    }
    this.sent.push(message);
    return Promise.resolve();
  }

  is(line: string): void {
    this.line = { is: line };
    this.changed.emit();
  }

  types(): string[] {
    return this.sent.map(each => each.type);
  }
}

class FakeAgent {
  readonly opened: FakeConversation[] = [];
  readonly openedChanged = new Signal<this, void>(this);
  readonly listChanged = new Signal<this, void>(this);
  listed: Partial<ConversationInfo>[] = [];
  known = new Map<string, FakeConversation>();

  list(asked: { notebook?: string }): Promise<Partial<ConversationInfo>[]> {
    const found = this.listed.filter(
      each => asked.notebook === undefined || each.notebook === asked.notebook
    );
    return Promise.resolve(found);
  }

  open(id: string): IHeld {
    const conversation = this.known.get(id);
    if (conversation === undefined) {
      throw new Error(`nobody knows ${id}`);
    }
    if (!this.opened.includes(conversation)) {
      this.opened.push(conversation);
      this.openedChanged.emit();
    }
    return {
      conversation: conversation as unknown as IConversation,
      isDisposed: false,
      dispose: () => {
        this.opened.splice(this.opened.indexOf(conversation), 1);
        this.openedChanged.emit();
      }
    };
  }

  add(id: string, notebook: string | null): FakeConversation {
    const made = new FakeConversation(id, { notebook });
    this.known.set(id, made);
    this.opened.push(made);
    this.openedChanged.emit();
    return made;
  }
}

class FakeNotebook implements IOpenNotebook {
  collaborative = false;
  model: IOpenNotebook['model'] = null;
  readonly changed = new Signal<this, void>(this);
  readonly disposed = new Signal<this, void>(this);

  constructor(public path: string) {}

  load(): void {
    this.model = { readOnly: true } as IOpenNotebook['model'];
    this.changed.emit();
  }
}

function made(): { agent: FakeAgent; pages: Pages; began: Signal<object, string> } {
  const agent = new FakeAgent();
  const began = new Signal<object, string>({});
  const pages = new Pages(agent as unknown as IAgent, { began });
  return { agent, pages, began };
}

const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

describe('the pages', () => {
  it('say that a notebook is open when it is loaded and the line stands, once', () => {
    const { agent, pages } = made();
    const conversation = agent.add('c', 'a/n.ipynb');
    conversation.line = { is: 'opening' };
    const notebook = new FakeNotebook('a/n.ipynb');
    pages.open(notebook);
    expect(conversation.types()).toEqual([]);
    notebook.load();
    expect(conversation.types()).toEqual([]);
    conversation.is('live');
    conversation.is('live');
    expect(conversation.types()).toEqual(['notebook-open']);
    expect(agent.add('other', 'b.ipynb').types()).toEqual([]);
  });

  it('say it again on a new line, where nobody knows it', () => {
    const { agent, pages } = made();
    const conversation = agent.add('c', 'n.ipynb');
    const notebook = new FakeNotebook('n.ipynb');
    pages.open(notebook);
    notebook.load();
    conversation.told.emit({ type: 'lease', holds: true });
    expect(pages.lease('n.ipynb')).toBe('here');
    conversation.is('offline');
    expect(pages.lease('n.ipynb')).toBe('none');
    conversation.is('live');
    expect(conversation.types()).toEqual(['notebook-open', 'notebook-open']);
  });

  it('answer each request once, in words where they cannot', () => {
    const { agent, pages } = made();
    const conversation = agent.add('c', 'n.ipynb');
    const notebook = new FakeNotebook('n.ipynb');
    const open = pages.open(notebook);
    notebook.load();
    conversation.told.emit({
      type: 'notebook',
      request: 7,
      asks: { do: 'apply', changes: [] }
    });
    expect(conversation.sent[1]).toEqual({
      type: 'notebook-answer',
      request: 7,
      answer: { error: 'The notebook is open read-only in this page.' }
    });
    open.dispose();
    conversation.told.emit({ type: 'notebook', request: 8, asks: { do: 'read' } });
    expect(conversation.types()).toEqual([
      'notebook-open',
      'notebook-answer',
      'notebook-closed',
      'notebook-answer'
    ]);
    expect(conversation.sent[3]?.['answer']).toEqual({
      error: 'The notebook was closed in this page.'
    });
  });

  it('know where edits go, and take them', async () => {
    const { agent, pages } = made();
    const changes: string[] = [];
    pages.changed.connect((_, path) => changes.push(path));
    const conversation = agent.add('c', 'n.ipynb');
    const notebook = new FakeNotebook('n.ipynb');
    pages.open(notebook);
    notebook.load();
    expect(pages.lease('n.ipynb')).toBe('none');
    conversation.told.emit({ type: 'lease', holds: false });
    expect(pages.lease('/n.ipynb')).toBe('elsewhere');
    await pages.take('n.ipynb');
    expect(conversation.types()).toEqual(['notebook-open', 'notebook-take']);
    conversation.told.emit({ type: 'lease', holds: true });
    expect(pages.lease('n.ipynb')).toBe('here');
    await expect(pages.take('n.ipynb')).rejects.toThrow('nothing edits it');
    notebook.collaborative = true;
    expect(pages.lease('n.ipynb')).toBe('room');
    expect(new Set(changes)).toEqual(new Set(['n.ipynb']));
  });

  it('stay with a notebook that is renamed', () => {
    const { agent, pages } = made();
    const conversation = agent.add('c', 'n.ipynb');
    const notebook = new FakeNotebook('n.ipynb');
    pages.open(notebook);
    notebook.load();
    notebook.path = 'renamed.ipynb';
    notebook.changed.emit();
    expect(conversation.types()).toEqual(['notebook-open']);
    conversation.told.emit({ type: 'lease', holds: true });
    expect(pages.lease('renamed.ipynb')).toBe('here');
  });

  it('hold the newest conversation of a notebook open, and those in which a turn begins', async () => {
    const { agent, pages, began } = made();
    const held: FakeConversation[] = [];
    for (const id of ['old', 'new', 'later']) {
      const each = agent.add(id, 'n.ipynb');
      held.push(each);
    }
    agent.opened.length = 0;
    agent.openedChanged.emit();
    agent.listed = [
      { id: 'old', notebook: 'n.ipynb', last_at: '2026-01-01T00:00:00Z' },
      { id: 'new', notebook: 'n.ipynb', last_at: '2026-01-02T00:00:00Z' },
      { id: 'x', notebook: 'other.ipynb', last_at: '2026-01-03T00:00:00Z' }
    ];
    const notebook = new FakeNotebook('n.ipynb');
    notebook.load();
    const open = pages.open(notebook);
    await settled();
    expect(agent.opened.map(each => each.id)).toEqual(['new']);
    agent.listed.push({ id: 'later', notebook: 'RTC:n.ipynb', last_at: '2026-01-01T00:00:00Z' });
    began.emit('later');
    began.emit('x');
    await settled();
    expect(agent.opened.map(each => each.id)).toEqual(['new', 'later']);
    expect(held[2]?.types()).toEqual(['notebook-open']);
    open.dispose();
    expect(agent.opened).toEqual([]);
    expect(held[1]?.types()).toEqual(['notebook-open', 'notebook-closed']);
  });

  it('hold no more lines open than are of use, and never let go of a turn', async () => {
    const { agent, pages } = made();
    pages.open(new FakeNotebook('a.ipynb'));
    await settled();
    const all = Array.from({ length: 7 }, (_, n) => {
      const conversation = new FakeConversation(`c${n}`, { notebook: 'a.ipynb' });
      agent.known.set(conversation.id, conversation);
      return conversation;
    });
    all[0]!.running = true;
    for (const { id } of all) {
      agent.listed = [{ id, notebook: 'a.ipynb', last_at: id }];
      agent.listChanged.emit();
      await settled();
    }
    expect(agent.opened.map(each => each.id)).toEqual(['c0', 'c3', 'c4', 'c5', 'c6']);
  });

  it('do nothing for a conversation of somebody else', () => {
    const { agent, pages } = made();
    const conversation = agent.add('c', 'n.ipynb');
    conversation.yours = false;
    const notebook = new FakeNotebook('n.ipynb');
    pages.open(notebook);
    notebook.load();
    expect(conversation.types()).toEqual([]);
  });

  it('try again on the next change where the server took no notice', async () => {
    const { agent, pages } = made();
    const conversation = agent.add('c', 'n.ipynb');
    conversation.refuses = 'notebook-open';
    const notebook = new FakeNotebook('n.ipynb');
    pages.open(notebook);
    notebook.load();
    await settled();
    conversation.refuses = null;
    conversation.changed.emit();
    expect(conversation.types()).toEqual(['notebook-open']);
  });
});

describe('a path', () => {
  it('is named without its drive', () => {
    expect(['RTC:a/n.ipynb', '/a/n.ipynb', 'a/n.ipynb', 'other:n.ipynb'].map(bare)).toEqual([
      'a/n.ipynb',
      'a/n.ipynb',
      'a/n.ipynb',
      'other:n.ipynb'
    ]);
  });
});
