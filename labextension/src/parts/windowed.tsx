// A list of rows of one height, of which only those in view are in the page.

import * as React from 'react';

/** Rows kept above and below what is in view, so that scrolling finds them there. */
const MARGIN = 12;

/** Browsers cut elements that are higher (Firefox at 17.8 million CSS pixels). */
const MOST_HEIGHT = 15_000_000;

/** Which rows stand in a view (pure): from `first`, before `end`, the first one `offset` pixels down. */
export function rowsIn(
  scrollTop: number,
  height: number,
  rowHeight: number,
  total: number
): { first: number; end: number } {
  const first = Math.max(0, Math.floor(scrollTop / rowHeight) - MARGIN);
  const end = Math.min(total, Math.ceil((scrollTop + height) / rowHeight) + MARGIN);
  return { first: Math.min(first, end), end };
}

export interface WindowedHandle {
  /** Bring a row into view, with as little movement as does. */
  reveal(index: number): void;
  readonly node: HTMLElement | null;
  /** How many rows are in view: a page of the keys. */
  page(): number;
}

/**
 * The rows. `row` draws one; it must have the height `rowHeight`. What has the focus stays in the
 * page (`kept`), or the keyboard would lose its place.
 */
export const Windowed = React.forwardRef(function Windowed(
  props: {
    total: number;
    rowHeight: number;
    row: (index: number, style: React.CSSProperties) => React.ReactNode;
    kept?: number | null;
    className?: string;
    attributes?: React.HTMLAttributes<HTMLDivElement>;
    onRange?: (first: number, end: number) => void;
    onEnd?: (atEnd: boolean) => void;
  },
  handle: React.ForwardedRef<WindowedHandle>
): React.JSX.Element {
  const { total, rowHeight, row, kept, className, attributes, onRange, onEnd } = props;
  const node = React.useRef<HTMLDivElement>(null);
  const [view, setView] = React.useState({ top: 0, height: 600 });
  const frame = React.useRef(0);

  const look = React.useCallback(() => {
    cancelAnimationFrame(frame.current);
    frame.current = requestAnimationFrame(() => {
      const element = node.current;
      if (element !== null) {
        setView(before =>
          before.top === element.scrollTop && before.height === element.clientHeight
            ? before
            : { top: element.scrollTop, height: element.clientHeight }
        );
      }
    });
  }, []);

  React.useEffect(() => {
    const element = node.current;
    if (element === null) {
      return undefined;
    }
    const observer = new ResizeObserver(look);
    observer.observe(element);
    look();
    return () => {
      observer.disconnect();
      cancelAnimationFrame(frame.current);
    };
  }, [look]);

  const { first, end } = rowsIn(view.top, view.height, rowHeight, total);
  React.useEffect(() => onRange?.(first, end), [first, end, onRange]);
  const atEnd = view.top + view.height >= total * rowHeight - rowHeight;
  React.useEffect(() => onEnd?.(atEnd), [atEnd, onEnd]);

  React.useImperativeHandle(
    handle,
    () => ({
      node: node.current,
      page: () =>
        Math.max(1, Math.floor((node.current?.clientHeight ?? rowHeight) / rowHeight) - 1),
      reveal: index => {
        const element = node.current;
        if (element === null) {
          return;
        }
        const top = index * rowHeight;
        if (top < element.scrollTop) {
          element.scrollTop = top;
        } else if (top + rowHeight > element.scrollTop + element.clientHeight) {
          element.scrollTop = top + rowHeight - element.clientHeight;
        }
      }
    }),
    [rowHeight]
  );

  const shown: number[] = [];
  if (kept !== undefined && kept !== null && kept >= 0 && kept < first) {
    shown.push(kept);
  }
  for (let index = first; index < end; index += 1) {
    shown.push(index);
  }
  if (kept !== undefined && kept !== null && kept >= end && kept < total) {
    shown.push(kept);
  }
  return (
    <div
      {...attributes}
      ref={node}
      className={`jp-Reprise-windowed ${className ?? ''}`}
      onScroll={look}
    >
      <div
        role="presentation"
        className="jp-Reprise-windowed-whole"
        style={{ height: Math.min(MOST_HEIGHT, total * rowHeight) }}
      >
        {shown.map(index =>
          row(index, {
            position: 'absolute',
            top: index * rowHeight,
            height: rowHeight,
            left: 0,
            right: 0
          })
        )}
      </div>
    </div>
  );
});
