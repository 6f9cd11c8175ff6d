// One file of a skill, looked at: text with its lines, a picture, or what can only be downloaded.

import * as React from 'react';

import { ErrorNotice, Loading } from '../parts/notices';
import { count, exact, size } from '../parts/words';
import { useAsked } from '../parts/asked';
import { contentOf } from './content';
import { useSkills } from './context';
import { ISkills } from './tokens';

/** Lines that are shown; the rest is a download away. */
const MOST_LINES = 2_000;
/** Of a line that goes on and on. */
const MOST_COLUMNS = 2_000;
/** Bytes of a file that is looked at here. */
const MOST_BYTES = 4 * 1024 * 1024;

/** Text to its last byte, with numbers beside its lines; `line` is marked and shown. */
export function Source(props: {
  text: string;
  label: string;
  line?: number | null;
}): React.JSX.Element {
  const { text, label, line = null } = props;
  const { trans } = useSkills();
  const marked = React.useRef<HTMLSpanElement>(null);
  React.useEffect(() => {
    marked.current?.scrollIntoView({ block: 'center' });
  }, [line, text]);
  const lines = text.split('\n');
  const shown = lines.slice(0, MOST_LINES);
  return (
    <>
      <pre className="jp-Reprise-skill-source" tabIndex={0} role="region" aria-label={label}>
        {shown.map((each, index) => (
          <span
            key={index}
            ref={index + 1 === line ? marked : undefined}
            className={`jp-Reprise-skill-text${index + 1 === line ? ' jp-mod-marked' : ''}`}
            data-line={index + 1}
          >
            {exact(each.slice(0, MOST_COLUMNS))}
            {each.length > MOST_COLUMNS &&
              ` … ${trans.__('%1 more characters', count(each.length - MOST_COLUMNS))}`}
            {'\n'}
          </span>
        ))}
      </pre>
      {lines.length > MOST_LINES && (
        <p className="jp-Reprise-secondary">
          {trans.__(
            '%1 of %2 lines. Download the file to see the rest.',
            count(MOST_LINES),
            count(lines.length)
          )}
        </p>
      )}
    </>
  );
}

export function Preview(props: {
  named: ISkills.IName;
  file: ISkills.File;
  line: number | null;
}): React.JSX.Element {
  const { named, file, line } = props;
  const { skills, trans, open } = useSkills();
  const large = file.size > MOST_BYTES;
  const bytes = useAsked(`${file.path} ${file.sha256}`, () =>
    large ? Promise.resolve(null) : skills.file(named, file.path)
  );
  const content = React.useMemo(() => (bytes.value ? contentOf(bytes.value) : null), [bytes.value]);
  return (
    <section className="jp-Reprise-skill-preview" aria-label={exact(file.path)}>
      <header>
        <h3>{exact(file.path)}</h3>
        <span className="jp-Reprise-secondary">{size(file.size)}</span>
        <button
          type="button"
          className="jp-mod-styled"
          onClick={() => void open.download(named, file.path)}
        >
          {trans.__('Download')}
        </button>
      </header>
      {bytes.error !== undefined && (
        <ErrorNotice error={bytes.error} trans={trans} again={bytes.again} />
      )}
      {large ? (
        <p>{trans.__('It is too large to be looked at here. Download it.')}</p>
      ) : bytes.value === undefined ? (
        bytes.error === undefined && <Loading trans={trans} />
      ) : content === null || content.kind === 'bytes' ? (
        <p>{trans.__('It is neither text nor a picture that can be shown. Download it.')}</p>
      ) : content.kind === 'picture' ? (
        <>
          <img src={content.address} alt={trans.__('The picture %1', exact(file.path))} />
          {content.text !== null && (
            <details>
              <summary>{trans.__('Its text')}</summary>
              <Source text={content.text} label={trans.__('Text of %1', exact(file.path))} />
            </details>
          )}
        </>
      ) : content.text === '' ? (
        <p className="jp-Reprise-secondary">{trans.__('The file is empty.')}</p>
      ) : (
        <Source text={content.text} label={trans.__('Text of %1', exact(file.path))} line={line} />
      )}
    </section>
  );
}
