// Findings of a check as positions in the text that is being edited (pure).

import { atLines, IPlaced } from '../parts/lint';
import { Problem } from './tokens';

/** Problems are errors, advice are warnings. */
export function placed(
  text: string,
  problems: readonly Problem[],
  advice: readonly Problem[]
): readonly IPlaced[] {
  const said = (each: Problem, severity: IPlaced['severity']) => ({
    line: each.line,
    severity,
    message: `${each.text} ${each.mend}`.trim()
  });
  return atLines(text, [
    ...problems.map(each => said(each, 'error')),
    ...advice.map(each => said(each, 'warning'))
  ]);
}
