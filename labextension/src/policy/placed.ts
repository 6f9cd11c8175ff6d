// Findings of a check as positions in the text that is being edited (pure).

import { Problem } from './tokens';

/** Has the shape of CodeMirror's diagnostics. */
export interface IPlaced {
  readonly from: number;
  readonly to: number;
  readonly severity: 'error' | 'warning';
  readonly message: string;
}

/** Problems are errors, advice are warnings; what has no line stands at the first. */
export function placed(
  text: string,
  problems: readonly Problem[],
  advice: readonly Problem[]
): readonly IPlaced[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) {
    starts.push(at + 1);
  }
  const at = (problem: Problem, severity: IPlaced['severity']): IPlaced => {
    const line = Math.min(Math.max(problem.line, 1), starts.length);
    const start = starts[line - 1] ?? 0;
    const end = Math.max(start, (starts[line] ?? text.length + 1) - 1);
    const indent = /^\s*/.exec(text.slice(start, end))?.[0].length ?? 0;
    return {
      from: start + indent < end ? start + indent : start,
      to: end,
      severity,
      message: `${problem.text} ${problem.mend}`.trim()
    };
  };
  return [
    ...problems.map(each => at(each, 'error')),
    ...advice.map(each => at(each, 'warning'))
  ].sort((one, other) => one.from - other.from);
}
