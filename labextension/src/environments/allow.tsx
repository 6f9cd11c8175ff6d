// A host that is to be allowed, written by a person; what is wrong with it is told beside it.

import * as React from 'react';

import type { TranslationBundle } from '@jupyterlab/translation';

import { ApiError } from '../api/tokens';
import { ErrorNotice, Notice } from '../parts/notices';
import { useEnvironments } from './context';

export function AllowHost(props: {
  label: string;
  button: string;
  allow: (place: string) => Promise<unknown>;
}): React.JSX.Element {
  const { label, button, allow } = props;
  const { trans } = useEnvironments();
  const [place, setPlace] = React.useState('');
  const [busy, setBusy] = React.useState(false);
  const [error, setError] = React.useState<unknown>(undefined);
  const id = React.useId();
  const send = async (): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      await allow(place.trim());
      setPlace('');
    } catch (failed) {
      setError(failed);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <form
        className="jp-Reprise-environment-allow"
        onSubmit={event => {
          event.preventDefault();
          if (place.trim() !== '' && !busy) {
            void send();
          }
        }}
      >
        <label htmlFor={id}>{label}</label>
        <span className="jp-Reprise-environment-line">
          <input
            id={id}
            className="jp-mod-styled"
            type="text"
            value={place}
            placeholder="example.org"
            spellCheck={false}
            autoComplete="off"
            aria-describedby={`${id}-form`}
            onChange={event => setPlace(event.target.value)}
          />
          <button className="jp-mod-styled" type="submit" disabled={busy || place.trim() === ''}>
            {button}
          </button>
        </span>
        <span id={`${id}-form`} className="jp-Reprise-secondary">
          {trans.__(
            'A name, with :8443 for one port; *.example.org for subdomains; package-index.'
          )}
        </span>
      </form>
      <Denied error={error} />
    </>
  );
}

/** Why a host is not allowed: nothing where it was just not pressed. */
export function Denied(props: { error: unknown }): React.JSX.Element | null {
  const { trans } = useEnvironments();
  const { error } = props;
  if (error === undefined || (error instanceof ApiError && error.code === 'cancelled')) {
    return null;
  }
  if (error instanceof ApiError && error.code === 'denied-by-policy') {
    const rule = typeof error.detail.rule === 'string' ? error.detail.rule : '';
    return (
      <Notice kind="warning">
        {forbids(rule, trans)}
        {`\n${error.message}`}
      </Notice>
    );
  }
  if (error instanceof ApiError && error.code === 'not-allowed') {
    // Somebody else decides: there is nothing to try again.
    return <Notice kind="warning">{error.message}</Notice>;
  }
  return <ErrorNotice error={error} trans={trans} />;
}

/** Who forbids it, and by which rule: LEVEL/NAME. */
export function forbids(rule: string, trans: TranslationBundle): string {
  const level = rule.slice(0, rule.lastIndexOf('/'));
  switch (level) {
    case 'organisation':
      return trans.__('Your organisation forbids it (%1).', rule);
    case 'server':
      return trans.__('This server forbids it (%1).', rule);
    case 'personal':
      return trans.__('Your own policy forbids it (%1).', rule);
    default:
      return trans.__('%1 forbids it (%2).', level, rule);
  }
}
