-- Forks, idempotency keys, artifacts, recorded states, and what deletion and collection need.
--
-- A fork shares a prefix of *events* with its parent, and no row is copied: visible in it are the
-- parent's own visible events below fork_event, and its own events from there on. SQLSTATE of our
-- own, beside those of 0001: RP004 a blob that is named is not stored.

-- Lineage -----------------------------------------------------------------------------------------

ALTER TABLE reprise.sessions
    ADD COLUMN fork_event bigint,
    ADD CONSTRAINT sessions_fork CHECK (
        (parent IS NULL) = (fork_event IS NULL)
        AND fork_event >= 0 AND fork_seq >= -1 AND (fork_event = 0) = (fork_seq = -1)),
    ADD CONSTRAINT sessions_one_owner
        FOREIGN KEY (owner, parent) REFERENCES reprise.sessions (owner, id);

-- The first step of the session's own; those below it are shared.
ALTER TABLE reprise.heads ADD COLUMN first_seq bigint NOT NULL DEFAULT 0;

-- The parts that a session's history is made of: each stands in one session, from its own first
-- event and step to those where the next part begins.
CREATE FUNCTION reprise.line(of_session uuid)
RETURNS TABLE (session uuid, first_event bigint, end_event bigint, first_seq bigint, end_seq bigint)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE line AS (
        SELECT s.id, s.parent, coalesce(s.fork_event, 0) AS first_event,
               9223372036854775807 AS end_event, h.first_seq, 9223372036854775807 AS end_seq
          FROM reprise.sessions s JOIN reprise.heads h ON h.session = s.id
         WHERE s.id = of_session
        UNION ALL
        SELECT p.id, p.parent, coalesce(p.fork_event, 0), l.first_event, h.first_seq, l.first_seq
          FROM line l
          JOIN reprise.sessions p ON p.id = l.parent
          JOIN reprise.heads h ON h.session = p.id
         WHERE l.first_event > 0
    )
    SELECT l.id, l.first_event, l.end_event, l.first_seq, l.end_seq FROM line l
$$;

CREATE FUNCTION reprise.has_outcome(of_session uuid, of_seq bigint, before_event bigint)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM reprise.line(of_session) g
          JOIN reprise.outcomes o ON o.session = g.session AND o.seq = of_seq
                                 AND o.event < g.end_event AND o.event < before_event)
$$;

-- The environment that a fork without steps of its own was left in.
CREATE FUNCTION reprise.shared_environment(of_session uuid, of_seq bigint)
RETURNS text LANGUAGE sql STABLE AS $$
    SELECT t.environment
      FROM reprise.line(of_session) g
      JOIN reprise.steps t ON t.session = g.session AND t.seq = of_seq
     WHERE of_seq >= g.first_seq AND of_seq < g.end_seq
$$;

-- A session begins with a head; that of a fork stands where its parent's history is left.
CREATE OR REPLACE FUNCTION reprise.open_head() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    of_owner text;
    chain_there bytea;
    steps_there bigint;
BEGIN
    IF NEW.parent IS NULL OR NEW.fork_event = 0 THEN
        INSERT INTO reprise.heads (session, owner, last_at)
            VALUES (NEW.id, NEW.owner, NEW.created_at);
        RETURN NULL;
    END IF;
    -- Also keeps the parent from being deleted until the fork is there.
    SELECT s.owner INTO of_owner FROM reprise.sessions s WHERE s.id = NEW.parent FOR KEY SHARE;
    IF of_owner IS DISTINCT FROM NEW.owner THEN
        RAISE EXCEPTION 'session % is not there to be forked', NEW.parent USING ERRCODE = 'RP002';
    END IF;
    SELECT s.digest INTO chain_there FROM reprise.steps s
     WHERE s.session = NEW.parent AND s.event = NEW.fork_event - 1;
    IF NOT FOUND THEN
        SELECT o.chain INTO chain_there FROM reprise.outcomes o
         WHERE o.session = NEW.parent AND o.event = NEW.fork_event - 1;
    END IF;
    IF chain_there IS NULL THEN
        RAISE EXCEPTION 'session % has no event % of its own', NEW.parent, NEW.fork_event - 1
            USING ERRCODE = 'RP002';
    END IF;
    SELECT s.seq + 1 INTO steps_there FROM reprise.steps s
     WHERE s.session = NEW.parent AND s.event < NEW.fork_event ORDER BY s.event DESC LIMIT 1;
    IF NOT FOUND THEN
        SELECT h.first_seq INTO steps_there FROM reprise.heads h WHERE h.session = NEW.parent;
    END IF;
    IF NEW.fork_seq >= steps_there
       OR NOT reprise.has_outcome(NEW.parent, NEW.fork_seq, NEW.fork_event) THEN
        RAISE EXCEPTION 'step % of session % has not ended at event %',
            NEW.fork_seq, NEW.parent, NEW.fork_event - 1 USING ERRCODE = 'RP002';
    END IF;
    INSERT INTO reprise.heads (session, owner, next_event, next_seq, first_seq, chain, last_at)
        VALUES (NEW.id, NEW.owner, NEW.fork_event, steps_there, steps_there, chain_there,
                NEW.created_at);
    RETURN NULL;
END $$;

-- Idempotency keys --------------------------------------------------------------------------------

ALTER TABLE reprise.steps ADD COLUMN key text;
CREATE UNIQUE INDEX steps_by_key ON reprise.steps (session, key) WHERE key IS NOT NULL;

CREATE OR REPLACE FUNCTION reprise.admit_step() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE shared bigint;
BEGIN
    UPDATE reprise.heads h
       SET next_event = h.next_event + 1, next_seq = h.next_seq + 1,
           chain = NEW.digest, last_at = NEW.at
     WHERE h.session = NEW.session AND h.owner = NEW.owner
       AND h.epoch = NEW.epoch AND h.backend_pid = pg_backend_pid()
       AND h.next_event = NEW.event AND h.next_seq = NEW.seq
       AND NEW.digest = sha256(h.chain || convert_to(NEW.body::text, 'UTF8'))
    RETURNING h.first_seq INTO shared;
    IF NOT FOUND THEN
        PERFORM reprise.refuse_append(NEW.session, NEW.epoch);
    END IF;
    IF NEW.key IS NOT NULL AND shared > 0 THEN
        PERFORM FROM reprise.line(NEW.session) g
           JOIN reprise.steps t ON t.session = g.session AND t.key = NEW.key AND t.seq < g.end_seq;
        IF FOUND THEN
            RAISE EXCEPTION 'a step with this key is shared with the session it was forked from'
                USING ERRCODE = 'unique_violation', CONSTRAINT = 'steps_by_key';
        END IF;
    END IF;
    RETURN NEW;
END $$;

-- Outcomes and late outputs of shared steps ---------------------------------------------------------

CREATE OR REPLACE FUNCTION reprise.admit_outcome() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE reprise.heads h
       SET next_event = h.next_event + 1, chain = NEW.chain, last_at = NEW.at
     WHERE h.session = NEW.session AND h.owner = NEW.owner
       AND h.epoch = NEW.epoch AND h.backend_pid = pg_backend_pid()
       AND h.next_event = NEW.event AND NEW.seq >= 0 AND NEW.seq < h.next_seq
       AND NEW.chain = sha256(h.chain || convert_to(NEW.body::text, 'UTF8'))
       -- Of a step of its own the primary key refuses a second one.
       AND CASE WHEN NEW.seq < h.first_seq
                THEN NOT reprise.has_outcome(NEW.session, NEW.seq, NEW.event) ELSE true END;
    IF NOT FOUND THEN
        PERFORM reprise.refuse_append(NEW.session, NEW.epoch);
    END IF;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION reprise.admit_outputs() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE reprise.heads h
       SET next_output = h.next_output + 1
     WHERE h.session = NEW.session AND h.owner = NEW.owner
       AND h.epoch = NEW.epoch AND h.backend_pid = pg_backend_pid()
       AND h.next_event = NEW.event AND h.next_output = NEW.number
       AND NEW.seq >= 0 AND NEW.seq < h.next_seq
       AND NEW.late = CASE WHEN NEW.seq < h.first_seq
                           THEN reprise.has_outcome(NEW.session, NEW.seq, NEW.event)
                           ELSE EXISTS (SELECT FROM reprise.outcomes o
                                         WHERE o.session = NEW.session AND o.seq = NEW.seq) END;
    IF NOT FOUND THEN
        PERFORM reprise.refuse_append(NEW.session, NEW.epoch);
    END IF;
    RETURN NEW;
END $$;

-- Artifacts and recorded states -------------------------------------------------------------------

CREATE TABLE reprise.artifacts (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          uuid   NOT NULL UNIQUE,
    owner       text   NOT NULL,
    session     uuid   NOT NULL,
    seq         bigint NOT NULL CHECK (seq >= -1),  -- the last step when it was taken
    sha256      bytea  NOT NULL,
    size        bigint NOT NULL CHECK (size >= 0),
    mode        integer NOT NULL,
    at          bigint NOT NULL,
    body        json   NOT NULL,            -- [path, actor]; json keeps what text cannot (NUL)
    FOREIGN KEY (owner, session) REFERENCES reprise.sessions (owner, id),
    FOREIGN KEY (owner, sha256) REFERENCES reprise.blobs (owner, sha256)
);
CREATE INDEX artifacts_by_session ON reprise.artifacts (owner, session);
CREATE INDEX artifacts_by_blob ON reprise.artifacts (owner, sha256);

-- What stood in a live sandbox after a step. Of several for one step the last counts.
CREATE TABLE reprise.states (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner       text   NOT NULL,
    session     uuid   NOT NULL,
    epoch       bigint NOT NULL,
    seq         bigint NOT NULL CHECK (seq >= -1),
    at          bigint NOT NULL,
    files       bytea,                      -- the manifest of the workspace
    variables   json,
    FOREIGN KEY (owner, files) REFERENCES reprise.blobs (owner, sha256)
);
CREATE INDEX states_by_session ON reprise.states (session, seq, number);
CREATE INDEX states_by_blob ON reprise.states (owner, files) WHERE files IS NOT NULL;
CREATE TRIGGER admit BEFORE INSERT ON reprise.states
    FOR EACH ROW EXECUTE FUNCTION reprise.admit_notice();

-- Collection --------------------------------------------------------------------------------------

-- When somebody last stored this blob, asked for it in order to name it, or named it. now(), so
-- that adding the column rewrites nothing.
ALTER TABLE reprise.blobs ADD COLUMN touched_at timestamptz NOT NULL DEFAULT now();

-- Those of the names that are stored, and from now on as good as stored anew: a collection leaves
-- alone what was touched within its grace (an hour at least). Touched anew only after ten minutes,
-- so that asking often costs no write. A row that is just being deleted is waited for.
CREATE FUNCTION reprise.touch_blobs(of_owner text, names bytea[])
RETURNS TABLE (sha256 bytea, size bigint, in_file boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    WITH stale AS (
        -- In one order, so that two of them never wait for each other.
        SELECT b.sha256 FROM reprise.blobs b
         WHERE b.owner = of_owner AND b.sha256 = ANY (names)
           AND b.touched_at < clock_timestamp() - interval '10 minutes'
         ORDER BY b.sha256 FOR NO KEY UPDATE
    )
    UPDATE reprise.blobs b SET touched_at = clock_timestamp()
      FROM stale WHERE b.owner = of_owner AND b.sha256 = stale.sha256;
    RETURN QUERY SELECT b.sha256, b.size, b.data IS NULL FROM reprise.blobs b
                  WHERE b.owner = of_owner AND b.sha256 = ANY (names);
END $$;

-- Deletion ----------------------------------------------------------------------------------------

-- A row allows the deletion of a session's rows in its own transaction only, so that a session that
-- comes back under the same id (an import) is append only again.
ALTER TABLE reprise.deletions
    DROP CONSTRAINT deletions_pkey,
    ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ADD COLUMN transaction xid8 DEFAULT pg_current_xact_id();
CREATE INDEX deletions_by_session ON reprise.deletions (session);

CREATE OR REPLACE FUNCTION reprise.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME <> 'deletions' THEN
        IF EXISTS (SELECT FROM reprise.deletions d
                    WHERE d.session = OLD.session AND d.transaction = pg_current_xact_id()) THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION '% on reprise.% is refused: the log is append only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'RP003',
              HINT = 'A whole session is deleted with reprise.delete_session(id).';
END $$;

-- Deletes a whole session; refuses while a fork needs its steps or someone writes it. Its blobs go
-- at the next collection.
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
    DELETE FROM reprise.bindings  WHERE session = of_session;
    DELETE FROM reprise.artifacts WHERE session = of_session;
    DELETE FROM reprise.states    WHERE session = of_session;
    DELETE FROM reprise.heads     WHERE session = of_session;
    DELETE FROM reprise.sessions  WHERE id = of_session;
END $$;

-- Rights ------------------------------------------------------------------------------------------

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA reprise FROM PUBLIC;
GRANT SELECT, INSERT ON reprise.artifacts, reprise.states TO reprise_kernel;
GRANT EXECUTE ON FUNCTION
    reprise.line(uuid), reprise.has_outcome(uuid, bigint, bigint),
    reprise.shared_environment(uuid, bigint), reprise.touch_blobs(text, bytea[])
    TO reprise_kernel;
