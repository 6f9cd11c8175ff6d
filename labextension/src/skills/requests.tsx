// The promotions that wait for somebody, as a list that leads to each.

import * as React from 'react';

import { Empty, ErrorNotice, Loading } from '../parts/notices';
import { exact, moment } from '../parts/words';
import { IAsked } from '../parts/asked';
import { Badge } from './badges';
import { useSkills } from './context';
import { ISkills } from './tokens';
import { decided, scope } from './words';

export function Requests(props: {
  asked: IAsked<readonly ISkills.Promotion[]>;
}): React.JSX.Element {
  const { trans, open } = useSkills();
  const { value, error, again } = props.asked;
  if (value === undefined) {
    return error === undefined ? (
      <Loading trans={trans} />
    ) : (
      <ErrorNotice error={error} trans={trans} again={again} />
    );
  }
  if (value.length === 0) {
    return (
      <Empty
        lines={[
          trans.__('Nothing waits for a decision.'),
          trans.__('To give a skill to a team, open it and choose Promote.')
        ]}
      />
    );
  }
  return (
    <ul className="jp-Reprise-skill-requests" aria-label={trans.__('Promotions')}>
      {value.map(each => (
        <li key={each.id}>
          <button
            type="button"
            className="jp-Reprise-skill-row"
            onClick={() => open.promotion(each.id)}
          >
            <span className="jp-Reprise-skill-line">
              <span className="jp-Reprise-skill-name">{exact(each.version.name)}</span>
              <span aria-hidden="true">→</span>
              <span className="jp-Reprise-skill-number">
                <span className="jp-sr-only">{trans.__('to')} </span>
                {scope(each.to, trans)}
              </span>
              <Badge of={decided(each, trans)} />
            </span>
            <span className="jp-Reprise-skill-line">
              <span className="jp-Reprise-skill-description">
                {trans.__('%1, %2', exact(each.by), moment(new Date(each.at)))}
                {each.note && ` · ${exact(each.note)}`}
              </span>
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}
