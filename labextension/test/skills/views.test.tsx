// Who may decide what, and how names of strangers stand in the page.

import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import * as React from 'react';
import { afterEach, expect, test, vi } from 'vitest';

import { ISessions } from '../../src/sessions/tokens';
import { Context, IContext, IOpener } from '../../src/skills/context';
import { FindingList } from '../../src/skills/findings';
import { SkillList } from '../../src/skills/list';
import { mayDecide } from '../../src/skills/promoting';
import { Source } from '../../src/skills/preview';
import { entryOf } from '../../src/skills/requesting';
import { RunScript } from '../../src/skills/run';
import { Teams } from '../../src/skills/teams';
import { ISkills } from '../../src/skills/tokens';
import { me, promotion, version } from './catalog';

afterEach(cleanup);

const open = { skill: vi.fn(), step: vi.fn() } as unknown as IOpener;

function within(
  children: React.ReactNode,
  skills: Partial<ISkills> = {},
  sessions: ISessions | null = null
): React.JSX.Element {
  const context = {
    sessions,
    skills: {
      changed: new Signal({}),
      cost: () => new Promise(() => undefined),
      ...skills
    } as unknown as ISkills,
    trans: nullTranslator.load('reprise'),
    api: { connection: { line: { state: 'online' }, changed: new Signal({}) } },
    open
  } as unknown as IContext;
  return <Context.Provider value={context}>{children}</Context.Provider>;
}

test.each([
  ['who asked for it', promotion(), me('anna'), 'reviewer', 'own'],
  ['who added what is promoted', promotion({ by: 'carla' }), me('anna'), 'admin', 'own'],
  ['a reviewer', promotion(), me('ben'), 'reviewer', 'yes'],
  ['an admin', promotion(), me('ben'), 'admin', 'yes'],
  ['a member', promotion(), me('ben'), 'member', 'role'],
  ['somebody on the server of another', promotion(), me('ben', false), 'reviewer', 'server']
] as const)('%s may decide a promotion or is told why not', (_, of, who, role, may) => {
  expect(mayDecide(of, who, [{ scope: 'team/ml', role }])).toBe(may);
});

test('of a team that one is not in nothing is decided', () => {
  expect(mayDecide(promotion(), me('ben'), [{ scope: 'team/other', role: 'admin' }])).toBe('role');
});

test('names and descriptions are text, with what nobody sees written out', () => {
  const hostile = version({
    name: '<img src=x onerror=alert(1)>',
    description: 'a\u202eb <script>alert(1)</script>'
  });
  const { container } = render(
    within(
      <SkillList
        entries={[entryOf(hostile)]}
        total={1}
        more={null}
        scoped
        label="one"
        active={() => undefined}
      />
    )
  );
  expect(container.querySelector('img, script')).toBeNull();
  expect(screen.getByRole('option').textContent).toContain('<img src=x onerror=alert(1)>');
  expect(screen.getByRole('option').textContent).toContain('a\\u202eb <script>');
});

test('a row of another scope says so, and opens exactly its version', () => {
  const of = version({ scope: 'team/ml', number: 7 });
  render(
    within(
      <SkillList
        entries={[entryOf(of)]}
        total={1}
        more={null}
        scoped
        label="one"
        active={() => undefined}
      />
    )
  );
  expect(screen.getByRole('option').textContent).toContain('Team ml');
  screen.getByRole('option').click();
  expect(open.skill).toHaveBeenCalledWith({ skill: 'count-rows@7', scope: 'team/ml' });
});

test('a huge text is shown in part, with its true size; a finding leads to its line', () => {
  const go = vi.fn();
  const { container } = render(
    within(
      <>
        <Source text={`${'x'.repeat(5_000)}\n${'line\n'.repeat(5_000)}`} label="text" />
        <FindingList
          findings={[
            {
              rule: 'hidden-text',
              severity: 'error',
              path: 'a\u202eb.md',
              line: 4,
              text: '<b>x</b>',
              mend: 'y'
            }
          ]}
          go={go}
        />
      </>
    )
  );
  expect(container.querySelectorAll('[data-line]')).toHaveLength(2_000);
  expect(container.textContent).toContain('3,000 more characters');
  expect(container.textContent).toContain('2,000 of 5,002 lines.');
  expect(container.querySelector('.jp-Reprise-skill-findings b')).toBeNull();
  screen.getByRole('button', { name: 'a\\u202eb.md:4' }).click();
  expect(go).toHaveBeenCalledWith('a\u202eb.md', 4);
});

test('who is dismissed, or leaves, is asked about first', async () => {
  const dismiss = vi.fn(() => Promise.resolve());
  const skills = {
    me: () => Promise.resolve(me('ben')),
    scopes: () => Promise.resolve([{ scope: 'team/ml', role: 'admin' as const }]),
    members: () =>
      Promise.resolve([
        { login: 'anna\u202e', role: 'member' as const, by: 'ben', at: '2026-11-30T14:02:11Z' },
        { login: 'ben', role: 'admin' as const, by: 'carla', at: '2026-11-30T14:02:11Z' }
      ]),
    dismiss
  } as unknown as Partial<ISkills>;
  render(within(<Teams />, skills));
  const dialog = (): HTMLElement | null => document.querySelector('.jp-Dialog');
  const press = async (name: string, answer: string): Promise<string> => {
    fireEvent.click(await screen.findByRole('button', { name }));
    await vi.waitFor(() => expect(dialog()).not.toBeNull());
    const said = dialog()?.textContent ?? '';
    dialog()?.querySelector<HTMLElement>(answer)?.click();
    await vi.waitFor(() => expect(dialog()).toBeNull());
    return said;
  };
  expect(await press('Dismiss', '.jp-mod-reject')).toContain(
    'Dismiss “anna\\u202e” from “Team ml”?'
  );
  expect(await press('Leave', '.jp-mod-reject')).toContain('Leave “Team ml”?');
  expect(dismiss).not.toHaveBeenCalled();
  await press('Dismiss', '.jp-mod-warn');
  await vi.waitFor(() => expect(dismiss).toHaveBeenCalledWith('team/ml', 'anna\u202e'));
});

test('a script runs in the session that the notebook has now, also after a rewind', () => {
  const session = { id: null as string | null, path: 'a.ipynb', statusChanged: new Signal({}) };
  const sessions = { current: session, currentChanged: new Signal({}) } as unknown as ISessions;
  const run = vi.fn(() => new Promise<ISkills.Job>(() => undefined));
  render(
    within(<RunScript reference="x@1" script="run.py" standing="trusted" />, { run }, sessions)
  );
  expect(screen.queryByRole('button', { name: 'Run as a step' })).toBeNull();
  const becomes = (id: string): void =>
    act(() => {
      session.id = id;
      session.statusChanged.emit(undefined);
    });
  becomes('before');
  becomes('after the rewind');
  fireEvent.click(screen.getByRole('button', { name: 'Run as a step' }));
  expect(run).toHaveBeenCalledWith('after the rewind', 'x@1', 'run.py', []);
});
