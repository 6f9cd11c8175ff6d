// What a skill says: its fields as text, its body as harmless Markdown or as it is written.

import * as React from 'react';

import { SafeMarkdown } from '../parts/markdown';
import { ErrorNotice, Loading, Notice } from '../parts/notices';
import { exact } from '../parts/words';
import { IAsked, useAsked } from '../parts/asked';
import { useSkills } from './context';
import { reference } from './names';
import { Source } from './preview';
import { ISkills } from './tokens';

/** Rules of findings that mean: what is read is not all that is there. */
const HIDING = new Set(['hidden-text', 'control-character', 'zero-width']);

export function Read(props: {
  named: ISkills.IName;
  shown: ISkills.IShown;
  findings: IAsked<readonly ISkills.Finding[]>;
  toFindings: () => void;
}): React.JSX.Element {
  const { named, shown, findings, toFindings } = props;
  const { skills, trans, rendermime } = useSkills();
  const [written, setWritten] = React.useState(false);
  // Once for each content: reading it counts as a use of it.
  const body = useAsked(`${reference(named)} ${shown.skill.digest}`, () => skills.body(named));
  const hidden = findings.value?.filter(each => HIDING.has(each.rule)).length ?? 0;
  return (
    <div className="jp-Reprise-skill-read">
      <Fields said={shown.skill} />
      {hidden > 0 && (
        <Notice
          kind="warning"
          actions={
            <button type="button" className="jp-mod-styled" onClick={toFindings}>
              {trans.__('Findings')}
            </button>
          }
        >
          {trans.__('It holds characters that nobody sees, and that a model reads.')}
        </Notice>
      )}
      <div className="jp-Reprise-skill-switch">
        <label>
          <input
            type="checkbox"
            checked={written}
            onChange={event => setWritten(event.target.checked)}
          />
          {trans.__('As it is written')}
        </label>
      </div>
      {body.value === undefined ? (
        body.error === undefined ? (
          <Loading trans={trans} rows={6} />
        ) : (
          <ErrorNotice error={body.error} trans={trans} again={body.again} />
        )
      ) : body.value.trim() === '' ? (
        <p className="jp-Reprise-secondary">{trans.__('Nothing stands below the frontmatter.')}</p>
      ) : written ? (
        <Source text={body.value} label={trans.__('The text of SKILL.md')} />
      ) : (
        <SafeMarkdown
          rendermime={rendermime}
          text={body.value}
          className="jp-Reprise-skill-markdown"
        />
      )}
    </div>
  );
}

/** Everything of it is text of whoever wrote the skill. */
function Fields(props: { said: ISkills.Said }): React.JSX.Element {
  const { trans } = useSkills();
  const { description, license, compatibility, metadata, allowed_tools, other } = props.said;
  const rows: (readonly [string, string])[] = [];
  if (compatibility) {
    rows.push([trans.__('Needs'), compatibility]);
  }
  if (license) {
    rows.push([trans.__('Licence'), license]);
  }
  for (const [name, value] of Object.entries(metadata)) {
    rows.push([name, value]);
  }
  for (const [name, value] of Object.entries(other)) {
    rows.push([name, typeof value === 'string' ? value : JSON.stringify(value)]);
  }
  return (
    <div className="jp-Reprise-skill-fields">
      <p className="jp-Reprise-skill-about">{exact(description)}</p>
      {allowed_tools.length > 0 && (
        <Notice kind="info">
          {trans.__('It asks to use these tools without a question. That grants nothing here:')}{' '}
          <code>{exact(allowed_tools.join(' '))}</code>
        </Notice>
      )}
      {rows.length > 0 && (
        <dl>
          {rows.map(([name, value]) => (
            <React.Fragment key={name}>
              <dt>{exact(name)}</dt>
              <dd>{exact(value)}</dd>
            </React.Fragment>
          ))}
        </dl>
      )}
    </div>
  );
}
