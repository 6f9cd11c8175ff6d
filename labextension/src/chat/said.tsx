/** What a person said: their words, and what they brought along. */

import * as React from 'react';

import { saidOf } from '../composer/message';
import { exact } from '../parts/words';

/** As it was typed: text is text. What was brought opens. */
export function Said(props: { text: string }): React.JSX.Element {
  const { words, brought } = React.useMemo(() => saidOf(props.text), [props.text]);
  return (
    <div className="jp-Reprise-said">
      {words}
      {brought.length > 0 && (
        <ul className="jp-Reprise-brought">
          {brought.map((each, place) => (
            <li key={place}>
              {each.content === '' ? (
                <span className="jp-Reprise-brought-name">{exact(each.title)}</span>
              ) : (
                <details>
                  <summary>{exact(each.title)}</summary>
                  <pre tabIndex={0}>{exact(each.content)}</pre>
                </details>
              )}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
