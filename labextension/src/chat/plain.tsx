/** A plain input for the agent, where the composer's plugin is switched off. */

import { ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import * as React from 'react';

import type { IComposer, IComposerHost } from '../composer/tokens';
import { ErrorNotice } from '../parts/notices';
import { useSignal } from './context';

export class PlainComposer extends ReactWidget implements IComposer {
  constructor(private readonly _trans: TranslationBundle) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-plain-composer');
  }

  get widget(): this {
    return this;
  }

  get host(): IComposerHost | null {
    return this._host;
  }

  set host(host: IComposerHost | null) {
    this._host = host;
    this.update();
  }

  focus(): void {
    this.node.querySelector('textarea')?.focus();
  }

  write(text: string): void {
    this._written.emit(text);
    this.focus();
  }

  bringCell(): void {
    // Cells are brought by the composer's own plugin.
    this.focus();
  }

  protected render(): React.JSX.Element | null {
    const host = this._host;
    return host === null ? null : <Plain host={host} trans={this._trans} written={this._written} />;
  }

  private _host: IComposerHost | null = null;
  private readonly _written = new Signal<this, string>(this);
}

function Plain(props: {
  host: IComposerHost;
  trans: TranslationBundle;
  written: Signal<PlainComposer, string>;
}): React.JSX.Element {
  const { host, trans, written } = props;
  const [words, setWords] = React.useState('');
  const [error, setError] = React.useState<unknown>(null);
  useSignal(host.changed);
  const { state } = host;
  React.useEffect(() => {
    const heard = (_: PlainComposer, text: string): void => setWords(text);
    written.connect(heard);
    return () => {
      written.disconnect(heard);
    };
  }, [written]);
  const send = (): void => {
    const text = words.trim();
    if (text === '' || state !== 'ready') {
      return;
    }
    setError(null);
    setWords('');
    host.send({ text, brought: [] }).catch((failed: unknown) => {
      setWords(text);
      setError(failed);
    });
  };
  const runs = state === 'running' || state === 'stopping';
  return (
    <form
      onSubmit={event => {
        event.preventDefault();
        if (runs) {
          host.stop().catch(setError);
        } else {
          send();
        }
      }}
    >
      {error !== null && <ErrorNotice error={error} trans={trans} />}
      {host.why !== '' && <p className="jp-Reprise-secondary">{host.why}</p>}
      <textarea
        className="jp-mod-styled"
        rows={2}
        value={words}
        placeholder={trans.__('Ask about this notebook')}
        aria-label={trans.__('Ask about this notebook')}
        onChange={event => setWords(event.target.value)}
        onKeyDown={event => {
          if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) {
            event.preventDefault();
            send();
          }
        }}
      />
      <button className="jp-mod-styled jp-mod-accept" disabled={state === 'closed'}>
        {runs ? trans.__('Stop') : trans.__('Send')}
      </button>
    </form>
  );
}
