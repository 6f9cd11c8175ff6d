/** The Timeline shows what was asked for, and nothing that comes by itself takes its place. */

import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { SafeRendering } from '../../src/parts/rendering';
import type { IAttached } from '../../src/sessions/tokens';
import { KnownSessions } from '../../src/timeline/known';
import { TimelinePanel } from '../../src/timeline/panel';
import { Timeline } from '../../src/timeline/service';
import { TimelineState } from '../../src/timeline/state';
import { Session } from './memory';

class Notebook {
  constructor(public id: string | null) {}
  readonly path = 'churn.ipynb';
  readonly attached = new Signal<this, IAttached>(this);
  readonly statusChanged = new Signal<this, void>(this);
  readonly stepped = new Signal<this, unknown>(this);

  /** The kernel says that it is at a session now. */
  learn(session: string): void {
    const before = this.id;
    this.id = session;
    this.attached.emit({ before, session });
  }
}

class Notebooks {
  constructor(readonly all: Notebook[]) {}
  readonly currentChanged = new Signal<this, unknown>(this);
  readonly changed = new Signal<this, unknown>(this);
  get current(): Notebook | undefined {
    return this.all[0];
  }
  each(act: (notebook: Notebook) => unknown): void {
    this.all.forEach(act);
  }
}

let answers: Record<string, object>;
let session: Session;
let notebooks: Notebooks;
let timeline: Timeline;
let known: KnownSessions;
let state: TimelineState;
let panel: TimelinePanel;

beforeEach(async () => {
  answers = {};
  session = new Session();
  session.append(20);
  notebooks = new Notebooks([new Notebook('a'), new Notebook('b')]);
  timeline = new Timeline(session);
  const api = {
    connection: { line: { state: 'online' }, changed: new Signal({}) },
    get: (path: string) =>
      path in answers ? Promise.resolve(answers[path]) : new Promise(() => undefined)
  };
  known = new KnownSessions(api as never);
  state = new TimelineState(timeline, known, notebooks as never);
  panel = new TimelinePanel({
    api: api as never,
    commands: new CommandRegistry(),
    rendering: new SafeRendering(
      new RenderMimeRegistry({ initialFactories: standardRendererFactories })
    ),
    state,
    translator: nullTranslator
  });
  Widget.attach(panel, document.body);
  await settled();
});

afterEach(() => {
  panel.dispose();
  state.history?.dispose();
});

function settled(): Promise<void> {
  return new Promise(done => setTimeout(done, 60));
}

async function press(seq: number): Promise<void> {
  const row = [...panel.grid.node.querySelectorAll('[role=row]')].find(
    each => each.querySelector('.jp-Reprise-Timeline-seq')?.textContent === String(seq)
  );
  row?.dispatchEvent(new MouseEvent('mousedown', { bubbles: true }));
  await settled();
}

describe('the detail of a step', () => {
  it('that was closed stays closed when there is news, and opens when it is pressed again', async () => {
    await press(15);
    expect(state.step?.seq).toBe(15);
    const close = panel.node.querySelector<HTMLElement>('[aria-label="Close this step"]');
    close?.click();
    expect(state.step).toBeNull();
    session.append(1);
    timeline.poke('a');
    await settled();
    expect(panel.grid.history?.found).toBe(21);
    expect(state.step).toBeNull();
    await press(15);
    expect(state.step?.seq).toBe(15);
  });

  it('is of a step that has just been made', async () => {
    session.append(1);
    await panel.reveal(20);
    expect(state.step?.seq).toBe(20);
  });

  it('has what the router published, and never the original that the record has', async () => {
    answers['/sessions/{session}/network'] = { network: [] };
    answers['/sessions/{session}/steps/{seq}'] = {
      ...session.steps[15],
      payload: { content: { code: 'show()' } },
      environment: 'e',
      digest: 'd',
      chain: null,
      outputs: [['display_data', { data: { 'text/html': '<b>the original</b>' } }, {}, []]],
      outputs_left_out: [],
      outputs_next: null,
      late_outputs: [],
      late_outputs_next: null
    };
    answers['/sessions/{session}/steps/{seq}/shown'] = {
      messages: [['display_data', { data: { 'text/plain': 'held back: JavaScript' } }]],
      left_out: { outputs: 1, bytes: 9_000_000 }
    };
    await press(15);
    const detail = (): string => panel.node.querySelector('article')?.textContent ?? '';
    await expect.poll(detail).toContain('held back: JavaScript');
    expect(detail()).toContain('9.0 MB of it is too large to show here.');
    expect(detail()).not.toContain('the original');
  });

  it('is of no session that was left while it was asked for', async () => {
    session.append(1000);
    await state.history?.refresh();
    session.held = [];
    const revealed = panel.reveal(300);
    state.open('b');
    const held = session.held;
    session.held = null;
    held.forEach(go => go());
    await revealed;
    await settled();
    expect(state.session).toBe('b');
    expect(state.step).toBeNull();
  });
});

describe('the list', () => {
  it('says how many steps the session has that is shown now', async () => {
    const told = (): string => panel.node.querySelector('[role=status]')?.textContent ?? '';
    await expect.poll(told).toBe('20 steps');
    state.open('b');
    await expect.poll(told).toBe('20 steps');
    session.append(1);
    timeline.poke('b');
    await expect.poll(told).toBe('21 steps');
    expect(panel.node.querySelector('.jp-Reprise-loading')).toBeNull();
  });

  it('writes out what cannot be seen, or turns the direction of what follows', async () => {
    session.append(1, { text: 'rm \u202etxt.a', shown: '\u200bok' });
    timeline.poke('a');
    await settled();
    const row = panel.grid.node.querySelector('[role=row]');
    expect(row?.textContent).toContain('rm \\u202etxt.a\\u200bok');
    expect(row?.getAttribute('title')).toBe('rm \\u202etxt.a\n→ \\u200bok');
  });

  it('keeps what was selected when it becomes known where the session comes from', async () => {
    await press(15);
    const a = { id: 'a', name: 'churn', notebook: null, parent: 'z', fork_seq: 17, last_at: '' };
    answers['/sessions'] = { sessions: [a] };
    await known.refresh();
    await settled();
    expect(state.origin).toEqual({ parent: 'z', seq: 17 });
    expect(panel.node.textContent).toContain('left ');
    expect(panel.grid.selected).toEqual([15]);
    expect(panel.grid.active?.seq).toBe(15);
  });

  it('stays at a session that was chosen when a notebook is opened, and follows one that goes back', () => {
    state.open('x');
    notebooks.all.push(new Notebook(null));
    notebooks.all[1]?.learn('c');
    expect(state.session).toBe('x');
    notebooks.all[1]!.id = null;
    notebooks.all[1]?.learn('d');
    expect(state.session).toBe('x');
    state.open('d');
    notebooks.all[1]?.learn('e');
    expect(state.session).toBe('e');
    notebooks.all[0]?.learn('f');
    expect(state.session).toBe('f');
  });

  it('follows what happens unless that is not wanted; then new steps wait until they are asked for', async () => {
    const seqs = (): (string | null)[] =>
      [...panel.grid.node.querySelectorAll('.jp-Reprise-Timeline-seq')].map(
        each => each.textContent
      );
    session.append(1);
    timeline.poke('a');
    await settled();
    expect(seqs()[0]).toBe('20');
    panel.grid.setFollows(false);
    session.append(2);
    timeline.poke('a');
    await settled();
    expect(seqs()[0]).toBe('20');
    expect([panel.grid.live, panel.grid.news]).toEqual([false, 2]);
    // Another filter lists what fits, however much that is.
    state.setFilter({ outcomes: ['died'] });
    await settled();
    expect(seqs()).toEqual([]);
    state.setFilter({ outcomes: [] });
    await settled();
    expect(seqs()[0]).toBe('22');
    session.append(1);
    timeline.poke('a');
    await settled();
    expect(panel.grid.news).toBe(1);
    panel.grid.toTop();
    await settled();
    expect([seqs()[0], panel.grid.live]).toEqual(['23', true]);
    panel.grid.setFollows(true);
    state.open('b');
    expect(panel.grid.live).toBe(true);
  });
});
