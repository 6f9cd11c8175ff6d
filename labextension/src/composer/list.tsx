// The list under the caret: what fits the query, by kind; chosen by keys or a press.

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IFound, ISuggestion } from './suggestions';

/** What a kind is called. */
function headings(trans: TranslationBundle): Record<ISuggestion['group'], string> {
  return {
    cells: trans.__('Cells'),
    variables: trans.__('Variables'),
    files: trans.__('Files'),
    skills: trans.__('Skills'),
    commands: trans.__('Commands')
  };
}

/** The id of an option, by which the input says which one is active. */
export function optionId(list: string, index: number): string {
  return `${list}-${index}`;
}

/** A listbox that belongs to an input; the focus stays there. */
export function SuggestionList(props: {
  id: string;
  found: IFound;
  active: number;
  trans: TranslationBundle;
  choose: (suggestion: ISuggestion) => void;
}): React.JSX.Element {
  const { id, found, active, trans, choose } = props;
  const current = React.useRef<HTMLDivElement>(null);
  React.useEffect(() => {
    current.current?.scrollIntoView({ block: 'nearest' });
  }, [active, found]);
  const names = headings(trans);
  const groups: { readonly name: ISuggestion['group']; readonly from: number; count: number }[] =
    [];
  found.suggestions.forEach((each, index) => {
    const last = groups[groups.length - 1];
    if (last?.name === each.group) {
      last.count += 1;
    } else {
      groups.push({ name: each.group, from: index, count: 1 });
    }
  });
  return (
    <div className="jp-Reprise-composer-list">
      <div id={id} role="listbox" aria-label={trans.__('Suggestions')}>
        {groups.map(group => (
          <div key={group.name} role="group" aria-label={names[group.name]}>
            <div className="jp-Reprise-composer-group" aria-hidden="true">
              {names[group.name]}
            </div>
            {found.suggestions.slice(group.from, group.from + group.count).map((each, offset) => {
              const index = group.from + offset;
              return (
                <div
                  key={each.key}
                  id={optionId(id, index)}
                  ref={index === active ? current : null}
                  role="option"
                  aria-selected={index === active}
                  className="jp-Reprise-composer-option"
                  // The focus stays in the input.
                  onMouseDown={event => event.preventDefault()}
                  onClick={() => choose(each)}
                >
                  <span className="jp-Reprise-composer-label">{each.label}</span>
                  <span className="jp-Reprise-composer-detail">{each.detail}</span>
                </div>
              );
            })}
          </div>
        ))}
      </div>
      {found.missing.map(each => (
        <p key={each} className="jp-Reprise-composer-missing">
          {each}
        </p>
      ))}
    </div>
  );
}
