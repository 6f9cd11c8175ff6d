-- Conversations with the agent, and the policies that bind it.
--
-- A conversation is an append-only chain of entries with one writer, as a session is one of steps.
-- Policies stand in the scopes of 0007; whoever may set one is looked up for session_user.
-- SQLSTATEs as in 0001 and 0007.

CREATE TABLE reprise.conversations (
    id          uuid   PRIMARY KEY,
    owner       text   NOT NULL,
    session     uuid   NOT NULL,           -- the one it began in, which may be deleted since
    notebook    text,
    title       text   NOT NULL CHECK (length(title) <= 200),
    began_at    bigint NOT NULL,
    UNIQUE (owner, id)
);

CREATE TABLE reprise.conversation_heads (
    conversation uuid   PRIMARY KEY REFERENCES reprise.conversations,
    owner       text   NOT NULL,
    session     uuid   NOT NULL,           -- the one that it is in now
    next_seq    bigint NOT NULL DEFAULT 0,
    turn        bigint NOT NULL DEFAULT 0,
    chain       bytea  NOT NULL DEFAULT sha256('reprise-conversation-1')
                CHECK (octet_length(chain) = 32),
    last_at     bigint NOT NULL,
    epoch       bigint NOT NULL DEFAULT 0,
    writer      uuid,
    backend_pid integer,
    holder      json,
    since       bigint
) WITH (fillfactor = 20);
CREATE INDEX conversation_heads_by_session ON reprise.conversation_heads (session);
CREATE INDEX conversation_heads_latest ON reprise.conversation_heads (owner, last_at DESC);

CREATE TABLE reprise.conversation_entries (
    conversation uuid   NOT NULL,
    seq         bigint NOT NULL CHECK (seq >= 0),
    turn        bigint NOT NULL CHECK (turn >= 0),
    owner       text   NOT NULL,
    epoch       bigint NOT NULL,
    kind        text   NOT NULL CHECK (kind IN (
                    'begun','session','said','notebook','state','asked','waiting','answered',
                    'called','question','decided','running','result','compacted','ended','continued',
                    'undone')),
    at          bigint NOT NULL,
    body        json   NOT NULL,           -- the canonical text, byte for byte what is hashed
    size        integer GENERATED ALWAYS AS (octet_length(body::text)) STORED,
    digest      bytea  NOT NULL CHECK (octet_length(digest) = 32),
    PRIMARY KEY (conversation, seq)
);

-- What was deleted, and by whom. Without a row of the same transaction no entry can be deleted.
CREATE TABLE reprise.conversation_deletions (
    conversation uuid  PRIMARY KEY,
    owner       text   NOT NULL,
    by          text   NOT NULL DEFAULT session_user,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    transaction xid8   NOT NULL DEFAULT pg_current_xact_id()
);

CREATE FUNCTION reprise.refuse_conversation_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME = 'conversation_entries' THEN
        IF EXISTS (SELECT FROM reprise.conversation_deletions d
                    WHERE d.conversation = OLD.conversation
                      AND d.transaction = pg_current_xact_id()) THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION '% on reprise.% is refused: conversations are append only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'RP003',
              HINT = 'A whole conversation is deleted with reprise.delete_conversation(id).';
END $$;

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['conversation_entries', 'conversation_deletions'] LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON reprise.%I
                        FOR EACH ROW EXECUTE FUNCTION reprise.refuse_conversation_change()', name);
        EXECUTE format('CREATE TRIGGER no_truncate BEFORE TRUNCATE ON reprise.%I
                        FOR EACH STATEMENT EXECUTE FUNCTION reprise.refuse_conversation_change()',
                       name);
    END LOOP;
    BEGIN
        ALTER TABLE reprise.conversation_entries ALTER COLUMN body SET COMPRESSION lz4;
    EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
        ALTER TABLE reprise.conversation_entries ALTER COLUMN body SET STORAGE EXTERNAL;
    END;
END $$;

CREATE FUNCTION reprise.open_conversation_head() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Also keeps the session from being deleted until the conversation is there.
    PERFORM FROM reprise.sessions s WHERE s.id = NEW.session AND s.owner = NEW.owner FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no session % of %', NEW.session, NEW.owner
            USING ERRCODE = 'RP002';
    END IF;
    INSERT INTO reprise.conversation_heads (conversation, owner, session, last_at)
        VALUES (NEW.id, NEW.owner, NEW.session, NEW.began_at);
    RETURN NULL;
END $$;
CREATE TRIGGER open_head AFTER INSERT ON reprise.conversations
    FOR EACH ROW EXECUTE FUNCTION reprise.open_conversation_head();

-- Takes the conversation for the calling connection, which must hold its advisory lock (the key is
-- made as a session's). previous: NULL takes it from whoever had it; else only if that writer has it.
CREATE FUNCTION reprise.take_conversation(
    of_conversation uuid, of_owner text, new_writer uuid, new_holder json, taken_at bigint,
    previous uuid DEFAULT NULL
) RETURNS reprise.conversation_heads
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE head reprise.conversation_heads;
BEGIN
    IF reprise.lock_holder(of_conversation) IS DISTINCT FROM pg_backend_pid() THEN
        RAISE EXCEPTION 'this connection does not hold the lock of conversation %', of_conversation
            USING ERRCODE = 'RP001';
    END IF;
    UPDATE reprise.conversation_heads h
       SET epoch = h.epoch + 1, writer = new_writer, backend_pid = pg_backend_pid(),
           holder = new_holder, since = CASE WHEN h.writer = previous THEN h.since ELSE taken_at END
     WHERE h.conversation = of_conversation AND h.owner = of_owner
       AND (previous IS NULL OR h.writer = previous)
    RETURNING h.* INTO head;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'conversation % was taken over by another writer', of_conversation
            USING ERRCODE = 'RP001';
    END IF;
    RETURN head;
END $$;

-- An entry follows the head: gapless, of its writer, of the turn at hand (or of the next, which a
-- 'said' begins), chained. A 'session' entry, and an undo, say where the conversation is from now on.
CREATE FUNCTION reprise.admit_entry() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE goes_on uuid;
BEGIN
    IF NEW.kind IN ('session', 'undone') THEN
        goes_on := (NEW.body ->> 'session')::uuid;
        PERFORM FROM reprise.sessions s WHERE s.id = goes_on AND s.owner = NEW.owner FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no session % of %', goes_on, NEW.owner
                USING ERRCODE = 'RP002';
        END IF;
    END IF;
    UPDATE reprise.conversation_heads h
       SET next_seq = h.next_seq + 1, turn = NEW.turn, chain = NEW.digest, last_at = NEW.at,
           session = coalesce(goes_on, h.session)
     WHERE h.conversation = NEW.conversation AND h.owner = NEW.owner
       AND h.epoch = NEW.epoch AND h.backend_pid = pg_backend_pid()
       AND h.next_seq = NEW.seq
       AND NEW.turn = h.turn + CASE WHEN NEW.kind = 'said' THEN 1 ELSE 0 END
       AND NEW.digest = sha256(h.chain || convert_to(
               format('%s %s %s %s ', NEW.seq, NEW.turn, NEW.kind, NEW.at) || NEW.body::text,
               'UTF8'));
    IF NOT FOUND THEN
        PERFORM FROM reprise.conversation_heads h
          WHERE h.conversation = NEW.conversation AND h.epoch = NEW.epoch
            AND h.backend_pid = pg_backend_pid();
        IF NOT FOUND THEN
            RAISE EXCEPTION 'conversation % is no longer written by this connection',
                NEW.conversation USING ERRCODE = 'RP001';
        END IF;
        RAISE EXCEPTION 'the entry % (%, turn %) does not follow the head of conversation %',
            NEW.seq, NEW.kind, NEW.turn, NEW.conversation USING ERRCODE = 'RP002';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER admit BEFORE INSERT ON reprise.conversation_entries
    FOR EACH ROW EXECUTE FUNCTION reprise.admit_entry();

-- Deletes a whole conversation; refuses while someone writes it.
CREATE FUNCTION reprise.delete_conversation(of_conversation uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE of_owner text;
BEGIN
    IF NOT pg_try_advisory_xact_lock(reprise.lock_key(of_conversation)) THEN
        RAISE EXCEPTION 'conversation % is being written; end its turn first', of_conversation
            USING ERRCODE = 'object_in_use';
    END IF;
    SELECT c.owner INTO of_owner FROM reprise.conversations c
     WHERE c.id = of_conversation FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no conversation %', of_conversation
            USING ERRCODE = 'no_data_found';
    END IF;
    INSERT INTO reprise.conversation_deletions (conversation, owner)
        VALUES (of_conversation, of_owner);
    DELETE FROM reprise.conversation_entries WHERE conversation = of_conversation;
    DELETE FROM reprise.conversation_heads   WHERE conversation = of_conversation;
    DELETE FROM reprise.conversations        WHERE id = of_conversation;
END $$;

-- Deletes a whole session, as in 0007; with the conversations that are in it now.
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
    PERFORM reprise.delete_conversation(h.conversation) FROM reprise.conversation_heads h
      WHERE h.session = of_session;
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
    UPDATE reprise.skill_uses SET session = NULL, seq = NULL, detail = NULL
     WHERE session = of_session;
END $$;

-- Policies ----------------------------------------------------------------------------------------

CREATE TABLE reprise.policies (
    scope       text   NOT NULL,
    version     bigint NOT NULL CHECK (version > 0),
    body        json   NOT NULL CHECK (octet_length(body::text) <= 262144),
    digest      bytea  NOT NULL,
    by          text   NOT NULL,
    at          bigint NOT NULL,
    note        text   NOT NULL CHECK (length(note) <= 1000),
    PRIMARY KEY (scope, version)
);

CREATE FUNCTION reprise.refuse_policy_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% on reprise.policies is refused: policies are append only', TG_OP
        USING ERRCODE = 'RP003', HINT = 'Set a new version with reprise.set_policy(scope, body).';
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON reprise.policies
    FOR EACH ROW EXECUTE FUNCTION reprise.refuse_policy_change();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON reprise.policies
    FOR EACH STATEMENT EXECUTE FUNCTION reprise.refuse_policy_change();

-- Sets the policy of a scope: one's own, or as an admin that of a team or the organisation.
-- after: the version that it follows, so that nobody sets over what he has not seen; NULL: any.
CREATE FUNCTION reprise.set_policy(in_scope text, new_body json, why text, after bigint)
RETURNS reprise.policies
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s' AS $$
DECLARE
    found reprise.policies;
    newest bigint;
BEGIN
    IF in_scope = 'organisation' OR starts_with(in_scope, 'team/') THEN
        IF session_user = 'reprise_kernel' THEN
            PERFORM reprise.need_skill_role(in_scope, ARRAY['admin'], 'set the policy of ' || in_scope);
        END IF;
        PERFORM reprise.need_skill_admin(in_scope, 'set the policy of ' || in_scope);
    ELSIF in_scope IS DISTINCT FROM 'personal/' || session_user THEN
        PERFORM reprise.refuse_skill('RP010',
            format('You (%s) cannot set the policy of %s. Nothing was changed.', session_user,
                   coalesce(in_scope, 'nothing')), 'Your own is personal.');
    ELSE
        PERFORM reprise.need_skill_role(in_scope, ARRAY['admin'], 'set your policy');
    END IF;
    IF new_body IS NULL OR json_typeof(new_body) <> 'object' THEN
        PERFORM reprise.refuse_skill('RP012', 'A policy is a JSON object. Nothing was changed.', '');
    END IF;
    -- Two at once: the second waits, and then follows the first or is told of it.
    LOCK TABLE reprise.policies IN SHARE ROW EXCLUSIVE MODE;
    SELECT coalesce(max(p.version), 0) INTO newest FROM reprise.policies p WHERE p.scope = in_scope;
    IF after IS NOT NULL AND after <> newest THEN
        PERFORM reprise.refuse_skill('RP012',
            format('The policy of %s is at version %s by now, not %s. Nothing was changed.',
                   in_scope, newest, after), 'Read it again, then set yours.');
    END IF;
    INSERT INTO reprise.policies (scope, version, body, digest, by, at, note)
        VALUES (in_scope, newest + 1, new_body, sha256(convert_to(new_body::text, 'UTF8')),
                session_user, reprise.skill_now(), coalesce(why, ''))
        RETURNING * INTO found;
    RETURN found;
END $$;

-- The newest policy of each scope that session_user is in.
CREATE FUNCTION reprise.policies_of_mine() RETURNS SETOF reprise.policies
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT DISTINCT ON (p.scope) p.* FROM reprise.policies p
     WHERE p.scope = ANY ((SELECT reprise.skill_scopes_read())::text[])
     ORDER BY p.scope, p.version DESC
$$;

CREATE FUNCTION reprise.policy_history(of_scope text) RETURNS SETOF reprise.policies
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF of_scope IS NULL OR of_scope <> ALL (reprise.skill_scopes_read()) THEN
        PERFORM reprise.refuse_skill('RP010',
            format('You (%s) are not in %s, or there is no such scope.', session_user, of_scope),
            'An admin of that scope can appoint you.');
    END IF;
    RETURN QUERY SELECT p.* FROM reprise.policies p WHERE p.scope = of_scope
                  ORDER BY p.version DESC;
END $$;

-- Rights ------------------------------------------------------------------------------------------

ALTER TABLE reprise.policies ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON reprise.policies FOR SELECT
    USING (scope = ANY ((SELECT reprise.skill_scopes_read())::text[]));

REVOKE ALL ON FUNCTION
    reprise.refuse_conversation_change(), reprise.open_conversation_head(), reprise.admit_entry(),
    reprise.take_conversation(uuid, text, uuid, json, bigint, uuid),
    reprise.delete_conversation(uuid), reprise.refuse_policy_change(),
    reprise.set_policy(text, json, text, bigint), reprise.policies_of_mine(),
    reprise.policy_history(text)
    FROM PUBLIC;
GRANT SELECT ON reprise.conversations, reprise.conversation_heads, reprise.conversation_entries,
                reprise.conversation_deletions TO reprise_kernel;
GRANT INSERT ON reprise.conversations, reprise.conversation_entries TO reprise_kernel;
GRANT EXECUTE ON FUNCTION
    reprise.take_conversation(uuid, text, uuid, json, bigint, uuid),
    reprise.set_policy(text, json, text, bigint), reprise.policies_of_mine(),
    reprise.policy_history(text)
    TO reprise_kernel;
