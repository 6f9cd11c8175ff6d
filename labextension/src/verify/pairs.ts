// What a step showed then and now, piece by piece beside each other (pure).

import { ReportPiece } from './tokens';

export interface IPair {
  readonly kind: ReportPiece['kind'];
  /** null: there is no such piece on that side. */
  readonly before: ReportPiece | null;
  readonly after: ReportPiece | null;
  readonly same: boolean;
}

/**
 * The pieces in their order. Where one side has something that the other lacks, the side that meets
 * its like goes on.
 */
export function pairs(
  recorded: readonly ReportPiece[],
  replayed: readonly ReportPiece[]
): readonly IPair[] {
  const left = [...recorded];
  const right = [...replayed];
  const found: IPair[] = [];
  while (left.length > 0 || right.length > 0) {
    let before = left.shift() ?? null;
    let after = right.shift() ?? null;
    if (before !== null && after !== null && before.kind !== after.kind) {
      const kind = after.kind;
      if (left.some(each => each.kind === kind)) {
        right.unshift(after);
        after = null;
      } else {
        left.unshift(before);
        before = null;
      }
    }
    const one = before ?? after;
    if (one !== null) {
      found.push({
        kind: one.kind,
        before,
        after,
        same: before !== null && after !== null && equal(before, after)
      });
    }
  }
  return found;
}

function equal(a: ReportPiece, b: ReportPiece): boolean {
  return (
    a.kind === b.kind &&
    a.text === b.text &&
    a.cut === b.cut &&
    (a.image === null
      ? b.image === null
      : // Two that the report has no room for may be two different ones.
        a.image.data !== null && a.image.data === b.image?.data && a.image.mime === b.image.mime)
  );
}

/** Its address for an `img`: never one of a document, so that nothing in it runs. */
export function imageSource(piece: ReportPiece | null): string | null {
  const image = piece?.image ?? null;
  return image === null || image.data === null ? null : `data:${image.mime};base64,${image.data}`;
}
