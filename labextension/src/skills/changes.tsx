// What differs between two versions of a skill, file by file; each file's texts side by side once opened.

import * as React from 'react';

import { ImageDiff, TextDiff } from '../parts/diff';
import { ErrorNotice, Loading } from '../parts/notices';
import { count, exact } from '../parts/words';
import { useAsked } from '../parts/asked';
import { contentOf, mimeOf } from './content';
import { useSkills } from './context';
import { nameOf } from './names';
import { ISkills } from './tokens';

type Change = ISkills.Differences['files'][number];

/** Files that are opened at once where there are no more. */
const OPEN_AT_FIRST = 2;

export function Changes(props: {
  /** Names the two for the page: another name asks anew. */
  of: string;
  ask: (offset: number) => Promise<ISkills.Differences>;
}): React.JSX.Element {
  const { of, ask } = props;
  const { trans } = useSkills();
  const [pages, setPages] = React.useState(1);
  const found = useAsked(`${of} ${pages}`, async () => {
    let all: ISkills.Differences | null = null;
    let offset: number | null = 0;
    for (let page = 0; page < pages && offset !== null; page++) {
      const next: ISkills.Differences = await ask(offset);
      all = all === null ? next : { ...next, files: [...all.files, ...next.files] };
      offset = next.next_offset;
    }
    return all;
  });
  const shown = found.value;
  if (shown === undefined || shown === null) {
    return found.error === undefined ? (
      <Loading trans={trans} />
    ) : (
      <ErrorNotice error={found.error} trans={trans} again={found.again} />
    );
  }
  if (shown.total === 0) {
    return <p>{trans.__('No differences: the same files with the same bytes.')}</p>;
  }
  return (
    <div className="jp-Reprise-skill-changes">
      <p className="jp-Reprise-secondary">
        {shown.old === null
          ? trans.__('Nothing is published there yet, so all of it is new.')
          : trans._n('%2 file differs.', '%2 files differ.', shown.total, count(shown.total))}
      </p>
      {shown.files.map(each => (
        <Changed
          key={each.path}
          change={each}
          old={shown.old}
          new_={shown.new}
          begun={shown.total <= OPEN_AT_FIRST}
        />
      ))}
      {shown.next_offset !== null && (
        <p>
          {trans.__('%1 of %2 files.', count(shown.files.length), count(shown.total))}{' '}
          <button type="button" className="jp-mod-styled" onClick={() => setPages(pages + 1)}>
            {trans.__('Show more')}
          </button>
        </p>
      )}
    </div>
  );
}

function Changed(props: {
  change: Change;
  old: ISkills.Version | null;
  new_: ISkills.Version;
  begun: boolean;
}): React.JSX.Element {
  const { change, old, new_, begun } = props;
  const { trans } = useSkills();
  const [opened, setOpened] = React.useState(begun);
  const words = {
    added: trans.__('added'),
    changed: trans.__('changed'),
    removed: trans.__('removed')
  };
  const signs = { added: '+', changed: '±', removed: '−' };
  return (
    <details
      className="jp-Reprise-skill-change"
      open={opened}
      onToggle={event => setOpened(event.currentTarget.open)}
    >
      <summary>
        <span aria-hidden="true" className={`jp-Reprise-skill-sign jp-mod-${change.what}`}>
          {signs[change.what]}
        </span>
        <span className="jp-Reprise-skill-file">{exact(change.path)}</span>
        <span className="jp-Reprise-secondary">
          {words[change.what]}
          {change.mode === 'now executable' && `, ${trans.__('can run now')}`}
          {change.mode === 'no longer executable' && `, ${trans.__('can run no more')}`}
        </span>
      </summary>
      {opened && (
        <>
          {change.note !== '' && <p className="jp-Reprise-secondary">{exact(change.note)}</p>}
          <Texts change={change} old={old} new_={new_} />
        </>
      )}
    </details>
  );
}

function Texts(props: {
  change: Change;
  old: ISkills.Version | null;
  new_: ISkills.Version;
}): React.JSX.Element {
  const { change, old, new_ } = props;
  const { skills, trans, languages } = useSkills();
  const both = useAsked(`${old?.digest ?? ''} ${new_.digest} ${change.path}`, async () => {
    const [before, after] = await Promise.all([
      old === null || change.what === 'added'
        ? new Uint8Array()
        : skills.file(nameOf(old), change.path),
      change.what === 'removed' ? new Uint8Array() : skills.file(nameOf(new_), change.path)
    ]);
    return { before: contentOf(before), after: contentOf(after) };
  });
  if (both.value === undefined) {
    return both.error === undefined ? (
      <Loading trans={trans} />
    ) : (
      <ErrorNotice error={both.error} trans={trans} again={both.again} />
    );
  }
  const { before, after } = both.value;
  const texts = [before, after].map(each => ('text' in each ? each.text : null));
  const [was, is] = texts;
  const label = trans.__('Changes of %1', exact(change.path));
  if (typeof was === 'string' && typeof is === 'string') {
    return was === is ? (
      <p className="jp-Reprise-secondary">{trans.__('Its text is the same.')}</p>
    ) : (
      <TextDiff
        before={readable(was)}
        after={readable(is)}
        label={label}
        trans={trans}
        languages={languages}
        language={mimeOf(change.path)}
      />
    );
  }
  if (before.kind === 'picture' && after.kind === 'picture') {
    return (
      <ImageDiff
        trans={trans}
        before={{ src: before.address, label: trans.__('before') }}
        after={{ src: after.address, label: trans.__('after') }}
      />
    );
  }
  return <p className="jp-Reprise-secondary">{trans.__('It is no text; its bytes differ.')}</p>;
}

/** What is not seen would be no difference to the eye. */
function readable(text: string): string {
  return exact(text.replace(/\r\n/g, '␍\n'));
}
