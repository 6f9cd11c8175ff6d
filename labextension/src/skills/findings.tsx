// What the strict check finds in a version, by file; each leads to its line.

import * as React from 'react';

import { errorIcon, okIcon, warningIcon } from '../parts/icons';
import { ErrorNotice, Loading } from '../parts/notices';
import { exact } from '../parts/words';
import { IAsked } from '../parts/asked';
import { useSkills } from './context';
import { ISkills } from './tokens';

export function Findings(props: {
  asked: IAsked<readonly ISkills.Finding[]>;
  go: (path: string, line: number | null) => void;
}): React.JSX.Element {
  const { asked, go } = props;
  const { trans } = useSkills();
  if (asked.value === undefined) {
    return asked.error === undefined ? (
      <Loading trans={trans} />
    ) : (
      <ErrorNotice error={asked.error} trans={trans} again={asked.again} />
    );
  }
  return <FindingList findings={asked.value} go={go} />;
}

export function FindingList(props: {
  findings: readonly ISkills.Finding[];
  go: (path: string, line: number | null) => void;
}): React.JSX.Element {
  const { findings, go } = props;
  const { trans } = useSkills();
  if (findings.length === 0) {
    return (
      <p className="jp-Reprise-skill-clean">
        <okIcon.react tag="span" aria-hidden="true" />
        {trans.__('It keeps to every rule of the check.')}
      </p>
    );
  }
  const errors = findings.filter(each => each.severity === 'error').length;
  const warnings = findings.length - errors;
  return (
    <>
      <p className="jp-Reprise-secondary">
        {[
          errors > 0 ? trans._n('%1 error', '%1 errors', errors) : '',
          warnings > 0 ? trans._n('%1 warning', '%1 warnings', warnings) : ''
        ]
          .filter(Boolean)
          .join(', ')}
        {'. '}
        {trans.__('The check says what breaks a rule; it does not judge what a script means.')}
      </p>
      <ul className="jp-Reprise-skill-findings">
        {findings.map((each, index) => {
          const error = each.severity === 'error';
          const icon = error ? errorIcon : warningIcon;
          return (
            <li key={index}>
              <icon.react tag="span" className="jp-Reprise-skill-mark" aria-hidden="true" />
              <div>
                <button
                  type="button"
                  className="jp-Reprise-link"
                  onClick={() => go(each.path, each.line)}
                >
                  {exact(each.path)}
                  {each.line !== null && `:${each.line}`}
                </button>{' '}
                <span>{error ? trans.__('error') : trans.__('warning')}</span>{' '}
                <code>{exact(each.rule)}</code>
                <p>{exact(each.text)}</p>
                <p className="jp-Reprise-secondary">{exact(each.mend)}</p>
              </div>
            </li>
          );
        })}
      </ul>
    </>
  );
}
