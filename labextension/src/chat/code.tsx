/** Code as text, in the colours of its language where that is known; nothing of it is ever markup. */

import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import * as React from 'react';

import { useSurroundings } from './context';

/** Characters beyond which code stays without colours: parsing it would take long. */
const LONG = 60_000;

export function Code(props: { code: string; language: string; label?: string }): React.JSX.Element {
  const { code, language, label } = props;
  const { languages } = useSurroundings();
  const node = React.useRef<HTMLElement>(null);
  React.useLayoutEffect(() => {
    const place = node.current;
    if (place === null) {
      return undefined;
    }
    place.textContent = code;
    let current = true;
    void coloured(code, language, languages).then(made => {
      if (current && made !== null) {
        place.replaceChildren(made);
      }
    });
    return () => {
      current = false;
    };
  }, [code, language, languages]);
  return (
    <pre tabIndex={0} aria-label={label}>
      <code ref={node} />
    </pre>
  );
}

/** The code in its colours; null where its language is not known, or cannot be had. */
export async function coloured(
  code: string,
  language: string,
  languages: IEditorLanguageRegistry | null
): Promise<DocumentFragment | null> {
  const found = language === '' ? null : languages?.findBest(language);
  if (found == null || languages === null || code.length > LONG) {
    return null;
  }
  const holder = document.createElement('span');
  try {
    await languages.highlight(code, found, holder);
  } catch (error) {
    // The text stands there already; only its colours do not.
    console.warn(`Reprise: ${language} could not be coloured.`, error);
    return null;
  }
  const fragment = document.createDocumentFragment();
  fragment.append(...holder.childNodes);
  return fragment;
}
