// The skills of a scope, or those that words fit, as a list that the keyboard walks through.

import * as React from 'react';

import { moved } from '../parts/roving';
import { count, exact, firstLine } from '../parts/words';
import { StandingBadge } from './badges';
import { useSkills } from './context';
import { reference, SHIPPED } from './names';
import { ISkills } from './tokens';
import { fewTokens, number, scope, tokens } from './words';

/** Rows that Page Up and Page Down go by. */
const PAGE = 10;

export interface IListProps {
  readonly entries: readonly ISkills.IEntry[];
  readonly total: number;
  /** Shows more of them; null when all are there. */
  readonly more: (() => void) | null;
  /** Whether a row says its scope. */
  readonly scoped: boolean;
  readonly label: string;
  /** The entry that actions are about: Shift+F10, the context menu. */
  readonly active: (entry: ISkills.IEntry) => void;
}

export function SkillList(props: IListProps): React.JSX.Element {
  const { entries, total, more, scoped, label, active } = props;
  const { trans, open } = useSkills();
  const [at, setAt] = React.useState(0);
  const list = React.useRef<HTMLDivElement>(null);
  const current = Math.min(at, Math.max(0, entries.length - 1));

  const go = (to: number): void => {
    setAt(to);
    list.current?.querySelector<HTMLElement>(`[data-row="${to}"]`)?.focus();
  };
  const pressed = (event: React.KeyboardEvent): void => {
    const to = moved(event.key, current, entries.length, PAGE);
    const entry = entries[current];
    if (to !== null) {
      go(to);
    } else if (event.key === 'Enter' && entry !== undefined) {
      open.skill(entry.named);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <>
      <div
        className="jp-Reprise-skill-list"
        role="listbox"
        aria-label={label}
        ref={list}
        onKeyDown={pressed}
      >
        {entries.map((entry, row) => (
          <Row
            key={`${reference(entry.named)} ${entry.digest}`}
            entry={entry}
            row={row}
            of={total}
            current={row === current}
            scoped={scoped}
            seen={() => {
              setAt(row);
              active(entry);
            }}
          />
        ))}
      </div>
      {more && (
        <p className="jp-Reprise-skill-more">
          {trans.__('%1 of %2.', count(entries.length), count(total))}{' '}
          <button type="button" className="jp-mod-styled" onClick={more}>
            {trans.__('Show more')}
          </button>
        </p>
      )}
    </>
  );
}

function Row(props: {
  entry: ISkills.IEntry;
  row: number;
  of: number;
  current: boolean;
  scoped: boolean;
  seen: () => void;
}): React.JSX.Element {
  const { entry, row, of, current, scoped, seen } = props;
  const { trans, open } = useSkills();
  const { version } = entry;
  return (
    <div
      className="jp-Reprise-skill-row"
      role="option"
      aria-selected={current}
      aria-setsize={of}
      aria-posinset={row + 1}
      tabIndex={current ? 0 : -1}
      data-row={row}
      data-skill={reference(entry.named)}
      onClick={() => {
        seen();
        open.skill(entry.named);
      }}
      onFocus={seen}
      onContextMenu={seen}
    >
      <span className="jp-Reprise-skill-line">
        <span className="jp-Reprise-skill-name">{exact(entry.name)}</span>
        {version && <span className="jp-Reprise-skill-number">{number(version, trans)}</span>}
        <StandingBadge standing={entry.standing} />
        <Tokens entry={entry} />
      </span>
      <span className="jp-Reprise-skill-line">
        {scoped && version?.scope !== 'personal' && (
          <span className="jp-Reprise-skill-scope">
            {scope(version === null ? SHIPPED : version.scope, trans)}
          </span>
        )}
        {version?.deprecated && (
          <span className="jp-Reprise-skill-scope">{trans.__('deprecated')}</span>
        )}
        <span className="jp-Reprise-skill-description">{exact(firstLine(entry.description))}</span>
      </span>
    </div>
  );
}

/** What loading it costs a conversation; asked for once the row is in view. */
function Tokens(props: { entry: ISkills.IEntry }): React.JSX.Element {
  const { entry } = props;
  const { skills, trans } = useSkills();
  const node = React.useRef<HTMLSpanElement>(null);
  const [cost, setCost] = React.useState<ISkills.Cost | null>(null);
  React.useEffect(() => {
    let current = true;
    const ask = (): void => {
      skills.cost(entry).then(
        found => {
          if (current) {
            setCost(found);
          }
        },
        // The row does without; the skill's tab says why.
        () => undefined
      );
    };
    if (node.current === null || typeof IntersectionObserver === 'undefined') {
      ask();
      return () => {
        current = false;
      };
    }
    const watch = new IntersectionObserver(seen => {
      if (seen.some(each => each.isIntersecting)) {
        watch.disconnect();
        ask();
      }
    });
    watch.observe(node.current);
    return () => {
      current = false;
      watch.disconnect();
    };
  }, [skills, entry]);
  return (
    <span
      ref={node}
      className="jp-Reprise-skill-tokens"
      title={
        cost
          ? trans.__(
              '%1 once it is loaded; its line in the list takes %2.',
              tokens(cost.loaded, cost.counted, trans),
              tokens(cost.listed, cost.counted, trans)
            )
          : undefined
      }
    >
      {cost && (
        <>
          <span aria-hidden="true">{fewTokens(cost.loaded)}</span>
          <span className="jp-sr-only">{tokens(cost.loaded, cost.counted, trans)}</span>
        </>
      )}
    </span>
  );
}
