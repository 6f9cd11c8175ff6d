/** A history by row number: what is looked at comes, what is new comes, nothing is asked in vain. */

import { beforeEach, describe, expect, it } from 'vitest';

import { History, PAGE } from '../../src/timeline/history';
import { NO_FILTER } from '../../src/timeline/source';
import { Session } from './memory';

let session: Session;
let history: History;

beforeEach(() => {
  session = new Session();
  history = new History('s', session);
});

function settled(): Promise<void> {
  return new Promise(done => setTimeout(done, 5));
}

describe('a history', () => {
  it('has rows of anywhere in 50,000 steps with one request for a page of them', async () => {
    session.append(50_000);
    await history.refresh();
    expect([history.total, history.found]).toEqual([50_000, 50_000]);
    session.asked = [];
    expect((await history.get(31_337))?.text).toBe('step 31337');
    expect(session.asked).toEqual([Math.floor(31_337 / PAGE) * PAGE]);
    history.want(31_300, 31_340);
    await settled();
    expect(session.asked).toHaveLength(1);
    expect(history.row(31_301)?.seq).toBe(31_301);
  });

  it('asks for what is in view at last, not for all that was scrolled past', async () => {
    session.append(50_000);
    await history.refresh();
    session.held = [];
    session.asked = [];
    for (let top = 10_000; top < 40_000; top += PAGE) {
      history.want(top, top + 40);
    }
    const held = session.held;
    session.held = null;
    held.forEach(go => go());
    await settled();
    expect(session.asked.length).toBeLessThanOrEqual(3);
    expect(history.row(39_810)?.seq).toBe(39_810);
  });

  it('has what was appended, and how a step that ran has ended, wherever it stands', async () => {
    session.append(PAGE + 20);
    session.append(1, { outcome: null, text: 'a widget message' });
    session.append(PAGE * 2);
    await history.refresh();
    expect((await history.get(PAGE + 20))?.outcome).toBeNull();
    session.append(3);
    session.end(PAGE + 20, 'error');
    await history.refresh();
    expect(history.found).toBe(3 * PAGE + 24);
    expect(history.row(PAGE + 20)?.outcome).toBe('error');
    expect((await history.get(history.found - 1))?.text).toBe(`step ${3 * PAGE + 23}`);
  });

  it('does not take a page that was half full for the whole one', async () => {
    session.append(PAGE + 1);
    await history.refresh();
    await history.get(PAGE);
    session.append(PAGE * 2);
    await history.refresh();
    expect((await history.get(PAGE + 100))?.seq).toBe(PAGE + 100);
    expect((await history.get(PAGE * 3))?.seq).toBe(PAGE * 3);
  });

  it('counts among those that fit, and begins anew with another filter', async () => {
    session.append(1_000);
    session.append(2, { outcome: 'died' });
    await history.refresh();
    await history.setFilter({ ...NO_FILTER, outcomes: ['died'] });
    expect([history.found, history.total]).toEqual([2, 1_002]);
    expect(history.row(0)?.seq).toBe(1_000);
    await history.setFilter({ ...NO_FILTER, words: 'step 99' });
    expect(history.found).toBe(11);
    expect((await history.get(10))?.text).toBe('step 999');
  });

  it('drops rows that fit no longer', async () => {
    session.append(300, { outcome: null });
    await history.setFilter({ ...NO_FILTER, outcomes: ['running'] });
    await history.get(299);
    session.end(0, 'ok');
    await history.refresh();
    expect(history.found).toBe(299);
    expect((await history.get(0))?.seq).toBe(1);
    expect((await history.get(298))?.seq).toBe(299);
  });

  it('says why nothing comes, keeps what it has, and does not ask in a loop', async () => {
    session.append(1_000);
    await history.refresh();
    session.failing = new Error('The server cannot be reached.');
    let told = 0;
    history.changed.connect(() => {
      told += 1;
      history.want(600, 640);
    });
    history.want(600, 640);
    await settled();
    expect(history.failure?.message).toBe('The server cannot be reached.');
    expect(history.row(10)?.seq).toBe(10);
    expect(told).toBeLessThan(3);
    session.failing = null;
    await history.refresh();
    await settled();
    expect(history.failure).toBeNull();
    expect(history.row(610)?.seq).toBe(610);
  });

  it('rejects for whoever waits for a row, and answers nothing for one that is not there', async () => {
    session.append(5);
    session.failing = new Error('no line');
    await expect(history.get(0)).rejects.toThrow('no line');
    session.failing = null;
    expect(await history.get(5)).toBeUndefined();
    session.append(1_000);
    await history.refresh();
    session.failing = new Error('away');
    await expect(history.get(900)).rejects.toThrow('away');
  });

  it('has a row that came since it asked', async () => {
    session.append(5);
    await history.refresh();
    session.append(1);
    expect((await history.get(5))?.text).toBe('step 5');
  });

  it('asks no more, and answers, once it is disposed', async () => {
    session.append(1_000);
    await history.refresh();
    session.held = [];
    const waits = history.get(900);
    history.dispose();
    session.held.forEach(go => go());
    expect(await waits).toBeUndefined();
    session.asked = [];
    history.want(0, 1_000);
    await settled();
    expect(session.asked).toEqual([]);
  });

  it('keeps the pages that were looked at last, and not all', async () => {
    session.append(16_000);
    await history.refresh();
    for (let row = 0; row < 16_000; row += PAGE) {
      await history.get(row);
    }
    const kept = Array.from({ length: 80 }, (_, page) => history.row(page * PAGE) !== undefined);
    expect(kept.filter(Boolean).length).toBeLessThanOrEqual(60);
    expect(kept[79]).toBe(true);
  });

  it('finds out once more when it was asked to while it asked', async () => {
    session.append(10);
    session.held = [];
    const first = history.refresh();
    await settled();
    const answered = session.held;
    session.held = null;
    session.append(5);
    const second = history.refresh();
    answered.forEach(go => go());
    await Promise.all([first, second]);
    expect(history.found).toBe(15);
  });
});
