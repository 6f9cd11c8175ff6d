// Findings about a text as positions in it, in the shape of CodeMirror's diagnostics (pure).

export interface IPlaced {
  readonly from: number;
  readonly to: number;
  readonly severity: 'error' | 'warning';
  readonly message: string;
  readonly source?: string;
}

/** A finding before it is placed. */
export interface IAtLine extends Pick<IPlaced, 'severity' | 'message' | 'source'> {
  /** From 1; what has no line stands at the first. */
  readonly line: number | null;
}

/** Each at its line, without the indent, in the order of the text. */
export function atLines(text: string, findings: readonly IAtLine[]): readonly IPlaced[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) {
    starts.push(at + 1);
  }
  return findings
    .map(({ line, ...said }) => {
      const row = Math.min(Math.max(line ?? 1, 1), starts.length);
      const start = starts[row - 1] ?? 0;
      const to = Math.max(start, (starts[row] ?? text.length + 1) - 1);
      const indent = /^\s*/.exec(text.slice(start, to))?.[0].length ?? 0;
      return { ...said, from: start + indent < to ? start + indent : start, to };
    })
    .sort((one, other) => one.from - other.from);
}
