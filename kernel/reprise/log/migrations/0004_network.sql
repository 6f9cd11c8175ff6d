-- What was asked of the network, by which step, with which verdict. Append only; not part of the
-- chain, since neither hosts nor times come out of a replay as they were.

CREATE TABLE reprise.network (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          uuid    NOT NULL UNIQUE,        -- drawn by the writer: a repeated write stores once
    session     uuid    NOT NULL,
    owner       text    NOT NULL,
    epoch       bigint  NOT NULL,
    seq         bigint,                         -- NULL: between steps
    event       bigint  NOT NULL,               -- the event that was to come next
    place       bigint  NOT NULL,               -- seq, or of what came between steps the one before
    at          bigint  NOT NULL,
    verdict     text    NOT NULL CHECK (verdict IN ('allowed','refused','failed','served')),
    replay      boolean NOT NULL,
    bytes_up    bigint  NOT NULL CHECK (bytes_up >= 0),
    bytes_down  bigint  NOT NULL CHECK (bytes_down >= 0),
    -- [host, port, address, via, reason, duration_us, detail]; json keeps what text cannot (NUL)
    body        json    NOT NULL
);
CREATE INDEX network_by_session ON reprise.network (session, number);

-- event and place are the log's to say, not the writer's.
CREATE FUNCTION reprise.admit_network() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT h.next_event, coalesce(NEW.seq, h.next_seq - 1) INTO NEW.event, NEW.place
      FROM reprise.heads h
     WHERE h.session = NEW.session AND h.owner = NEW.owner
       AND h.epoch = NEW.epoch AND h.backend_pid = pg_backend_pid()
       AND (NEW.seq IS NULL OR (NEW.seq >= 0 AND NEW.seq < h.next_seq));
    IF NOT FOUND THEN
        PERFORM reprise.refuse_append(NEW.session, NEW.epoch);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER admit BEFORE INSERT ON reprise.network
    FOR EACH ROW EXECUTE FUNCTION reprise.admit_network();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON reprise.network
    FOR EACH ROW EXECUTE FUNCTION reprise.refuse_change();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON reprise.network
    FOR EACH STATEMENT EXECUTE FUNCTION reprise.refuse_change();

-- Deletes a whole session, as in 0002; with its rows here.
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
    DELETE FROM reprise.bindings  WHERE session = of_session;
    DELETE FROM reprise.artifacts WHERE session = of_session;
    DELETE FROM reprise.states    WHERE session = of_session;
    DELETE FROM reprise.heads     WHERE session = of_session;
    DELETE FROM reprise.sessions  WHERE id = of_session;
END $$;

REVOKE ALL ON FUNCTION reprise.admit_network() FROM PUBLIC;
GRANT SELECT, INSERT ON reprise.network TO reprise_kernel;
