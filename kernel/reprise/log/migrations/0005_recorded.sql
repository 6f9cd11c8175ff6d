-- What hosts answered to the requests of a session's steps, for replays that do not touch the
-- network. Append only, and as little part of the chain as recorded states: it stands beside.

CREATE TABLE reprise.recorded (
    number      bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session     uuid    NOT NULL,
    owner       text    NOT NULL,
    epoch       bigint  NOT NULL,
    seq         bigint  NOT NULL CHECK (seq >= -1),  -- of what came between steps the one before
    idle        boolean NOT NULL,                    -- it came between steps
    key         bytea   NOT NULL CHECK (octet_length(key) = 32),
    nth         bigint  NOT NULL CHECK (nth >= 0),
    at          bigint  NOT NULL,
    state       text    NOT NULL CHECK (state IN ('whole','part','absent')),
    pieces      bytea[] NOT NULL,           -- the body's blobs, in order; no row names what is gone
    size        bigint  NOT NULL CHECK (size >= 0),
    -- [why, method, url, status, reason, headers, trailers]; json keeps what text cannot (NUL)
    body        json    NOT NULL,
    -- One answer to one request, however often its storing is tried.
    UNIQUE (session, seq, key, nth),
    FOREIGN KEY (owner, session) REFERENCES reprise.sessions (owner, id)
);
CREATE INDEX recorded_by_key ON reprise.recorded (session, key, nth);
CREATE INDEX recorded_by_owner ON reprise.recorded (owner);

CREATE FUNCTION reprise.admit_recorded() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM reprise.heads h
      WHERE h.session = NEW.session AND h.owner = NEW.owner
        AND h.epoch = NEW.epoch AND h.backend_pid = pg_backend_pid()
        AND NEW.seq < h.next_seq;
    IF NOT FOUND THEN
        PERFORM reprise.refuse_append(NEW.session, NEW.epoch);
    END IF;
    IF EXISTS (SELECT FROM unnest(NEW.pieces) AS p(sha256)
                WHERE NOT EXISTS (SELECT FROM reprise.blobs b
                                   WHERE b.owner = NEW.owner AND b.sha256 = p.sha256)) THEN
        RAISE EXCEPTION 'a recorded response names a blob that is not stored'
            USING ERRCODE = 'RP004';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER admit BEFORE INSERT ON reprise.recorded
    FOR EACH ROW EXECUTE FUNCTION reprise.admit_recorded();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON reprise.recorded
    FOR EACH ROW EXECUTE FUNCTION reprise.refuse_change();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON reprise.recorded
    FOR EACH STATEMENT EXECUTE FUNCTION reprise.refuse_change();

-- Deletes a whole session, as in 0004; with its rows here.
CREATE OR REPLACE FUNCTION reprise.delete_session(of_session uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE of_owner text;
BEGIN
    IF NOT pg_try_advisory_xact_lock(reprise.lock_key(of_session)) THEN
        RAISE EXCEPTION 'session % is being written; stop its kernel first', of_session
            USING ERRCODE = 'object_in_use';
    END IF;
    SELECT s.owner INTO of_owner FROM reprise.sessions s WHERE s.id = of_session FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no session %', of_session USING ERRCODE = 'no_data_found';
    END IF;
    IF EXISTS (SELECT FROM reprise.sessions s WHERE s.parent = of_session AND s.fork_event > 0) THEN
        RAISE EXCEPTION 'session % has forks that need its steps; delete them first', of_session
            USING ERRCODE = 'object_in_use';
    END IF;
    -- Forks that share nothing go on without a parent.
    UPDATE reprise.sessions s SET parent = NULL, fork_event = NULL, fork_seq = NULL
     WHERE s.parent = of_session;
    INSERT INTO reprise.deletions (session, owner) VALUES (of_session, of_owner);
    DELETE FROM reprise.outputs   WHERE session = of_session;
    DELETE FROM reprise.outcomes  WHERE session = of_session;
    DELETE FROM reprise.steps     WHERE session = of_session;
    DELETE FROM reprise.notices   WHERE session = of_session;
    DELETE FROM reprise.network   WHERE session = of_session;
    DELETE FROM reprise.recorded  WHERE session = of_session;
    DELETE FROM reprise.bindings  WHERE session = of_session;
    DELETE FROM reprise.artifacts WHERE session = of_session;
    DELETE FROM reprise.states    WHERE session = of_session;
    DELETE FROM reprise.heads     WHERE session = of_session;
    DELETE FROM reprise.sessions  WHERE id = of_session;
END $$;

REVOKE ALL ON FUNCTION reprise.admit_recorded() FROM PUBLIC;
GRANT SELECT, INSERT ON reprise.recorded TO reprise_kernel;
