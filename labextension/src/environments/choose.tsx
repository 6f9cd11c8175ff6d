// The dialog in which an environment is chosen: what each is, in words; nothing is chosen by accident.

import { Dialog, ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { UseSignal } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ErrorNotice, Loading, Notice } from '../parts/notices';
import { IEnvironments } from './tokens';
import { inShort, standsOn } from './words';

class Choice extends ReactWidget {
  constructor(
    private readonly _environments: IEnvironments,
    private readonly _trans: TranslationBundle,
    private readonly _said: React.ReactNode,
    /** Not to be chosen: the one that one is in. */
    private readonly _without: string | null,
    public chosen: string | null
  ) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-environment-choice');
  }

  private readonly _choose = (name: string | null): void => {
    this.chosen = name;
  };

  getValue(): string | null {
    return this.chosen;
  }

  protected override render(): React.JSX.Element {
    return (
      <UseSignal signal={this._environments.changed}>
        {() => (
          <Options
            environments={this._environments}
            trans={this._trans}
            said={this._said}
            without={this._without}
            first={this.chosen}
            choose={this._choose}
          />
        )}
      </UseSignal>
    );
  }
}

function Options(props: {
  environments: IEnvironments;
  trans: TranslationBundle;
  said: React.ReactNode;
  without: string | null;
  first: string | null;
  choose: (name: string | null) => void;
}): React.JSX.Element {
  const { environments, trans, said, without, first, choose } = props;
  const there = (environments.list ?? []).filter(each => each.environment !== without);
  const usable = there.filter(each => each.here).map(each => each.environment);
  const [picked, setPicked] = React.useState(first);
  // Something is chosen from the start: a button that does nothing would not say why.
  const chosen = picked !== null && usable.includes(picked) ? picked : (usable[0] ?? null);
  React.useEffect(() => choose(chosen), [choose, chosen]);
  const id = React.useId();
  if (environments.list === null) {
    return environments.failure === null ? (
      <Loading trans={trans} />
    ) : (
      <ErrorNotice
        error={environments.failure}
        trans={trans}
        again={() => void environments.refresh()}
      />
    );
  }
  return (
    <>
      {said}
      {there.length === 0 ? (
        <Notice kind="info">
          {trans.__(
            'There is no other environment on this server. Make one with `reprise env create NAME --requirements FILE` in a terminal.'
          )}
        </Notice>
      ) : (
        <div role="radiogroup" aria-label={trans.__('Environment')}>
          {there.map(each => (
            <label key={each.environment} className="jp-Reprise-environment-option">
              <input
                type="radio"
                name={id}
                checked={chosen === each.environment}
                disabled={!each.here}
                onChange={() => setPicked(each.environment)}
              />
              <span>
                <strong>{each.environment}</strong>
                {each.environment === environments.usual && ` · ${trans.__('the usual one')}`}
                <br />
                {sentence(inShort(each, environments.isolated, trans))}
                <br />
                <span className="jp-Reprise-secondary">{standsOn(each, trans)}</span>
              </span>
            </label>
          ))}
        </div>
      )}
      {Object.entries(environments.broken).map(([name, why]) => (
        <Notice key={name} kind="warning">
          {trans.__('%1 cannot be used: %2', name, why)}
        </Notice>
      ))}
    </>
  );
}

/** Ask which environment; null when nothing was chosen. */
export async function chooseEnvironment(options: {
  environments: IEnvironments;
  trans: TranslationBundle;
  title: string;
  accept: string;
  said?: React.ReactNode;
  without?: string | null;
  first?: string | null;
}): Promise<string | null> {
  const { environments, trans, title, accept, said, without, first } = options;
  void environments.refresh();
  const body = new Choice(environments, trans, said ?? null, without ?? null, first ?? null);
  const dialog = new Dialog<string | null>({
    title,
    body,
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: accept })],
    // Enter in a list of radio buttons is no answer.
    defaultButton: 0
  });
  const { button, value } = await dialog.launch();
  return button.accept ? (value ?? null) : null;
}

function sentence(words: string): string {
  return `${words.slice(0, 1).toUpperCase()}${words.slice(1)}.`;
}
