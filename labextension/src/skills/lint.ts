// Findings of the strict check as positions in a text that is being edited (pure).

import { atLines, IPlaced } from '../parts/lint';
import { ISkills } from './tokens';

/** Those of one file. */
export function placed(
  findings: readonly ISkills.Finding[],
  path: string,
  text: string
): readonly IPlaced[] {
  return atLines(
    text,
    findings
      .filter(each => each.path === path)
      .map(({ line, severity, text: said, mend, rule }) => ({
        line,
        severity,
        message: `${said} ${mend}`,
        source: rule
      }))
  );
}
