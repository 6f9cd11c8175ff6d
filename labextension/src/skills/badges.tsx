// Small words with a mark: trust, state, deprecated; a word beside each colour.

import * as React from 'react';

import { errorIcon, okIcon, warningIcon } from '../parts/icons';
import { useSkills } from './context';
import { ISkills } from './tokens';
import { IWord, standing, state } from './words';

const ICONS = { good: okIcon, warn: warningIcon, bad: errorIcon };

/** One word; what it means is its title. */
export function Badge(props: { of: IWord }): React.JSX.Element {
  const { word, tone, means } = props.of;
  const icon = tone === 'plain' ? null : ICONS[tone];
  return (
    <span className={`jp-Reprise-skill-badge jp-mod-${tone}`} title={means}>
      {icon && <icon.react tag="span" className="jp-Reprise-skill-mark" aria-hidden="true" />}
      {word}
    </span>
  );
}

export function StandingBadge(props: { standing: ISkills.Standing }): React.JSX.Element {
  return <Badge of={standing(props.standing, useSkills().trans)} />;
}

/** State in its scope, and whether it is deprecated. */
export function StateBadges(props: { version: ISkills.Version }): React.JSX.Element {
  const { trans } = useSkills();
  return (
    <>
      <Badge of={state(props.version, trans)} />
      {props.version.deprecated && (
        <Badge
          of={{
            word: trans.__('deprecated'),
            tone: 'warn',
            means: trans.__('Better not used any more.')
          }}
        />
      )}
    </>
  );
}
