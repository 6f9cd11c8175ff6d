// A row of tabs as WAI-ARIA has it: arrows move, what is moved to is shown.

import * as React from 'react';

export interface ITab<T extends string> {
  readonly id: T;
  readonly label: string;
  /** A number beside it, where one counts. */
  readonly count?: number | undefined;
}

/** The tabs; the panel below carries `id={panelId(group)}`, and `aria-labelledby={tabId(…)}`. */
export function Tabs<T extends string>(props: {
  group: string;
  label: string;
  tabs: readonly ITab<T>[];
  current: T;
  show: (tab: T) => void;
}): React.JSX.Element {
  const { group, label, tabs, current, show } = props;
  const list = React.useRef<HTMLDivElement>(null);
  const go = (event: React.KeyboardEvent): void => {
    const at = tabs.findIndex(tab => tab.id === current);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const next = tabs[(to + tabs.length) % tabs.length];
    if (next !== undefined) {
      show(next.id);
      list.current?.querySelector<HTMLElement>(`#${CSS.escape(tabId(group, next.id))}`)?.focus();
    }
  };
  return (
    <div className="jp-Reprise-tabs" role="tablist" aria-label={label} ref={list} onKeyDown={go}>
      {tabs.map(tab => (
        <button
          key={tab.id}
          id={tabId(group, tab.id)}
          role="tab"
          type="button"
          className="jp-Reprise-tab"
          aria-selected={tab.id === current}
          aria-controls={panelId(group)}
          tabIndex={tab.id === current ? 0 : -1}
          onClick={() => show(tab.id)}
        >
          {tab.label}
          {tab.count !== undefined && (
            <span className="jp-Reprise-tab-count">{tab.count.toLocaleString()}</span>
          )}
        </button>
      ))}
    </div>
  );
}

export function tabId(group: string, tab: string): string {
  return `${group}-tab-${tab.replace(/[^\w-]/g, '-')}`;
}

export function panelId(group: string): string {
  return `${group}-panel`;
}
