/** What a person said: their words, and what they brought along. */

import * as React from 'react';

/** As it was typed: text is text. */
export function Said(props: { text: string }): React.JSX.Element {
  return <div className="jp-Reprise-said">{props.text}</div>;
}
