// What stands above the files: of which moment they are, what is being done, what did not work.

import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ApiError, IConnection } from '../api/tokens';
import { ConnectionNotice, Empty, ErrorNotice, Notice } from '../parts/notices';
import { count } from '../parts/words';
import { Building } from './building';
import { IPartial } from './drive';

/** What there is to say. All null, 0 and true: nothing, as ever. */
export interface IHead {
  /** Whether there is a session whose files could be shown. */
  readonly session: boolean;
  readonly at: number | null;
  readonly building: Building | null;
  /** Why the files cannot be shown. */
  readonly problem: unknown;
  /** What of the last act did not work. */
  readonly failure: unknown;
  readonly partial: IPartial | null;
  /** Files on their way in. */
  readonly coming: number;
  /** What was saved where, in words. */
  readonly saved: string | null;
}

export interface IHeadActs {
  now(): void;
  build(): void;
  cancel(): void;
  again(): void;
  more(): void;
  forget(): void;
}

export const NOTHING: IHead = {
  session: false,
  at: null,
  building: null,
  problem: null,
  failure: null,
  partial: null,
  coming: 0,
  saved: null
};

export class Head extends ReactWidget {
  constructor(
    private readonly _acts: IHeadActs,
    private readonly _connection: IConnection,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-Reprise-workspace-head');
  }

  tell(head: IHead): void {
    this._head = head;
    this.update();
  }

  protected override render(): React.ReactElement {
    return (
      <>
        <ConnectionNotice connection={this._connection} trans={this._trans} />
        <HeadBody head={this._head} acts={this._acts} trans={this._trans} />
      </>
    );
  }

  private _head = NOTHING;
}

function HeadBody(props: {
  head: IHead;
  acts: IHeadActs;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { head, acts, trans } = props;
  if (!head.session) {
    return (
      <Empty
        lines={[
          trans.__('The files of a session stand here.'),
          trans.__('Open a notebook with a Reprise kernel.')
        ]}
      />
    );
  }
  return (
    <>
      {head.at !== null && head.building === null && (
        <Notice
          kind="info"
          actions={
            <button type="button" className="jp-mod-styled" onClick={acts.now}>
              {trans.__('Back to now')}
            </button>
          }
        >
          {trans.__('Files as of step %1, read-only.', head.at)}
        </Notice>
      )}
      {head.building !== null ? (
        <Progress building={head.building} cancel={acts.cancel} trans={trans} />
      ) : (
        head.problem !== null && <Problem problem={head.problem} acts={acts} trans={trans} />
      )}
      {head.failure !== null && (
        <>
          <ErrorNotice error={head.failure} trans={trans} />
          <button type="button" className="jp-Reprise-status-lead" onClick={acts.forget}>
            {trans.__('Close')}
          </button>
        </>
      )}
      {head.coming > 0 && (
        <p className="jp-Reprise-workspace-line" role="status">
          {trans._n('%1 file is being brought in.', '%1 files are being brought in.', head.coming)}
        </p>
      )}
      {head.saved !== null && (
        <p className="jp-Reprise-workspace-line" role="status">
          {head.saved}
        </p>
      )}
      {head.partial !== null && (
        <p className="jp-Reprise-workspace-line">
          {trans.__('%1 of %2 entries.', count(head.partial.listed), count(head.partial.total))}
          <button type="button" className="jp-Reprise-status-lead" onClick={acts.more}>
            {trans.__('List more')}
          </button>
        </p>
      )}
    </>
  );
}

function Progress(props: {
  building: Building;
  cancel: () => void;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { building, cancel, trans } = props;
  const [, redraw] = React.useReducer((drawn: number) => drawn + 1, 0);
  React.useEffect(() => {
    building.changed.connect(redraw);
    return () => {
      building.changed.disconnect(redraw);
    };
  }, [building]);
  const progress = building.progress;
  const { done = null, total = null } = progress ?? {};
  const words =
    building.step === null
      ? trans.__('The files are being built.')
      : trans.__('The files as of step %1 are being built.', building.step);
  return (
    <Notice
      kind="info"
      actions={
        <button type="button" className="jp-mod-styled" onClick={cancel}>
          {trans.__('Cancel')}
        </button>
      }
    >
      {words}
      {done !== null && total !== null && total > 0 && (
        <div className="jp-Reprise-status-resume">
          <div
            className="jp-Reprise-status-progress"
            role="progressbar"
            aria-label={words}
            aria-valuemin={0}
            aria-valuemax={total}
            aria-valuenow={done}
          >
            <div
              className="jp-Reprise-status-progress-bar"
              style={{ width: `${Math.round((100 * done) / total)}%` }}
            />
          </div>
          <span className="jp-Reprise-status-resume-count">
            {trans.__('%1 of %2', done, total)}
          </span>
        </div>
      )}
    </Notice>
  );
}

function Problem(props: {
  problem: unknown;
  acts: IHeadActs;
  trans: TranslationBundle;
}): React.JSX.Element | null {
  const { problem, acts, trans } = props;
  switch (codeOf(problem)) {
    case 'not-built':
      return (
        <Notice
          kind="info"
          actions={
            <button type="button" className="jp-mod-styled jp-mod-accept" onClick={acts.build}>
              {trans.__('Build them')}
            </button>
          }
        >
          {trans.__(
            'No kernel holds these files now. They can be built as they were after the last step.'
          )}
        </Notice>
      );
    case 'not-ready':
      return (
        <Notice kind="info">
          {trans.__('The session is coming back. The files are here when it is.')}
        </Notice>
      );
    case 'no-workspace':
      return (
        <Notice kind="info">
          {trans.__('Not isolated: the files of this session are those of the notebook’s folder.')}
        </Notice>
      );
    case 'offline':
    case 'not-authenticated':
      return null; // said above
    default:
      return <ErrorNotice error={problem} trans={trans} again={acts.again} />;
  }
}

/** The code of a refusal, whether it came through the drive or not. */
export function codeOf(problem: unknown): string | null {
  if (problem instanceof ApiError) {
    return problem.code;
  }
  return problem instanceof Error && problem.cause instanceof ApiError ? problem.cause.code : null;
}
