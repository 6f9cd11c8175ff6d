// What a kernel or the server says of a session, read into `ISessionStatus` (pure).

import type { IDeath, IHolder, INotice, IResume, ISessionStatus, SessionState } from './tokens';

/** Before anything is known. */
export const UNKNOWN: ISessionStatus = {
  state: 'unknown',
  text: null,
  backend: null,
  environment: null,
  memory: { used: null, limit: null },
  steps: null,
  running: null,
  snapshot: null,
  resume: null,
  plan: null,
  death: null,
  held: null,
  static: null,
  network: null,
  shut: null,
  back: null,
  heard: null
};

const STATES: readonly SessionState[] = [
  'starting',
  'resuming',
  'waiting',
  'stopped',
  'ready',
  'running',
  'held',
  'failed'
];

type Said = Readonly<Record<string, unknown>>;

/** A `status_reply`, a `reprise_status` or the answer of `/sessions/{session}/status`. */
export function readStatus(said: Said, heard: Date): ISessionStatus {
  const memory = object(said.memory);
  return {
    state: state(said.state),
    text: text(said.text),
    backend: backend(object(said.backend)),
    environment: environment(object(said.environment)),
    memory: { used: number(memory?.used), limit: number(memory?.limit) },
    steps: number(said.steps),
    running: number(said.running),
    snapshot: snapshot(object(said.snapshot)),
    resume: resume(object(said.resume)),
    plan: plan(object(said.plan)),
    death: death(object(said.death)),
    held: holder(object(said.held)),
    static: staticFrom(said),
    network: network(object(said.network)),
    shut: text(said.shut),
    back: back(object(said.last_resume)),
    heard
  };
}

/** The session that a message names; null where it names none. */
export function sessionOf(said: Said): string | null {
  const id = text(said.session);
  return id !== null && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id) ? id : null;
}

/** A `reprise_notice`; `at` is told with stored ones only. Null for what is none. */
export function readNotice(said: Said, now: Date): INotice | null {
  const code = text(said.code);
  const words = text(said.text);
  if (code === null || words === null) {
    return null;
  }
  return {
    code,
    text: words,
    seq: number(said.seq),
    at: text(said.at) ?? now.toISOString(),
    detail: object(said.detail) ?? {}
  };
}

/** A `reprise_progress` laid over what was known: a resume goes on, or the start of a sandbox. */
export function withProgress(before: ISessionStatus, said: Said, heard: Date): ISessionStatus {
  if (said.over === true) {
    const back = before.state === 'resuming' || before.state === 'starting';
    return { ...before, state: back ? 'unknown' : before.state, text: null, resume: null, heard };
  }
  const doing = text(said.text);
  if (doing !== null) {
    return { ...before, state: 'starting', text: doing, heard };
  }
  return { ...before, state: 'resuming', text: null, resume: resume(said), heard };
}

function state(value: unknown): SessionState {
  const found = STATES.find(each => each === value);
  // "resting": no kernel holds it, which for a notebook's page is a kernel that is not there.
  return found ?? (value === 'resting' ? 'ended' : 'unknown');
}

function backend(said: Said | null): ISessionStatus['backend'] {
  const name = text(said?.name);
  if (said === null || name === null) {
    return null;
  }
  // Whatever does not say that it isolates counts as not isolating.
  return { name, isolated: said.isolated === true, isolation: text(said.isolation) ?? '' };
}

function environment(said: Said | null): ISessionStatus['environment'] {
  const name = text(said?.name);
  return name === null ? null : { name, digest: text(said?.digest) };
}

function snapshot(said: Said | null): ISessionStatus['snapshot'] {
  const seq = number(said?.seq);
  return seq === null ? null : { seq, at: text(said?.at), kind: text(said?.kind) ?? 'snapshot' };
}

function resume(said: Said | null): IResume | null {
  const done = number(said?.done);
  const total = number(said?.total);
  if (said === null || done === null || total === null) {
    return null;
  }
  const estimate = number(said.estimate_s);
  const elapsed = number(said.elapsed_s);
  const left = estimate !== null && elapsed !== null ? Math.max(0, estimate - elapsed) : null;
  return {
    done: Math.min(done, total),
    total,
    estimate,
    elapsed,
    remaining: number(said.remaining_s) ?? left,
    from: number(said.start_seq)
  };
}

function plan(said: Said | null): ISessionStatus['plan'] {
  const steps = number(said?.steps);
  const seconds = number(said?.estimate_s);
  return steps === null || seconds === null ? null : { steps, seconds };
}

function death(said: Said | null): IDeath | null {
  if (said === null) {
    return null;
  }
  return {
    seq: number(said.seq),
    what: text(said.what) ?? 'vanished',
    text: text(said.text) ?? '',
    limit: number(said.limit)
  };
}

function holder(said: Said | null): IHolder | null {
  return said === null
    ? null
    : {
        session: sessionOf(said),
        since: text(said.since),
        host: text(said.host),
        notebook: text(said.notebook)
      };
}

function staticFrom(said: Said): ISessionStatus['static'] {
  const output = object(said.output);
  if (output !== null) {
    return output.static === true ? { since: number(output.since), why: text(output.why) } : null;
  }
  const since = number(said.static);
  return since === null ? null : { since, why: null };
}

function network(said: Said | null): ISessionStatus['network'] {
  if (said === null) {
    return null;
  }
  const hosts = Array.isArray(said.hosts)
    ? said.hosts.filter(each => typeof each === 'string')
    : [];
  return { open: said.open === true, hosts, text: text(said.text) };
}

function back(said: Said | null): ISessionStatus['back'] {
  const seconds = number(said?.seconds);
  if (said === null || seconds === null) {
    return null;
  }
  const left = Array.isArray(said.left_out) ? said.left_out : [];
  return {
    at: text(said.at),
    seconds,
    steps: number(said.steps) ?? 0,
    leftOut: left.filter(each => typeof each === 'number')
  };
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

function number(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

function object(value: unknown): Said | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Said)
    : null;
}
