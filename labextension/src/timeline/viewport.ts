/** Where lines of one height stand in a scrolled box, however many there are. Pure. */

/** Browsers end boxes between 16 and 33 million pixels; beyond this, scrolling is stretched. */
export const TALLEST = 8_000_000;

/** Lines above and below what is seen that are there already when it is scrolled. */
const BEYOND = 8;

export interface IViewport {
  /** The first line to show, and the one behind the last. */
  readonly first: number;
  readonly stop: number;
  /** What to add to `index * height` to get a line's distance from the box's top, pixels. */
  readonly shift: number;
}

/** Pixels of the whole list, as tall as a browser lets a box be. */
export function tall(lines: number, height: number): number {
  return Math.min(lines * height, TALLEST);
}

/**
 * What to show.
 *
 * Up to TALLEST a line stands where it would in a plain list. Beyond it, the part of the list
 * that has been scrolled past tells the line at the top, and lines are placed from there.
 */
export function viewport(lines: number, height: number, top: number, seen: number): IViewport {
  const whole = lines * height;
  const box = tall(lines, height);
  const most = Math.max(0, box - seen);
  const scrolled = Math.min(Math.max(0, top), most);
  const offset = whole === box || most === 0 ? scrolled : (scrolled / most) * (whole - seen);
  const first = Math.max(0, Math.floor(offset / height) - BEYOND);
  const stop = Math.min(lines, Math.ceil((offset + seen) / height) + BEYOND);
  return { first, stop, shift: scrolled - offset };
}

/** Where to scroll so that a line is seen whole; `top` where it is already. */
export function scrolledTo(
  lines: number,
  height: number,
  top: number,
  seen: number,
  index: number
): number {
  const whole = lines * height;
  const box = tall(lines, height);
  const most = Math.max(0, box - seen);
  const stretch = whole === box || most === 0 ? 1 : (whole - seen) / most;
  const offset = Math.min(Math.max(0, top), most) * stretch;
  const above = index * height;
  if (above < offset) {
    return above / stretch;
  }
  if (above + height > offset + seen) {
    return Math.min(most, (above + height - seen) / stretch);
  }
  return top;
}
