// The frame in which acts that widen rights are pressed: shown, its size kept, its press handed in.

import { Dialog, IThemeManager, ReactWidget } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { ApiError, IApi, IDecider, Schemas } from '../api/tokens';
import { ErrorNotice } from './notices';

/** Before the frame has said how high it is, and at most. CSS pixels. */
const FIRST_HEIGHT = 220;
const MOST_HEIGHT = 560;

/** The frame's own themes, which it carries itself: no style of the page reaches into it. */
function themeOf(themes: IThemeManager | null): 'light' | 'dark' | 'high-contrast' {
  const name = themes?.theme ?? null;
  if (name === null || themes === null) {
    return 'light';
  }
  if (/high contrast/i.test(name)) {
    return 'high-contrast';
  }
  return themes.isLight(name) ? 'light' : 'dark';
}

/**
 * A decision that waits. `decided` is called when the server has taken the press, or when it turns
 * out to be over already; `option` is the button that was pressed.
 */
export function DecisionFrame(props: {
  api: IApi;
  themes: IThemeManager | null;
  trans: TranslationBundle;
  decision: string;
  frame: string;
  /** One part of a decision that is pressed part by part (an edit, cell by cell). */
  part?: string;
  /** For screen readers: what is decided here. */
  title: string;
  decided: (how: { how: string; option: string | null; told: string }) => void;
  /** How the decision stands after a press of a part, while others still wait. */
  answered?: (decision: Schemas['Decision']) => void;
}): React.JSX.Element {
  const { api, themes, trans, decision, frame, part, title, decided, answered } = props;
  const iframe = React.useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = React.useState(FIRST_HEIGHT);
  const [error, setError] = React.useState<unknown>(null);
  const [showing, showAnew] = React.useReducer((count: number) => count + 1, 0);
  const [theme, setTheme] = React.useState(themeOf(themes));

  React.useEffect(() => {
    const changed = (): void => setTheme(themeOf(themes));
    themes?.themeChanged.connect(changed);
    return () => {
      themes?.themeChanged.disconnect(changed);
    };
  }, [themes]);

  React.useEffect(() => {
    const press = async (nonce: string, reason: string | null): Promise<void> => {
      setError(null);
      try {
        const answer = await api.post('/decisions/{decision}', {
          params: { path: { decision } },
          body: { nonce, reason }
        });
        if (answer.ended !== null) {
          decided(answer.ended);
        } else {
          answered?.(answer);
        }
      } catch (failed) {
        if (failed instanceof ApiError && failed.code === 'decided') {
          decided({ how: 'elsewhere', option: null, told: failed.message });
        } else {
          // A nonce is used up by its press; the next showing has new ones.
          setError(failed);
          showAnew();
        }
      }
    };
    const heard = (event: MessageEvent<unknown>): void => {
      // Of that very frame: other windows can send messages of the same shape.
      if (event.source === null || event.source !== iframe.current?.contentWindow) {
        return;
      }
      const said = event.data as Record<string, unknown> | null;
      if (typeof said !== 'object' || said === null || said.decision !== decision) {
        return;
      }
      if (said.type === 'reprise-decision-size' && typeof said.height === 'number') {
        setHeight(Math.max(150, Math.min(MOST_HEIGHT, Math.ceil(said.height))));
      } else if (said.type === 'reprise-decision' && typeof said.nonce === 'string') {
        void press(said.nonce, typeof said.reason === 'string' ? said.reason : null);
      }
    };
    window.addEventListener('message', heard);
    return () => window.removeEventListener('message', heard);
  }, [api, decision, decided, answered]);

  const address = `${URLExt.join(new URL(api.settings.baseUrl, window.location.href).origin, frame)}?theme=${theme}${part === undefined ? '' : `&part=${encodeURIComponent(part)}`}`;
  return (
    <div className="jp-Reprise-decision">
      {error !== null && <ErrorNotice error={error} trans={trans} />}
      <iframe
        key={showing}
        ref={iframe}
        className="jp-Reprise-decision-frame"
        sandbox="allow-scripts"
        referrerPolicy="same-origin"
        src={address}
        style={{ height }}
        title={title}
      />
    </div>
  );
}

/** Shows decisions that a request ran into in a dialog of their own. */
export class DialogDecider implements IDecider {
  constructor(
    private readonly _api: IApi,
    private readonly _themes: IThemeManager | null,
    private readonly _trans: TranslationBundle
  ) {}

  async decide(decision: string, frame: string): Promise<void> {
    const trans = this._trans;
    const outcome: { ended: { how: string; option: string | null; told: string } | null } = {
      ended: null
    };
    const body = ReactWidget.create(
      <DecisionFrame
        api={this._api}
        themes={this._themes}
        trans={trans}
        decision={decision}
        frame={frame}
        title={trans.__('Decision')}
        decided={ended => {
          outcome.ended = ended;
          dialog.resolve(0);
        }}
      />
    );
    body.addClass('jp-Reprise');
    const dialog = new Dialog({
      title: trans.__('This needs you'),
      body,
      // No button approves: the frame has them.
      buttons: [Dialog.cancelButton({ label: trans.__('Close') })],
      hasClose: true
    });
    dialog.addClass('jp-Reprise-decision-dialog');
    await dialog.launch();
    const { ended } = outcome;
    if (ended === null) {
      throw new ApiError(428, 'cancelled', trans.__('Not decided. Nothing was changed.'));
    }
    if (ended.how !== 'pressed' || ['deny', 'refuse', null].includes(ended.option)) {
      throw new ApiError(428, 'decided', ended.told);
    }
  }
}
