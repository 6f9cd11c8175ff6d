-- The log: sessions, steps, outcomes, outputs, and the triggers that hold its invariants.
--
-- Run as reprise_owner, which owns everything here. reprise_kernel may INSERT and SELECT; what
-- must change in place (a session's head) is changed only by triggers and functions of the owner.
-- SQLSTATEs of our own: RP001 stale writer, RP002 malformed append, RP003 append-only.

CREATE TABLE reprise.sessions (
    id          uuid   PRIMARY KEY,
    owner       text   NOT NULL,
    created_at  bigint NOT NULL,           -- microseconds since the epoch, as all times here
    notebook    text,
    kernel      text   NOT NULL,
    parent      uuid   REFERENCES reprise.sessions,
    fork_seq    bigint,
    UNIQUE (owner, id),
    CHECK ((parent IS NULL) = (fork_seq IS NULL))
);
CREATE INDEX sessions_by_parent ON reprise.sessions (parent) WHERE parent IS NOT NULL;

-- One row a session: where its log ends and who may go on. fillfactor: each append updates the
-- row, and free room in its page keeps such updates from touching the index.
CREATE TABLE reprise.heads (
    session     uuid   PRIMARY KEY REFERENCES reprise.sessions,
    owner       text   NOT NULL,
    next_event  bigint NOT NULL DEFAULT 0,
    next_seq    bigint NOT NULL DEFAULT 0,
    next_output bigint NOT NULL DEFAULT 0,
    chain       bytea  NOT NULL DEFAULT sha256('reprise-log-1') CHECK (octet_length(chain) = 32),
    last_at     bigint NOT NULL,
    epoch       bigint NOT NULL DEFAULT 0,
    writer      uuid,
    backend_pid integer,
    holder      json,
    since       bigint
) WITH (fillfactor = 20);

CREATE TABLE reprise.steps (
    session     uuid   NOT NULL,
    seq         bigint NOT NULL CHECK (seq >= 0),
    event       bigint NOT NULL CHECK (event >= seq),
    owner       text   NOT NULL,
    epoch       bigint NOT NULL,
    kind        text   NOT NULL CHECK (kind IN ('cell','command','upload','mount','comm','restart')),
    environment text   NOT NULL,
    tree        text,                       -- of a restart step
    at          bigint NOT NULL,
    body        json   NOT NULL,            -- the canonical text, byte for byte what is hashed
    size        integer GENERATED ALWAYS AS (octet_length(body::text)) STORED,
    digest      bytea  NOT NULL CHECK (octet_length(digest) = 32),
    PRIMARY KEY (session, seq),
    UNIQUE (session, event)
);

CREATE TABLE reprise.outcomes (
    session     uuid   NOT NULL,
    seq         bigint NOT NULL,
    event       bigint NOT NULL CHECK (event > seq),
    owner       text   NOT NULL,
    epoch       bigint NOT NULL,
    status      text   NOT NULL
                CHECK (status IN ('ok','error','interrupted','timeout','died','lost')),
    duration_us bigint NOT NULL CHECK (duration_us >= 0),
    execution_count bigint,
    at          bigint NOT NULL,
    body        json   NOT NULL,
    size        integer GENERATED ALWAYS AS (octet_length(body::text)) STORED,
    chain       bytea  NOT NULL CHECK (octet_length(chain) = 32),
    PRIMARY KEY (session, seq),             -- one outcome a step
    UNIQUE (session, event)
);

-- Batches of outputs; `number` counts all batches of the session, gapless.
CREATE TABLE reprise.outputs (
    session     uuid    NOT NULL,
    seq         bigint  NOT NULL,
    number      bigint  NOT NULL CHECK (number >= 0),
    event       bigint  NOT NULL,           -- the event that was to come next
    owner       text    NOT NULL,
    epoch       bigint  NOT NULL,
    late        boolean NOT NULL,
    body        json    NOT NULL,           -- a JSON array of entries
    size        integer GENERATED ALWAYS AS (octet_length(body::text)) STORED,
    PRIMARY KEY (session, seq, number)
);
CREATE INDEX late_outputs ON reprise.outputs (session, event, number) WHERE late;

CREATE TABLE reprise.bindings (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner       text   NOT NULL,
    key         text   NOT NULL,
    session     uuid   NOT NULL,
    at          bigint NOT NULL,
    FOREIGN KEY (owner, session) REFERENCES reprise.sessions (owner, id)
);
CREATE INDEX bindings_latest ON reprise.bindings (owner, key, number DESC);
CREATE INDEX bindings_by_session ON reprise.bindings (owner, session);

CREATE TABLE reprise.notices (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session     uuid   NOT NULL,
    owner       text   NOT NULL,
    epoch       bigint NOT NULL,
    seq         bigint,
    at          bigint NOT NULL,
    code        text   NOT NULL,
    body        json   NOT NULL             -- [text, detail]; json keeps what text cannot (NUL)
);
CREATE INDEX notices_by_session ON reprise.notices (session, number);

CREATE TABLE reprise.environments (
    owner       text   NOT NULL,
    digest      text   NOT NULL,
    spec        json   NOT NULL,
    PRIMARY KEY (owner, digest)
);

CREATE TABLE reprise.blobs (
    owner       text   NOT NULL,
    sha256      bytea  NOT NULL CHECK (octet_length(sha256) = 32),
    size        bigint NOT NULL CHECK (size >= 0),
    data        bytea,                      -- NULL: the bytes are in a file
    PRIMARY KEY (owner, sha256),
    CHECK (data IS NULL OR octet_length(data) = size),
    CHECK (data IS NULL OR sha256(data) = sha256)
);

-- What was deleted, and by whom. Without a row here no step can be deleted.
CREATE TABLE reprise.deletions (
    session     uuid   PRIMARY KEY,
    owner       text   NOT NULL,
    by          text   NOT NULL DEFAULT session_user,
    at          timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Large values skip the slow built-in compression: lz4 where this server has it, else none.
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['steps', 'outcomes', 'outputs'] LOOP
        BEGIN
            EXECUTE format('ALTER TABLE reprise.%I ALTER COLUMN body SET COMPRESSION lz4', name);
        EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
            EXECUTE format('ALTER TABLE reprise.%I ALTER COLUMN body SET STORAGE EXTERNAL', name);
        END;
    END LOOP;
END $$;
ALTER TABLE reprise.blobs ALTER COLUMN data SET STORAGE EXTERNAL;

-- Append only -----------------------------------------------------------------------------------

CREATE FUNCTION reprise.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME <> 'deletions' THEN
        IF EXISTS (SELECT FROM reprise.deletions d WHERE d.session = OLD.session) THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION '% on reprise.% is refused: the log is append only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'RP003',
              HINT = 'A whole session is deleted with reprise.delete_session(id).';
END $$;

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['steps', 'outcomes', 'outputs', 'deletions'] LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON reprise.%I
                        FOR EACH ROW EXECUTE FUNCTION reprise.refuse_change()', name);
        EXECUTE format('CREATE TRIGGER no_truncate BEFORE TRUNCATE ON reprise.%I
                        FOR EACH STATEMENT EXECUTE FUNCTION reprise.refuse_change()', name);
    END LOOP;
END $$;

-- One writer, one order ---------------------------------------------------------------------------

CREATE FUNCTION reprise.lock_key(session uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended(session::text, 0) $$;

CREATE FUNCTION reprise.lock_holder(session uuid) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT l.pid FROM pg_locks l
     WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND ((l.classid::bigint << 32) | l.objid::bigint) = reprise.lock_key(session)
     LIMIT 1
$$;

CREATE FUNCTION reprise.open_head() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO reprise.heads (session, owner, last_at) VALUES (NEW.id, NEW.owner, NEW.created_at);
    RETURN NULL;
END $$;
CREATE TRIGGER open_head AFTER INSERT ON reprise.sessions
    FOR EACH ROW EXECUTE FUNCTION reprise.open_head();

-- Takes the session for the calling connection, which must hold the session's advisory lock.
-- previous: NULL takes it from whoever had it; else only if that writer still has it.
CREATE FUNCTION reprise.take_lease(
    of_session uuid, of_owner text, new_writer uuid, new_holder json, taken_at bigint,
    previous uuid DEFAULT NULL
) RETURNS reprise.heads
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE head reprise.heads;
BEGIN
    IF reprise.lock_holder(of_session) IS DISTINCT FROM pg_backend_pid() THEN
        RAISE EXCEPTION 'this connection does not hold the lock of session %', of_session
            USING ERRCODE = 'RP001';
    END IF;
    UPDATE reprise.heads h
       SET epoch = h.epoch + 1, writer = new_writer, backend_pid = pg_backend_pid(),
           holder = new_holder, since = CASE WHEN h.writer = previous THEN h.since ELSE taken_at END
     WHERE h.session = of_session AND h.owner = of_owner
       AND (previous IS NULL OR h.writer = previous)
    RETURNING h.* INTO head;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'session % was taken over by another writer', of_session
            USING ERRCODE = 'RP001';
    END IF;
    RETURN head;
END $$;

CREATE FUNCTION reprise.refuse_append(of_session uuid, by_epoch bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE head reprise.heads;
BEGIN
    SELECT * INTO head FROM reprise.heads h WHERE h.session = of_session;
    IF head.epoch IS DISTINCT FROM by_epoch OR head.backend_pid IS DISTINCT FROM pg_backend_pid() THEN
        RAISE EXCEPTION 'session % is no longer written by this connection (epoch %, now %)',
            of_session, by_epoch, head.epoch USING ERRCODE = 'RP001';
    END IF;
    RAISE EXCEPTION 'the append does not follow the head of session % (event %, step %, output %)',
        of_session, head.next_event, head.next_seq, head.next_output USING ERRCODE = 'RP002';
END $$;

CREATE FUNCTION reprise.admit_step() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE reprise.heads h
       SET next_event = h.next_event + 1, next_seq = h.next_seq + 1,
           chain = NEW.digest, last_at = NEW.at
     WHERE h.session = NEW.session AND h.owner = NEW.owner
       AND h.epoch = NEW.epoch AND h.backend_pid = pg_backend_pid()
       AND h.next_event = NEW.event AND h.next_seq = NEW.seq
       AND NEW.digest = sha256(h.chain || convert_to(NEW.body::text, 'UTF8'));
    IF NOT FOUND THEN
        PERFORM reprise.refuse_append(NEW.session, NEW.epoch);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER admit BEFORE INSERT ON reprise.steps
    FOR EACH ROW EXECUTE FUNCTION reprise.admit_step();

CREATE FUNCTION reprise.admit_outcome() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE reprise.heads h
       SET next_event = h.next_event + 1, chain = NEW.chain, last_at = NEW.at
     WHERE h.session = NEW.session AND h.owner = NEW.owner
       AND h.epoch = NEW.epoch AND h.backend_pid = pg_backend_pid()
       AND h.next_event = NEW.event AND NEW.seq >= 0 AND NEW.seq < h.next_seq
       AND NEW.chain = sha256(h.chain || convert_to(NEW.body::text, 'UTF8'));
    IF NOT FOUND THEN
        PERFORM reprise.refuse_append(NEW.session, NEW.epoch);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER admit BEFORE INSERT ON reprise.outcomes
    FOR EACH ROW EXECUTE FUNCTION reprise.admit_outcome();

CREATE FUNCTION reprise.admit_outputs() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE reprise.heads h
       SET next_output = h.next_output + 1
     WHERE h.session = NEW.session AND h.owner = NEW.owner
       AND h.epoch = NEW.epoch AND h.backend_pid = pg_backend_pid()
       AND h.next_event = NEW.event AND h.next_output = NEW.number
       AND NEW.seq >= 0 AND NEW.seq < h.next_seq
       AND NEW.late = EXISTS (SELECT FROM reprise.outcomes o
                               WHERE o.session = NEW.session AND o.seq = NEW.seq);
    IF NOT FOUND THEN
        PERFORM reprise.refuse_append(NEW.session, NEW.epoch);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER admit BEFORE INSERT ON reprise.outputs
    FOR EACH ROW EXECUTE FUNCTION reprise.admit_outputs();

CREATE FUNCTION reprise.admit_notice() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM reprise.heads h
      WHERE h.session = NEW.session AND h.owner = NEW.owner
        AND h.epoch = NEW.epoch AND h.backend_pid = pg_backend_pid();
    IF NOT FOUND THEN
        PERFORM reprise.refuse_append(NEW.session, NEW.epoch);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER admit BEFORE INSERT ON reprise.notices
    FOR EACH ROW EXECUTE FUNCTION reprise.admit_notice();

-- The last outputs of a step and its outcome, in one round trip.
CREATE FUNCTION reprise.record_outcome(
    of_session uuid, of_seq bigint, at_event bigint, of_owner text, by_epoch bigint,
    with_status text, took_us bigint, prompt bigint, ended_at bigint, with_body json,
    with_chain bytea, output_number bigint, last_outputs json
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO reprise.outputs (session, seq, number, event, owner, epoch, late, body)
        VALUES (of_session, of_seq, output_number, at_event, of_owner, by_epoch, false,
                last_outputs);
    INSERT INTO reprise.outcomes
            (session, seq, event, owner, epoch, status, duration_us, execution_count, at, body,
             chain)
        VALUES (of_session, of_seq, at_event, of_owner, by_epoch, with_status, took_us, prompt,
                ended_at, with_body, with_chain);
END $$;

-- Deletes a whole session; refuses while a fork needs its steps or someone writes it.
CREATE FUNCTION reprise.delete_session(of_session uuid) RETURNS void
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
    IF EXISTS (SELECT FROM reprise.sessions s WHERE s.parent = of_session) THEN
        RAISE EXCEPTION 'session % has forks that need its steps; delete them first', of_session
            USING ERRCODE = 'object_in_use';
    END IF;
    INSERT INTO reprise.deletions (session, owner) VALUES (of_session, of_owner);
    DELETE FROM reprise.outputs  WHERE session = of_session;
    DELETE FROM reprise.outcomes WHERE session = of_session;
    DELETE FROM reprise.steps    WHERE session = of_session;
    DELETE FROM reprise.notices  WHERE session = of_session;
    DELETE FROM reprise.bindings WHERE session = of_session;
    DELETE FROM reprise.heads    WHERE session = of_session;
    DELETE FROM reprise.sessions WHERE id = of_session;
END $$;

-- Rights ------------------------------------------------------------------------------------------

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA reprise FROM PUBLIC;
GRANT USAGE ON SCHEMA reprise TO reprise_kernel;
GRANT SELECT ON ALL TABLES IN SCHEMA reprise TO reprise_kernel;
GRANT INSERT ON reprise.sessions, reprise.steps, reprise.outcomes, reprise.outputs,
                reprise.bindings, reprise.notices, reprise.environments, reprise.blobs
    TO reprise_kernel;
GRANT EXECUTE ON FUNCTION
    reprise.lock_key(uuid), reprise.lock_holder(uuid),
    reprise.take_lease(uuid, text, uuid, json, bigint, uuid),
    reprise.record_outcome(uuid, bigint, bigint, text, bigint, text, bigint, bigint, bigint,
                           json, bytea, bigint, json)
    TO reprise_kernel;
