// Findings of the strict check as positions in a text that is being edited (pure).

import { ISkills } from './tokens';

/** Where a finding stands; offsets in the text. Has the shape of CodeMirror's diagnostics. */
export interface IPlaced {
  readonly from: number;
  readonly to: number;
  readonly severity: 'error' | 'warning';
  readonly message: string;
  readonly source: string;
}

/** Those of one file. One without a line stands at the first. */
export function placed(
  findings: readonly ISkills.Finding[],
  path: string,
  text: string
): readonly IPlaced[] {
  const starts = lineStarts(text);
  return findings
    .filter(each => each.path === path)
    .map(each => {
      const line = Math.min(Math.max(each.line ?? 1, 1), starts.length);
      const start = starts[line - 1] ?? 0;
      const next = starts[line] ?? text.length + 1;
      const end = Math.max(start, next - 1);
      const indent = /^\s*/.exec(text.slice(start, end))?.[0].length ?? 0;
      const from = start + indent < end ? start + indent : start;
      return {
        from,
        to: end,
        severity: each.severity,
        message: `${each.text} ${each.mend}`,
        source: each.rule
      };
    })
    .sort((one, other) => one.from - other.from);
}

function lineStarts(text: string): readonly number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) {
    starts.push(at + 1);
  }
  return starts;
}
