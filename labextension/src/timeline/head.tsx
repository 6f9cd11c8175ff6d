/** Above the list: which session, search and filters, and whether new steps are followed. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { HTMLSelect, ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import * as React from 'react';

import { count } from '../parts/words';
import type { StepGrid } from './grid';
import { sessionName } from './known';
import type { IKnownSession } from './known';
import type { TimelineState } from './state';
import type { ActorKind, StepKind } from './tokens';
import { ACTORS, actorWord, FAILED, kindWord, KINDS } from './words';

/** The session that is shown, and others of the notebook and the owner to look at. */
function Picker(props: { state: TimelineState; trans: TranslationBundle }): React.JSX.Element {
  const { state, trans } = props;
  const { session, current, known } = state;
  const related = new Set(kin(known.all, session ?? current));
  const others = known.all.filter(each => !related.has(each.id) && each.id !== session);
  const family = known.all.filter(each => related.has(each.id));
  const option = (each: IKnownSession): React.JSX.Element => (
    <option key={each.id} value={each.id}>
      {each.id === current
        ? trans.__('%1 · this notebook', sessionName(each))
        : trans._n('%2 · %1 step', '%2 · %1 steps', each.steps, sessionName(each))}
    </option>
  );
  return (
    <HTMLSelect
      className="jp-Reprise-Timeline-picker"
      aria-label={trans.__('Session')}
      title={trans.__('The session whose steps are shown')}
      value={session ?? ''}
      onFocus={() => void known.refresh().catch(() => undefined)}
      onChange={event => state.open(event.target.value || null)}
    >
      {session === null && <option value="">{trans.__('No session')}</option>}
      {session !== null && !family.some(each => each.id === session) && (
        <option value={session}>{known.name(session)}</option>
      )}
      {family.map(option)}
      {others.length > 0 && (
        <optgroup label={trans.__('Other sessions')}>{others.map(option)}</optgroup>
      )}
    </HTMLSelect>
  );
}

/** Sessions that share steps with one: those above it and all that left these. */
export function kin(all: readonly IKnownSession[], of: string | null): string[] {
  const byId = new Map(all.map(each => [each.id, each]));
  const top = (id: string): string => {
    const seen = new Set<string>();
    let at = id;
    for (let up = byId.get(at)?.parent; up != null && !seen.has(up); up = byId.get(at)?.parent) {
      seen.add(up);
      at = up;
    }
    return at;
  };
  if (of === null) {
    return [];
  }
  const root = top(of);
  return all.filter(each => top(each.id) === root).map(each => each.id);
}

export function Head(props: {
  state: TimelineState;
  grid: StepGrid;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { state, grid, trans } = props;
  const { filter } = state;
  const failed = filter.outcomes.length > 0;
  return (
    <>
      <div className="jp-Reprise-Timeline-which">
        <Picker state={state} trans={trans} />
        <UseSignal signal={grid.liveChanged}>{() => <Live grid={grid} trans={trans} />}</UseSignal>
      </div>
      <div className="jp-Reprise-Timeline-filters" role="search">
        <input
          type="search"
          className="jp-mod-styled jp-Reprise-Timeline-search"
          aria-label={trans.__('Search steps')}
          placeholder={trans.__('Search')}
          maxLength={200}
          value={filter.words}
          onChange={event => state.setFilter({ words: event.target.value })}
          onKeyDown={event => {
            if (event.key === 'ArrowDown') {
              event.preventDefault();
              grid.focusActive();
            }
          }}
        />
        <HTMLSelect
          aria-label={trans.__('Kind')}
          value={filter.kinds[0] ?? ''}
          onChange={event =>
            state.setFilter({
              kinds: event.target.value === '' ? [] : [event.target.value as StepKind]
            })
          }
        >
          <option value="">{trans.__('all kinds')}</option>
          {KINDS.map(kind => (
            <option key={kind} value={kind}>
              {kindWord(trans, kind)}
            </option>
          ))}
        </HTMLSelect>
        <HTMLSelect
          aria-label={trans.__('Who')}
          value={filter.actors[0] ?? ''}
          onChange={event =>
            state.setFilter({
              actors: event.target.value === '' ? [] : [event.target.value as ActorKind]
            })
          }
        >
          <option value="">{trans.__('everyone')}</option>
          {ACTORS.map(actor => (
            <option key={actor} value={actor}>
              {actorWord(trans, actor)}
            </option>
          ))}
        </HTMLSelect>
        <label className="jp-Reprise-Timeline-failed">
          <input
            type="checkbox"
            checked={failed}
            onChange={() => state.setFilter({ outcomes: failed ? [] : [...FAILED] })}
          />
          {trans.__('failed')}
        </label>
      </div>
    </>
  );
}

/** Says whether new steps are shown as they come, and how many are not; leads to them. */
function Live(props: { grid: StepGrid; trans: TranslationBundle }): React.JSX.Element {
  const { grid, trans } = props;
  const { live, news } = grid;
  return (
    <button
      className={`jp-Reprise-Timeline-live ${live ? 'jp-mod-live' : ''}`}
      aria-pressed={live}
      title={
        live
          ? trans.__('New steps are shown as they come. Press to stay where you are.')
          : trans.__('New steps wait above. Press to see them.')
      }
      onClick={() => (live ? grid.pause() : grid.toTop())}
    >
      {live
        ? trans.__('live')
        : news > 0
          ? trans._n('%2 new', '%2 new', news, count(news))
          : trans.__('paused')}
    </button>
  );
}

export class HeadWidget extends ReactWidget {
  constructor(
    private readonly _state: TimelineState,
    private readonly _grid: StepGrid,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-Reprise-Timeline-head');
  }

  protected override render(): React.JSX.Element {
    return (
      <UseSignal signal={this._state.changed}>
        {() => <Head state={this._state} grid={this._grid} trans={this._trans} />}
      </UseSignal>
    );
  }
}
