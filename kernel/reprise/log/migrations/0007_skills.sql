-- The catalog of skills: versions in scopes, promotion, trust by digest, use.
--
-- Who asks is session_user, the login: SET ROLE and settings do not change it. A scope is written
-- 'personal/LOGIN', 'team/NAME' or 'organisation'. The kernel's role may read and write none of
-- these tables: it has functions, each of which looks up the rights of session_user itself.
-- Policies of row-level security stand behind them, for whom an operator lets read the tables. They
-- are not enough alone: comparisons that are leakproof (=, of text) come before a policy, and
-- EXPLAIN ANALYZE tells how many rows it took away, hence whether somebody has a certain digest.
--
-- Who holds a row in an open transaction makes others wait: five seconds at most, then they are told.
-- No advisory locks: those anybody may take.
--
-- SQLSTATEs of our own, beside those of 0001 and 0002; the message says what, the hint what to do:
-- RP010 not allowed, RP011 not found, RP012 not possible as things are, RP013 revoked, RP014 the
-- content is no skill's.

CREATE TABLE reprise.skill_teams (
    scope       text   PRIMARY KEY CHECK (scope ~ '^team/[a-z0-9]+([-_][a-z0-9]+)*$'
                                          AND length(scope) <= 69),
    by          text   NOT NULL,
    at          bigint NOT NULL
);

-- Of the organisation every login is a member without a row here.
CREATE TABLE reprise.skill_members (
    scope       text   NOT NULL CHECK (scope = 'organisation' OR starts_with(scope, 'team/')),
    login       text   NOT NULL,
    role        text   NOT NULL CHECK (role IN ('member','reviewer','admin')),
    PRIMARY KEY (scope, login)
);
CREATE INDEX skill_members_by_login ON reprise.skill_members (login);

-- Bytes, once per content, whoever added them.
CREATE TABLE reprise.skill_files (
    sha256      text   PRIMARY KEY,
    data        bytea  NOT NULL CHECK (encode(sha256(data), 'hex') = sha256)
);
ALTER TABLE reprise.skill_files ALTER COLUMN data SET STORAGE EXTERNAL;

-- words: of SKILL.md, for the search.
CREATE TABLE reprise.skill_contents (
    digest      text     PRIMARY KEY CHECK (digest ~ '^[0-9a-f]{64}$'),
    files       integer  NOT NULL,
    size        bigint   NOT NULL,
    words       tsvector NOT NULL
);

CREATE TABLE reprise.skill_paths (
    digest      text    NOT NULL REFERENCES reprise.skill_contents,
    path        text    NOT NULL,
    mode        integer NOT NULL CHECK (mode IN (420, 493)),       -- 0o644, 0o755
    sha256      text    NOT NULL REFERENCES reprise.skill_files,
    PRIMARY KEY (digest, path)
);

-- One row a skill of a scope: how many versions it has, which of them others get, and its words.
CREATE TABLE reprise.skill_heads (
    scope       text     NOT NULL,
    name        text     NOT NULL CHECK (name ~ '^[a-z0-9]+(-[a-z0-9]+)*$' AND length(name) <= 64),
    last        bigint   NOT NULL DEFAULT 0,
    current     bigint,                     -- NULL: none is published, or all are revoked
    digest      text,                       -- of the current one
    head        tsvector,                   -- of name (A) and description (B)
    words       tsvector,                   -- these and the body (D)
    PRIMARY KEY (scope, name)
);
CREATE INDEX skill_heads_by_head ON reprise.skill_heads USING gin (head);
CREATE INDEX skill_heads_by_words ON reprise.skill_heads USING gin (words);

CREATE TABLE reprise.skill_versions (
    scope       text    NOT NULL,
    name        text    NOT NULL,
    number      bigint  NOT NULL CHECK (number > 0),
    digest      text    NOT NULL REFERENCES reprise.skill_contents,
    description text    NOT NULL CHECK (description <> '' AND length(description) <= 16384),
    state       text    NOT NULL CHECK (state IN ('draft','reviewed','published')),
    deprecated  boolean NOT NULL DEFAULT false,
    by          text    NOT NULL,
    at          bigint  NOT NULL,
    origin      json    NOT NULL CHECK (octet_length(origin::text) <= 16384),
    note        text    NOT NULL CHECK (length(note) <= 10000),
    from_scope  text,                       -- of the version that was promoted or restored
    from_number bigint,
    PRIMARY KEY (scope, name, number),
    FOREIGN KEY (scope, name) REFERENCES reprise.skill_heads (scope, name),
    FOREIGN KEY (from_scope, name, from_number)
        REFERENCES reprise.skill_versions (scope, name, number),
    CHECK ((from_scope IS NULL) = (from_number IS NULL))
);
CREATE INDEX skill_versions_by_digest ON reprise.skill_versions (digest);

CREATE TABLE reprise.skill_promotions (
    id          uuid   PRIMARY KEY,
    name        text   NOT NULL,
    to_scope    text   NOT NULL,
    to_number   bigint NOT NULL,
    by          text   NOT NULL,
    at          bigint NOT NULL,
    note        text   NOT NULL,
    FOREIGN KEY (to_scope, name, to_number) REFERENCES reprise.skill_versions (scope, name, number),
    UNIQUE (to_scope, name, to_number)
);

-- Every act, by whom and why. What was decided of a digest or a promotion is read from here.
CREATE TABLE reprise.skill_events (
    event       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    act         text   NOT NULL CHECK (act IN (
                    'add','ask','approve','refuse','withdraw','release','deprecate','undeprecate',
                    'restore','trust','distrust','revoke','reinstate','team','appoint','dismiss')),
    scope       text   NOT NULL,
    name        text,
    number      bigint,
    digest      text,
    promotion   uuid   REFERENCES reprise.skill_promotions,
    login       text,                       -- who was appointed or dismissed
    role        text,
    by          text   NOT NULL,
    at          bigint NOT NULL,
    reason      text   NOT NULL CHECK (length(reason) <= 10000)
);
CREATE INDEX skill_events_of_skill ON reprise.skill_events (scope, name, event);
CREATE INDEX skill_events_of_digest ON reprise.skill_events (digest, scope, event)
    WHERE act IN ('trust','distrust','revoke','reinstate');
-- A promotion is decided once.
CREATE UNIQUE INDEX skill_decisions ON reprise.skill_events (promotion)
    WHERE act IN ('approve','refuse','withdraw');

CREATE TABLE reprise.skill_uses (
    use         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest      text   NOT NULL CHECK (digest ~ '^[0-9a-f]{64}$'),
    what        text   NOT NULL CHECK (what IN ('load','mount','run','failure')),
    by          text   NOT NULL,
    at          bigint NOT NULL,
    session     uuid,
    seq         bigint,
    detail      json   CHECK (octet_length(detail::text) <= 16384)
);
CREATE INDEX skill_uses_of_digest ON reprise.skill_uses (digest, by);
CREATE INDEX skill_uses_of_session ON reprise.skill_uses (session) WHERE session IS NOT NULL;
-- One step counts once, however often its counting is tried.
CREATE UNIQUE INDEX skill_uses_once ON reprise.skill_uses (by, session, seq, digest, what)
    WHERE session IS NOT NULL AND seq IS NOT NULL;

-- Append only -------------------------------------------------------------------------------------

CREATE FUNCTION reprise.refuse_skill_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'skill_versions' THEN
        -- A version goes forward, and is deprecated; nothing else of it ever changes.
        IF array_position(ARRAY['draft','reviewed','published'], NEW.state)
               >= array_position(ARRAY['draft','reviewed','published'], OLD.state)
           AND (NEW.scope, NEW.name, NEW.number, NEW.digest, NEW.description, NEW."by", NEW.at,
                NEW.origin::text, NEW.note, NEW.from_scope, NEW.from_number)
               IS NOT DISTINCT FROM
               (OLD.scope, OLD.name, OLD.number, OLD.digest, OLD.description, OLD."by", OLD.at,
                OLD.origin::text, OLD.note, OLD.from_scope, OLD.from_number) THEN
            RETURN NEW;
        END IF;
    ELSIF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'skill_uses' THEN
        -- Of a deleted session the count stays, and what it was counted for goes.
        IF NEW.session IS NULL AND NEW.seq IS NULL AND NEW.detail IS NULL
           AND (NEW.use, NEW.digest, NEW.what, NEW."by", NEW.at)
               IS NOT DISTINCT FROM (OLD.use, OLD.digest, OLD.what, OLD."by", OLD.at)
           AND EXISTS (SELECT FROM reprise.deletions d
                        WHERE d.session = OLD.session AND d.transaction = pg_current_xact_id())
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION '% on reprise.% is refused: the catalog is append only', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'RP003',
              HINT = 'A skill is taken back with reprise.judge_skill(digest, scope, ''revoke'', …).';
END $$;

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['skill_teams', 'skill_files', 'skill_contents', 'skill_paths',
                                'skill_versions', 'skill_promotions', 'skill_events', 'skill_uses']
    LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON reprise.%I
                        FOR EACH ROW EXECUTE FUNCTION reprise.refuse_skill_change()', name);
        EXECUTE format('CREATE TRIGGER no_truncate BEFORE TRUNCATE ON reprise.%I
                        FOR EACH STATEMENT EXECUTE FUNCTION reprise.refuse_skill_change()', name);
    END LOOP;
END $$;

-- Who asks ----------------------------------------------------------------------------------------

-- The embedded database has one login, the kernel's role itself, so nobody there can be told from
-- anybody else: it has a personal scope and nothing wider.
CREATE FUNCTION reprise.skill_scopes_read() RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN session_user = 'reprise_kernel' THEN ARRAY['personal/reprise_kernel'] ELSE
        ARRAY['personal/' || session_user] || ARRAY(
            SELECT m.scope FROM reprise.skill_members m
             WHERE m.login = session_user AND m.scope <> 'organisation' ORDER BY m.scope)
        || ARRAY['organisation'] END
$$;

CREATE FUNCTION reprise.skill_scopes_reviewed() RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY['personal/' || session_user] || ARRAY(
        SELECT m.scope FROM reprise.skill_members m
         WHERE m.login = session_user AND m.role IN ('reviewer','admin')
           AND session_user <> 'reprise_kernel')
$$;

-- member, reviewer or admin; NULL in a scope that session_user is not in.
CREATE FUNCTION reprise.skill_role(in_scope text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN in_scope = 'personal/' || session_user THEN 'admin'
                WHEN session_user = 'reprise_kernel' THEN NULL
                ELSE coalesce((SELECT m.role FROM reprise.skill_members m
                                WHERE m.scope = in_scope AND m.login = session_user),
                              CASE WHEN in_scope = 'organisation' THEN 'member' END) END
$$;

-- What session_user may see of the versions: his own, what is published, and as a reviewer all.
CREATE VIEW reprise.skill_seen AS
    SELECT v.* FROM reprise.skill_versions v
     WHERE v.scope = ANY ((SELECT reprise.skill_scopes_read())::text[])
       AND (v.state = 'published' OR v.by = session_user
            OR v.scope = ANY ((SELECT reprise.skill_scopes_reviewed())::text[]));

CREATE FUNCTION reprise.skill_now() RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

CREATE FUNCTION reprise.refuse_skill(state text, what text, mend text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = state, MESSAGE = what, HINT = mend;
END $$;

-- Who has the right in a scope, for the hint of a refusal.
CREATE FUNCTION reprise.skill_right_of(in_scope text, roles text[]) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('In %s %s may: %s.', in_scope,
                  CASE WHEN 'member' = ANY (roles) THEN 'every member'
                       WHEN 'reviewer' = ANY (roles) THEN 'reviewers and admins'
                       ELSE 'admins' END,
                  coalesce((SELECT string_agg(m.login, ', ' ORDER BY m.login)
                              FROM reprise.skill_members m
                             WHERE m.scope = in_scope AND m.role = ANY (roles)),
                           'nobody yet; a member of reprise_owner appoints the first'))
           || CASE WHEN 'member' = ANY (roles) THEN ''
                   ELSE ' Ask one of them, or an admin to appoint you.' END
$$;

-- Refuses unless session_user has one of the roles in that scope. Every function that changes the
-- catalog calls this first. A snapshot that is older than the call would show rights as they were.
CREATE FUNCTION reprise.need_skill_role(in_scope text, roles text[], doing text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM reprise.refuse_skill('RP012', format('You cannot %s in a transaction that is %s.',
            doing, current_setting('transaction_isolation')), 'Use READ COMMITTED.');
    END IF;
    IF in_scope = 'personal/' || session_user THEN
        RETURN;
    END IF;
    IF session_user = 'reprise_kernel' THEN
        PERFORM reprise.refuse_skill('RP010',
            format('You cannot %s here: the embedded database has one login for everything, so it'
                   ' has a personal scope only. Nothing was changed.', doing),
            'Teams and the organisation need a server (REPRISE_DSN) with a login for each person.');
    END IF;
    IF reprise.skill_role(in_scope) IS NULL THEN
        PERFORM reprise.refuse_skill('RP010',
            format('You (%s) cannot %s: you are not in %s, or there is no such scope. Nothing was'
                   ' changed.', session_user, doing, in_scope),
            'An admin of that scope can appoint you.');
    END IF;
    IF reprise.skill_role(in_scope) <> ALL (roles) THEN
        PERFORM reprise.refuse_skill('RP010',
            format('You (%s) cannot %s: in %s you are a %s. Nothing was changed.', session_user,
                   doing, in_scope, reprise.skill_role(in_scope)),
            reprise.skill_right_of(in_scope, roles));
    END IF;
    -- Whoever dismisses or demotes at this moment waits for what is done here, or we for him.
    PERFORM FROM reprise.skill_members m
      WHERE m.scope = in_scope AND m.login = session_user FOR SHARE;
    IF reprise.skill_role(in_scope) IS NULL OR reprise.skill_role(in_scope) <> ALL (roles) THEN
        PERFORM reprise.refuse_skill('RP010',
            format('You (%s) cannot %s in %s any more. Nothing was changed.', session_user, doing,
                   in_scope), reprise.skill_right_of(in_scope, roles));
    END IF;
END $$;

-- Standing ----------------------------------------------------------------------------------------

-- The digests of which in one of these scopes the last word, of yes and no, is yes.
CREATE FUNCTION reprise.judged_skills(scopes text[], yes text, no text) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT last.digest FROM (
        SELECT DISTINCT ON (e.scope, e.digest) e.digest, e.act FROM reprise.skill_events e
         WHERE e.act IN ('trust','distrust','revoke','reinstate') AND e.act IN (yes, no)
           AND e.scope = ANY (scopes)
         ORDER BY e.scope, e.digest, e.event DESC) AS last
     WHERE last.act = yes
$$;

-- Of each digest: revoked in a scope of session_user's, trusted in one (published there, or said
-- so), else untrusted. Skills that come with Reprise are trusted by its code, not by this table.
CREATE FUNCTION reprise.skill_standings(digests text[])
RETURNS TABLE (digest text, standing text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH mine AS MATERIALIZED (SELECT reprise.skill_scopes_read() AS scopes),
         revoked AS MATERIALIZED (
             SELECT r.digest FROM mine, reprise.judged_skills(mine.scopes, 'revoke', 'reinstate')
                 AS r(digest)),
         trusted AS MATERIALIZED (
             SELECT t.digest FROM mine, reprise.judged_skills(mine.scopes, 'trust', 'distrust')
                 AS t(digest))
    SELECT d.digest,
           CASE WHEN d.digest IN (SELECT r.digest FROM revoked r) THEN 'revoked'
                WHEN d.digest IN (SELECT t.digest FROM trusted t) THEN 'trusted'
                WHEN EXISTS (SELECT FROM reprise.skill_versions v, mine
                              WHERE v.digest = d.digest AND v.state = 'published'
                                AND v.scope = ANY (mine.scopes)
                                AND v.scope <> 'personal/' || session_user) THEN 'trusted'
                ELSE 'untrusted' END
      FROM (SELECT DISTINCT unnest(digests)) AS d(digest)
$$;

-- Use ---------------------------------------------------------------------------------------------

-- what: load, mount, run or failure. detail: for people, such as the script.
CREATE FUNCTION reprise.use_skill(
    of_digest text, what text, in_session uuid, at_seq bigint, with_detail json
) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO reprise.skill_uses (digest, what, by, at, session, seq, detail)
        VALUES (of_digest, what, session_user, reprise.skill_now(), in_session, at_seq, with_detail)
        ON CONFLICT DO NOTHING
$$;

-- Of all uses of a digest those that session_user may count: his own, and where a version of it is
-- seen in a wider scope, those of the people in that scope.
CREATE FUNCTION reprise.skill_usage(digests text[])
RETURNS TABLE (digest text, loads bigint, mounts bigint, runs bigint, failures bigint,
               sessions bigint, last_at bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT d.digest,
           count(*) FILTER (WHERE u.what = 'load'), count(*) FILTER (WHERE u.what = 'mount'),
           count(*) FILTER (WHERE u.what = 'run'), count(*) FILTER (WHERE u.what = 'failure'),
           count(DISTINCT u.session), max(u.at)
      FROM (SELECT DISTINCT unnest(digests)) AS d(digest)
      LEFT JOIN reprise.skill_uses u ON u.digest = d.digest AND (
               u.by = session_user
            OR EXISTS (SELECT FROM reprise.skill_seen v
                        WHERE v.digest = d.digest AND v.scope = 'organisation')
            OR EXISTS (SELECT FROM reprise.skill_seen v
                         JOIN reprise.skill_members m ON m.scope = v.scope
                        WHERE v.digest = d.digest AND m.login = u.by))
     GROUP BY d.digest
$$;

-- The sessions in which session_user used a digest, and that are not deleted.
CREATE FUNCTION reprise.skill_sessions(of_digest text)
RETURNS TABLE (session uuid, what text, last_at bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT u.session, u.what, max(u.at) FROM reprise.skill_uses u
     WHERE u.digest = of_digest AND u.by = session_user AND u.session IS NOT NULL
     GROUP BY u.session, u.what ORDER BY max(u.at) DESC
$$;

-- Adding ------------------------------------------------------------------------------------------

-- A path as canonical JSON has it: ASCII, other characters as \u and UTF-16 in hexadecimal.
CREATE FUNCTION reprise.skill_path_json(path text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    written text := '';
    letter text;
    point integer;
BEGIN
    IF octet_length(path) = length(path) THEN
        RETURN '"' || path || '"';
    END IF;
    FOREACH letter IN ARRAY regexp_split_to_array(path, '') LOOP
        point := ascii(letter);
        IF point < 128 THEN
            written := written || letter;
        ELSIF point < 65536 THEN
            written := written || '\u' || lpad(to_hex(point), 4, '0');
        ELSE
            written := written || '\u' || to_hex(55296 + ((point - 65536) >> 10))
                               || '\u' || to_hex(56320 + ((point - 65536) & 1023));
        END IF;
    END LOOP;
    RETURN '"' || written || '"';
END $$;

-- Refuses paths that would not stand for the same files everywhere. Control characters, quotes and
-- backslashes are among what Windows refuses, so a path needs no escaping but of what is not ASCII.
CREATE FUNCTION reprise.check_skill_paths(paths text[]) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE wrong text;
BEGIN
    SELECT p.path INTO wrong FROM unnest(paths) AS p(path)
     WHERE p.path IS NULL OR octet_length(p.path) > 4095
        OR p.path ~ '[\x01-\x1f\x7f<>:"|?*\\]'
        OR p.path ~ '(^|/)(|\.|\.\.)(/|$)'
        OR p.path ~ '[. ](/|$)'
        OR p.path ~* '(^|/)(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\.[^/]*)?(/|$)'
        OR cardinality(string_to_array(p.path, '/')) > 21
        OR EXISTS (SELECT FROM unnest(string_to_array(p.path, '/')) AS s(name)
                    WHERE octet_length(s.name) > 255)
     LIMIT 1;
    IF FOUND THEN
        PERFORM reprise.refuse_skill('RP014', format('%L is no path of a file of a skill.', wrong),
            'Rename the file: a clean relative path that every system can write.');
    END IF;
    -- Files, each once, and the folders above them, each as often as it is implied.
    SELECT min(place.path) INTO wrong FROM (
        SELECT p.path, 'file ' || p.nth AS what FROM unnest(paths) WITH ORDINALITY AS p(path, nth)
        UNION
        SELECT array_to_string((string_to_array(p.path, '/'))[1:depth], '/'), 'folder'
          FROM unnest(paths) AS p(path),
               generate_series(1, cardinality(string_to_array(p.path, '/')) - 1) AS depth
    ) AS place
     GROUP BY lower(normalize(place.path, NFC)) HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        PERFORM reprise.refuse_skill('RP014',
            format('%L is there twice, or would be where case does not count.', wrong),
            'Rename one of the files or folders.');
    END IF;
END $$;

-- What the search knows of a SKILL.md; nothing when it is no text.
CREATE FUNCTION reprise.skill_words(data bytea) RETURNS tsvector
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Without the frontmatter, whose words are the same everywhere. A tsvector holds a megabyte;
    -- nobody looks for what stands beyond this.
    RETURN setweight(to_tsvector('pg_catalog.english', left(regexp_replace(
        convert_from(data, 'UTF8'), '^\ufeff?---[ \t]*\r?\n.*?\n---[ \t]*(\r?\n|$)', ''), 100000)),
        'D');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character
            OR program_limit_exceeded THEN
    RETURN ''::tsvector;
END $$;

-- Of a name (A) and a description (B): as English, and as written, so that prefixes are found.
CREATE FUNCTION reprise.skill_head(name text, description text) RETURNS tsvector
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT setweight(to_tsvector('pg_catalog.simple', name || ' ' || replace(name, '-', ' '))
                     || to_tsvector('pg_catalog.english', replace(name, '-', ' ')), 'A')
        || setweight(to_tsvector('pg_catalog.english', left(description, 16384))
                     || to_tsvector('pg_catalog.simple', left(description, 16384)), 'B')
$$;

-- Which version others get, after anything that may change it. In a personal scope drafts count.
-- waits: for who changes the skill at this moment; a revocation does not, since he may take his
-- time, and what it takes back is left out of every list and search anyway.
CREATE FUNCTION reprise.settle_skill(of_scope text, of_name text, waits boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE now_current reprise.skill_versions;
BEGIN
    -- First the lock, then a look: what others did meanwhile is seen by the next statement.
    IF waits THEN
        PERFORM FROM reprise.skill_heads h WHERE h.scope = of_scope AND h.name = of_name FOR UPDATE;
    ELSE
        PERFORM FROM reprise.skill_heads h WHERE h.scope = of_scope AND h.name = of_name
            FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    SELECT v.* INTO now_current FROM reprise.skill_versions v
     WHERE v.scope = of_scope AND v.name = of_name
       AND (v.state = 'published' OR starts_with(of_scope, 'personal/'))
       AND v.digest NOT IN (SELECT reprise.judged_skills(ARRAY[of_scope, 'organisation'],
                                                         'revoke', 'reinstate'))
     ORDER BY v.number DESC LIMIT 1;
    UPDATE reprise.skill_heads h
       SET current = now_current.number, digest = now_current.digest,
           head = CASE WHEN now_current.number IS NOT NULL
                       THEN reprise.skill_head(of_name, now_current.description) END,
           words = (SELECT reprise.skill_head(of_name, now_current.description) || c.words
                      FROM reprise.skill_contents c WHERE c.digest = now_current.digest)
     WHERE h.scope = of_scope AND h.name = of_name;
END $$;

CREATE TYPE reprise.skill_version AS (
    scope text, name text, number bigint, digest text, description text, state text,
    standing text, deprecated boolean, by text, at bigint, origin text, note text
);

CREATE FUNCTION reprise.skill_with_standing(v reprise.skill_versions) RETURNS reprise.skill_version
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT v.scope, v.name, v.number, v.digest, v.description, v.state,
           (SELECT s.standing FROM reprise.skill_standings(ARRAY[v.digest]) s),
           v.deprecated, v.by, v.at, v.origin::text, v.note
$$;

-- A new version of a scope, numbered without a gap; the head's lock is held until the end.
CREATE FUNCTION reprise.append_skill(
    of_scope text, of_name text, of_digest text, of_description text, in_state text,
    of_origin json, of_note text, came_scope text, came_number bigint, act text
) RETURNS reprise.skill_versions
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made reprise.skill_versions;
    next bigint;
BEGIN
    UPDATE reprise.skill_heads h SET last = h.last + 1
     WHERE h.scope = of_scope AND h.name = of_name RETURNING h.last INTO next;
    INSERT INTO reprise.skill_versions
            (scope, name, number, digest, description, state, by, at, origin, note, from_scope,
             from_number)
        VALUES (of_scope, of_name, next, of_digest, of_description, in_state, session_user,
                reprise.skill_now(), of_origin, of_note, came_scope, came_number)
        RETURNING * INTO made;
    INSERT INTO reprise.skill_events (act, scope, name, number, digest, by, at, reason)
        VALUES (act, of_scope, of_name, next, of_digest, session_user, made.at, of_note);
    RETURN made;
END $$;

CREATE FUNCTION reprise.lock_skill(of_scope text, of_name text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO reprise.skill_heads (scope, name) VALUES (of_scope, of_name) ON CONFLICT DO NOTHING;
    SELECT FROM reprise.skill_heads h WHERE h.scope = of_scope AND h.name = of_name FOR UPDATE;
$$;

-- A version in the personal scope of session_user. The digest is computed here from the files that
-- are given, so nobody can name content that he does not have; `expected` only tells of a
-- misunderstanding. The same content as the newest version's adds none.
CREATE FUNCTION reprise.add_skill(
    of_name text, of_description text, expected text, paths text[], modes integer[],
    contents bytea[], of_origin json, of_note text
) RETURNS SETOF reprise.skill_version
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s' AS $$
DECLARE
    of_scope text := 'personal/' || session_user;
    skill_file bytea;
    hashes text[];
    total bigint;
    manifest text;
    made reprise.skill_versions;
BEGIN
    PERFORM reprise.need_skill_role(of_scope, ARRAY['admin'], 'add a skill');
    IF of_name IS NULL OR of_name !~ '^[a-z0-9]+(-[a-z0-9]+)*$' OR length(of_name) > 64 THEN
        PERFORM reprise.refuse_skill('RP014', format('%L is no name of a skill.', left(of_name, 80)),
            '1 to 64 lowercase letters, digits and single inner hyphens.');
    END IF;
    IF coalesce(of_description, '') = '' OR length(of_description) > 16384 THEN
        PERFORM reprise.refuse_skill('RP014', 'A skill needs a description, of 16384 characters at'
            ' most.', 'Write what it does and when to use it.');
    END IF;
    IF of_origin IS NULL OR json_typeof(of_origin) <> 'object'
       OR octet_length(of_origin::text) > 16384
       OR strpos(of_origin::text, '\u0000') > 0              -- which functions of json refuse
       OR of_origin ->> 'kind' IS NULL
       OR of_origin ->> 'kind' NOT IN ('folder','archive','git','shipped','written')
       OR EXISTS (SELECT FROM json_each(of_origin) AS o(key, value)
                   WHERE json_typeof(o.value) NOT IN ('string','null')) THEN
        PERFORM reprise.refuse_skill('RP014', 'That is no origin.',
            'An object of texts, with kind: folder, archive, git, shipped or written.');
    END IF;
    IF coalesce(cardinality(paths), 0) NOT BETWEEN 1 AND 5000
       OR array_dims(paths) IS DISTINCT FROM '[1:' || cardinality(paths) || ']'
       OR array_dims(modes) IS DISTINCT FROM array_dims(paths)
       OR array_dims(contents) IS DISTINCT FROM array_dims(paths)
       OR array_position(contents, NULL) IS NOT NULL OR array_position(modes, NULL) IS NOT NULL
       OR EXISTS (SELECT FROM unnest(modes) AS m(mode) WHERE m.mode NOT IN (420, 493)) THEN
        PERFORM reprise.refuse_skill('RP014', 'A skill has 1 to 5000 files, each with a path, a mode'
            ' (0o644 or 0o755) and bytes.', 'Give three arrays of one length.');
    END IF;
    PERFORM reprise.check_skill_paths(paths);
    -- Lenient clients take it however it is written; names that differ by case only are refused.
    SELECT f.data INTO skill_file FROM unnest(paths, contents) AS f(path, data)
     WHERE lower(f.path) = 'skill.md';
    IF NOT FOUND THEN
        PERFORM reprise.refuse_skill('RP014', 'A skill has a file SKILL.md.', 'Add it.');
    END IF;
    SELECT sum(octet_length(c.data)),
           array_agg(encode(sha256(c.data), 'hex') ORDER BY c.place)
      INTO total, hashes FROM unnest(contents) WITH ORDINALITY AS c(data, place);
    IF total > 67108864
       OR EXISTS (SELECT FROM unnest(contents) AS c(data) WHERE octet_length(c.data) > 16777216)
       OR octet_length(skill_file) > 1048576 THEN
        PERFORM reprise.refuse_skill('RP014', 'The skill is too large.',
            '64 MiB in all, 16 MiB a file, 1 MiB of SKILL.md at most.');
    END IF;
    SELECT '{"entries":[' || string_agg(
               '[' || reprise.skill_path_json(f.path) || ',"file",' || f.mode || ','
                   || octet_length(f.data) || ',"' || f.sha256 || '"]', ','
               ORDER BY f.path COLLATE "C") || ']}'
      INTO manifest FROM unnest(paths, modes, contents, hashes) AS f(path, mode, data, sha256);
    IF expected IS DISTINCT FROM encode(sha256(convert_to(manifest, 'UTF8')), 'hex') THEN
        PERFORM reprise.refuse_skill('RP014', 'The digest is not that of the files.',
            'It is the sha256 of their canonical manifest.');
    END IF;

    PERFORM reprise.lock_skill(of_scope, of_name);
    SELECT v.* INTO made FROM reprise.skill_versions v
     WHERE v.scope = of_scope AND v.name = of_name ORDER BY v.number DESC LIMIT 1;
    IF made.digest = expected THEN
        RETURN NEXT reprise.skill_with_standing(made);
        RETURN;
    END IF;
    -- In one order, so that two who add the same files never wait for each other.
    INSERT INTO reprise.skill_files (sha256, data)
        SELECT DISTINCT ON (f.sha256) f.sha256, f.data
          FROM unnest(hashes, contents) AS f(sha256, data) ORDER BY f.sha256
        ON CONFLICT DO NOTHING;
    INSERT INTO reprise.skill_contents (digest, files, size, words)
        VALUES (expected, cardinality(paths), total, reprise.skill_words(skill_file))
        ON CONFLICT DO NOTHING;
    INSERT INTO reprise.skill_paths (digest, path, mode, sha256)
        SELECT expected, f.path, f.mode, f.sha256
          FROM unnest(paths, modes, hashes) AS f(path, mode, sha256)
        ON CONFLICT DO NOTHING;
    made := reprise.append_skill(of_scope, of_name, expected, of_description, 'draft', of_origin,
                                 coalesce(of_note, ''), NULL, NULL, 'add');
    PERFORM reprise.settle_skill(of_scope, of_name, true);
    RETURN NEXT reprise.skill_with_standing(made);
END $$;

-- Reading -----------------------------------------------------------------------------------------

-- How a scope is written by whoever asks: 'personal' is his own.
CREATE FUNCTION reprise.skill_scope(written text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN written = 'personal' THEN 'personal/' || session_user ELSE written END
$$;

-- Nearest first: personal, teams by name, the organisation.
CREATE FUNCTION reprise.skill_nearness(scope text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN starts_with(scope, 'personal/') THEN '1' WHEN scope = 'organisation' THEN '3'
                ELSE '2' || scope END
$$;

-- The versions that session_user may see; NULL asks for any. Nearest scope and newest first.
CREATE FUNCTION reprise.find_skills(of_scope text, of_name text, of_number bigint, of_digest text)
RETURNS SETOF reprise.skill_version
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT v.* FROM reprise.skill_seen v
         WHERE (of_scope IS NULL OR v.scope = reprise.skill_scope(of_scope))
           AND (of_name IS NULL OR v.name = of_name)
           AND (of_number IS NULL OR v.number = of_number)
           AND (of_digest IS NULL OR v.digest = of_digest))
    SELECT v.scope, v.name, v.number, v.digest, v.description, v.state, s.standing, v.deprecated,
           v.by, v.at, v.origin::text, v.note
      FROM found v
      JOIN reprise.skill_standings(ARRAY(SELECT f.digest FROM found f)) s ON s.digest = v.digest
     ORDER BY reprise.skill_nearness(v.scope) COLLATE "C", v.name COLLATE "C", v.number DESC;
END $$;

-- The current version of each skill: the newest published one that is not revoked, in the personal
-- scope the newest.
CREATE FUNCTION reprise.list_skills(of_scope text) RETURNS SETOF reprise.skill_version
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH mine AS MATERIALIZED (
             SELECT s.scope FROM unnest(reprise.skill_scopes_read()) AS s(scope)
              WHERE of_scope IS NULL OR s.scope = reprise.skill_scope(of_scope)),
         revoked AS MATERIALIZED (
             SELECT reprise.judged_skills(reprise.skill_scopes_read(), 'revoke', 'reinstate')
                 AS digest),
         found AS MATERIALIZED (
             SELECT v.* FROM reprise.skill_heads h
               JOIN reprise.skill_versions v
                 ON v.scope = h.scope AND v.name = h.name AND v.number = h.current
              WHERE h.scope IN (SELECT m.scope FROM mine m)
                AND h.digest NOT IN (SELECT r.digest FROM revoked r)
             UNION ALL
             -- Revoked in a scope that not everybody there is in: the one before it.
             SELECT b.* FROM reprise.skill_heads h, LATERAL (
                 SELECT v.* FROM reprise.skill_versions v
                  WHERE v.scope = h.scope AND v.name = h.name
                    AND (v.state = 'published' OR starts_with(v.scope, 'personal/'))
                    AND v.digest NOT IN (SELECT r.digest FROM revoked r)
                  ORDER BY v.number DESC LIMIT 1) AS b
              WHERE h.scope IN (SELECT m.scope FROM mine m)
                AND h.digest IN (SELECT r.digest FROM revoked r))
    SELECT v.scope, v.name, v.number, v.digest, v.description, v.state, s.standing, v.deprecated,
           v.by, v.at, v.origin::text, v.note
      FROM found v
      JOIN reprise.skill_standings(ARRAY(SELECT f.digest FROM found f)) s ON s.digest = v.digest
     ORDER BY reprise.skill_nearness(v.scope) COLLATE "C", v.name COLLATE "C"
$$;

-- The files of a content, of which session_user may see a version; of_path NULL: all of them.
CREATE FUNCTION reprise.read_skill(of_digest text, of_path text)
RETURNS TABLE (path text, mode integer, data bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.path, p.mode, f.data FROM reprise.skill_paths p
      JOIN reprise.skill_files f ON f.sha256 = p.sha256
     WHERE p.digest = of_digest AND (of_path IS NULL OR p.path = of_path)
       AND EXISTS (SELECT FROM reprise.skill_seen v WHERE v.digest = of_digest)
$$;

-- What text asks for, in the syntax of web searches; a plain list of words also by how they begin.
-- NULL when it names nothing that an index knows ("-this", stop words): such a search is none.
CREATE FUNCTION reprise.skill_query(asked text) RETURNS tsquery
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    plain text := lower(left(coalesce(asked, ''), 200));
    wanted tsquery;
    beginnings text;
BEGIN
    IF plain ~ '"|(^|\s)-|(^|\s)or(\s|$)' THEN
        wanted := websearch_to_tsquery('pg_catalog.english', plain);
    ELSE
        -- All words, each as a beginning: by their stems, for what is indexed as English, and as
        -- written, for names. Hyphens part words, as the names in the index are parted.
        SELECT string_agg('''' || w.word || CASE WHEN length(w.word) > 1 THEN ''':*' ELSE '''' END,
                          ' & ') INTO beginnings FROM (
            SELECT word FROM regexp_split_to_table(plain, '[\x01-\x2f\x3a-\x60\x7b-\x7f]+')
                AS s(word) WHERE word <> '' LIMIT 12) AS w;
        wanted := to_tsquery('pg_catalog.english', coalesce(beginnings, ''));
        IF wanted IS DISTINCT FROM beginnings::tsquery THEN
            wanted := wanted || beginnings::tsquery;
        END IF;
    END IF;
    IF querytree(wanted) IN ('', 'T') THEN
        RETURN NULL;
    END IF;
    RETURN wanted;
END $$;

-- The current versions that fit, best first: those whose names and descriptions fit before those
-- whose bodies do. Bounded: of more than a thousand that fit by their bodies only, some.
CREATE FUNCTION reprise.search_skills(asked text, most integer) RETURNS SETOF reprise.skill_version
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted tsquery := reprise.skill_query(asked);
    mine text[] := reprise.skill_scopes_read();
    bounded integer := greatest(0, least(coalesce(most, 20), 1000));
BEGIN
    IF wanted IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH revoked AS MATERIALIZED (
             SELECT reprise.judged_skills(mine, 'revoke', 'reinstate') AS digest),
         named AS MATERIALIZED (
             SELECT h.scope, h.name, h.current, 1 AS tier, ts_rank(h.head, wanted)
                    + CASE WHEN h.name = lower(btrim(asked)) THEN 1 ELSE 0 END AS rank
               FROM reprise.skill_heads h
              WHERE h.head @@ wanted AND h.scope = ANY (mine)
                AND h.digest NOT IN (SELECT r.digest FROM revoked r)
              ORDER BY rank DESC LIMIT bounded),
         enough AS MATERIALIZED (SELECT count(*) >= bounded AS yes FROM named),
         told AS (
             SELECT h.scope, h.name, h.current, 2 AS tier, ts_rank(h.words, wanted) AS rank FROM (
                 SELECT w.* FROM reprise.skill_heads w
                  WHERE NOT (SELECT e.yes FROM enough e)
                    AND w.words @@ wanted AND NOT w.head @@ wanted AND w.scope = ANY (mine)
                    AND w.digest NOT IN (SELECT r.digest FROM revoked r)
                  LIMIT 1000) AS h
              ORDER BY rank DESC LIMIT bounded),
         best AS MATERIALIZED (
             SELECT v.*, b.tier, b.rank
               FROM (SELECT * FROM named UNION ALL SELECT * FROM told) AS b
               JOIN reprise.skill_versions v
                 ON v.scope = b.scope AND v.name = b.name AND v.number = b.current
              ORDER BY b.tier, b.rank DESC, reprise.skill_nearness(b.scope) COLLATE "C",
                       b.name COLLATE "C"
              LIMIT bounded)
    SELECT b.scope, b.name, b.number, b.digest, b.description, b.state, s.standing, b.deprecated,
           b.by, b.at, b.origin::text, b.note
      FROM best b
      JOIN reprise.skill_standings(ARRAY(SELECT d.digest FROM best d)) s ON s.digest = b.digest
     ORDER BY b.tier, b.rank DESC, reprise.skill_nearness(b.scope) COLLATE "C", b.name COLLATE "C";
END $$;

-- What was done with a skill and its contents, in the order it was done. A member sees of drafts
-- only his own.
CREATE FUNCTION reprise.skill_history(of_scope text, of_name text)
RETURNS TABLE (act text, scope text, name text, number bigint, digest text, promotion uuid,
               by text, at bigint, reason text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH seen AS MATERIALIZED (
        SELECT v.* FROM reprise.skill_seen v
         WHERE v.scope = reprise.skill_scope(of_scope) AND v.name = of_name)
    SELECT e.act, e.scope, e.name, e.number, e.digest, e.promotion, e.by, e.at, e.reason FROM (
        SELECT e.* FROM reprise.skill_events e JOIN seen s USING (scope, name, number)
        UNION ALL
        SELECT e.* FROM reprise.skill_events e
         WHERE e.act IN ('trust','distrust','revoke','reinstate')
           AND e.digest IN (SELECT s.digest FROM seen s)
           AND e.scope = ANY ((SELECT reprise.skill_scopes_read())::text[])) AS e
     ORDER BY e.event
$$;

-- Promotion ---------------------------------------------------------------------------------------

-- Who added or asked for a version, and for those that it came from.
CREATE FUNCTION reprise.skill_authors(of_scope text, of_name text, of_number bigint)
RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE line AS (
        SELECT v.name, v.by, v.from_scope, v.from_number FROM reprise.skill_versions v
         WHERE v.scope = of_scope AND v.name = of_name AND v.number = of_number
        UNION ALL
        SELECT v.name, v.by, v.from_scope, v.from_number FROM line l JOIN reprise.skill_versions v
            ON v.scope = l.from_scope AND v.name = l.name AND v.number = l.from_number)
    SELECT DISTINCT l.by FROM line l
$$;

CREATE FUNCTION reprise.check_skill_text(given text, fewest integer, what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF length(btrim(coalesce(given, ''))) < fewest OR length(given) > 10000 THEN
        PERFORM reprise.refuse_skill('RP012', format('The %s has %s characters; it needs %s to'
            ' 10000. Nothing was changed.', what, length(coalesce(given, '')), fewest),
            'It is what others read when they ask why.');
    END IF;
END $$;

CREATE FUNCTION reprise.refuse_revoked_skill(of_digest text, doing text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE said record;
BEGIN
    IF (SELECT s.standing FROM reprise.skill_standings(ARRAY[of_digest]) s) <> 'revoked' THEN
        RETURN;
    END IF;
    SELECT e.scope, e.by, e.reason INTO said FROM reprise.skill_events e
     WHERE e.digest = of_digest AND e.act = 'revoke'
       AND e.scope = ANY (reprise.skill_scopes_read()) ORDER BY e.event DESC LIMIT 1;
    PERFORM reprise.refuse_skill('RP013',
        format('You cannot %s: this content was revoked in %s by %s (%s). Nothing was changed.',
               doing, said.scope, said."by", said.reason),
        'Use another version; or a reviewer of that scope, other than who added it, reinstates it.');
END $$;

-- Asks that a version become part of a wider scope: there it is a draft from now on.
CREATE FUNCTION reprise.ask_skill_promotion(
    of_id uuid, of_scope text, of_name text, of_number bigint, to_wider text, with_note text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s' AS $$
DECLARE
    given reprise.skill_versions;
    made reprise.skill_versions;
    there record;
BEGIN
    IF to_wider IS NULL OR (to_wider <> 'organisation' AND NOT starts_with(to_wider, 'team/')) THEN
        PERFORM reprise.refuse_skill('RP012', format('%L is no scope to promote to.', to_wider),
            'Promote to team/NAME or organisation.');
    END IF;
    PERFORM reprise.need_skill_role(to_wider, ARRAY['member','reviewer','admin'],
                                    'ask for a promotion to ' || to_wider);
    PERFORM reprise.check_skill_text(with_note, 0, 'note');
    IF EXISTS (SELECT FROM reprise.skill_promotions p WHERE p.id = of_id AND p.by = session_user)
    THEN
        RETURN;
    END IF;
    SELECT v.* INTO given FROM reprise.skill_seen v
     WHERE v.scope = reprise.skill_scope(of_scope) AND v.name = of_name AND v.number = of_number;
    IF NOT FOUND THEN
        PERFORM reprise.refuse_skill('RP011', format('You see no %s:%s@%s.', of_scope, of_name,
            of_number), '`reprise skills list` shows what you see.');
    END IF;
    IF starts_with(given.scope, 'personal/') IS NOT TRUE AND (
           given.state <> 'published' OR starts_with(given.scope, 'team/') IS NOT TRUE
           OR to_wider <> 'organisation') THEN
        PERFORM reprise.refuse_skill('RP012',
            format('A %s version of %s is not promoted to %s. Nothing was changed.', given.state,
                   given.scope, to_wider),
            'Promote your own version, or a published one of a team to the organisation.');
    END IF;
    PERFORM reprise.refuse_revoked_skill(given.digest, 'ask for its promotion');
    PERFORM reprise.lock_skill(to_wider, of_name);
    SELECT v.number INTO there FROM reprise.skill_heads h
      JOIN reprise.skill_versions v
        ON v.scope = h.scope AND v.name = h.name AND v.number = h.current
     WHERE h.scope = to_wider AND h.name = of_name AND v.digest = given.digest;
    IF FOUND THEN
        PERFORM reprise.refuse_skill('RP012',
            format('%s has this very content already, as %s@%s. Nothing was changed.', to_wider,
                   of_name, there.number), 'There is nothing to promote.');
    END IF;
    SELECT p.by, p.id INTO there FROM reprise.skill_promotions p
      JOIN reprise.skill_versions v
        ON v.scope = p.to_scope AND v.name = p.name AND v.number = p.to_number
     WHERE p.to_scope = to_wider AND p.name = of_name AND v.digest = given.digest
       AND NOT EXISTS (SELECT FROM reprise.skill_events e WHERE e.promotion = p.id
                          AND e.act IN ('approve','refuse','withdraw'));
    IF FOUND THEN
        PERFORM reprise.refuse_skill('RP012',
            format('%s asked for that already (%s), and it is not decided yet.', there."by",
                   there.id), reprise.skill_right_of(to_wider, ARRAY['reviewer','admin']));
    END IF;
    IF (SELECT count(*) FROM reprise.skill_promotions p
         WHERE p.by = session_user
           AND NOT EXISTS (SELECT FROM reprise.skill_events e WHERE e.promotion = p.id
                              AND e.act IN ('approve','refuse','withdraw'))) >= 100 THEN
        PERFORM reprise.refuse_skill('RP012',
            'A hundred of your promotions are not decided yet. Nothing was changed.',
            'Withdraw some, or wait until they are decided.');
    END IF;
    -- A path on one person's machine is of no use to others, and none of their business.
    made := reprise.append_skill(to_wider, of_name, given.digest, given.description, 'draft',
                                 CASE WHEN given.origin ->> 'kind' IN ('folder','archive')
                                      THEN json_build_object('kind', given.origin ->> 'kind')
                                      ELSE given.origin END, coalesce(with_note, ''), given.scope, given.number,
                                 'ask');
    INSERT INTO reprise.skill_promotions (id, name, to_scope, to_number, by, at, note)
        VALUES (of_id, of_name, to_wider, made.number, session_user, made.at, made.note);
END $$;

-- The promotions that session_user asked for or may decide; of_id NULL: all, open ones or everything.
CREATE FUNCTION reprise.skill_promotions_seen(of_id uuid, everything boolean)
RETURNS TABLE (id uuid, to_scope text, name text, number bigint, by text, at bigint, note text,
               decided text, decided_by text, decided_at bigint, reason text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.id, p.to_scope, p.name, p.to_number, p.by, p.at, p.note,
           CASE e.act WHEN 'approve' THEN 'approved' WHEN 'refuse' THEN 'refused'
                      WHEN 'withdraw' THEN 'withdrawn' END, e.by, e.at, coalesce(e.reason, '')
      FROM reprise.skill_promotions p
      LEFT JOIN reprise.skill_events e
        ON e.promotion = p.id AND e.act IN ('approve','refuse','withdraw')
     WHERE (of_id IS NULL OR p.id = of_id) AND (everything OR e.act IS NULL OR of_id IS NOT NULL)
       AND ((p.by = session_user AND p.to_scope = ANY ((SELECT reprise.skill_scopes_read())::text[]))
            OR p.to_scope = ANY ((SELECT reprise.skill_scopes_reviewed())::text[]))
     ORDER BY p.at, p.id
$$;

-- of_digest: of what the reviewer looked at. release: others get it at once.
CREATE FUNCTION reprise.decide_skill_promotion(
    of_id uuid, of_digest text, approve boolean, with_reason text, and_release boolean
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s' AS $$
DECLARE
    asked reprise.skill_promotions;
    draft reprise.skill_versions;
    said reprise.skill_events;
    acting text := CASE WHEN approve THEN 'approve' ELSE 'refuse' END;
BEGIN
    PERFORM reprise.need_skill_role('personal/' || session_user, ARRAY['admin'], acting);
    SELECT p.* INTO asked FROM reprise.skill_promotions p
     WHERE p.id = of_id AND (p.by = session_user
           OR p.to_scope = ANY (reprise.skill_scopes_read())) FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM reprise.refuse_skill('RP011', format('There is no promotion %s for you to decide.',
            of_id), '`reprise skills promotions` lists them.');
    END IF;
    PERFORM reprise.need_skill_role(asked.to_scope, ARRAY['reviewer','admin'],
                                    acting || ' this promotion');
    PERFORM reprise.check_skill_text(with_reason, 0, 'reason');
    PERFORM reprise.lock_skill(asked.to_scope, asked.name);
    SELECT e.* INTO said FROM reprise.skill_events e
     WHERE e.promotion = of_id AND e.act IN ('approve','refuse','withdraw');
    IF FOUND THEN
        IF said.act = acting AND said."by" = session_user THEN
            RETURN;
        END IF;
        PERFORM reprise.refuse_skill('RP012',
            format('This promotion is decided: %s did %s it. Nothing was changed.', said."by",
                   said.act), 'Ask for a promotion anew.');
    END IF;
    SELECT v.* INTO draft FROM reprise.skill_versions v
     WHERE v.scope = asked.to_scope AND v.name = asked.name AND v.number = asked.to_number;
    IF draft.digest IS DISTINCT FROM of_digest THEN
        PERFORM reprise.refuse_skill('RP012',
            format('The promotion is of %s, not of what you looked at. Nothing was changed.',
                   draft.digest), 'Look at it again, then decide.');
    END IF;
    IF approve THEN
        IF session_user IN (SELECT reprise.skill_authors(draft.scope, draft.name, draft.number))
        THEN
            PERFORM reprise.refuse_skill('RP010',
                format('You (%s) added this content or asked for its promotion, so another person'
                       ' has to approve it. Nothing was changed.', session_user),
                reprise.skill_right_of(asked.to_scope, ARRAY['reviewer','admin']));
        END IF;
        PERFORM reprise.refuse_revoked_skill(draft.digest, 'approve it');
        UPDATE reprise.skill_versions v
           SET state = CASE WHEN and_release THEN 'published' ELSE 'reviewed' END
         WHERE v.scope = draft.scope AND v.name = draft.name AND v.number = draft.number;
    END IF;
    INSERT INTO reprise.skill_events (act, scope, name, number, digest, promotion, by, at, reason)
        VALUES (acting, draft.scope, draft.name, draft.number, draft.digest, of_id, session_user,
                reprise.skill_now(), coalesce(with_reason, ''));
    IF approve AND and_release THEN
        INSERT INTO reprise.skill_events (act, scope, name, number, digest, by, at, reason)
            VALUES ('release', draft.scope, draft.name, draft.number, draft.digest, session_user,
                    reprise.skill_now(), '');
        PERFORM reprise.settle_skill(draft.scope, draft.name, true);
    END IF;
END $$;

CREATE FUNCTION reprise.withdraw_skill_promotion(of_id uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s' AS $$
DECLARE
    asked reprise.skill_promotions;
    said reprise.skill_events;
BEGIN
    PERFORM reprise.need_skill_role('personal/' || session_user, ARRAY['admin'],
                                    'withdraw a promotion');
    SELECT p.* INTO asked FROM reprise.skill_promotions p
     WHERE p.id = of_id AND p.by = session_user FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM reprise.refuse_skill('RP011', format('You asked for no promotion %s.', of_id),
            'Who asked for one may withdraw it; who decides may refuse it.');
    END IF;
    SELECT e.* INTO said FROM reprise.skill_events e
     WHERE e.promotion = of_id AND e.act IN ('approve','refuse','withdraw');
    IF said.act = 'withdraw' THEN
        RETURN;
    ELSIF said.act IS NOT NULL THEN
        PERFORM reprise.refuse_skill('RP012',
            format('This promotion is decided: %s did %s it. Nothing was changed.', said."by",
                   said.act), 'What was approved is taken back with `reprise skills revoke`.');
    END IF;
    INSERT INTO reprise.skill_events (act, scope, name, number, digest, promotion, by, at, reason)
        SELECT 'withdraw', v.scope, v.name, v.number, v.digest, of_id, session_user,
               reprise.skill_now(), ''
          FROM reprise.skill_versions v WHERE v.scope = asked.to_scope AND v.name = asked.name
           AND v.number = asked.to_number;
END $$;

-- Release, deprecate, restore -----------------------------------------------------------------------

-- A version that session_user sees, under the lock of its skill.
CREATE FUNCTION reprise.locked_skill(of_scope text, of_name text, of_number bigint, doing text)
RETURNS reprise.skill_versions
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE found_there reprise.skill_versions;
BEGIN
    PERFORM reprise.need_skill_role(of_scope, ARRAY['reviewer','admin'], doing);
    PERFORM FROM reprise.skill_heads h WHERE h.scope = of_scope AND h.name = of_name FOR UPDATE;
    SELECT v.* INTO found_there FROM reprise.skill_versions v
     WHERE v.scope = of_scope AND v.name = of_name AND v.number = of_number;
    IF NOT FOUND THEN
        PERFORM reprise.refuse_skill('RP011', format('There is no %s:%s@%s.', of_scope, of_name,
            of_number), '`reprise skills versions` lists those that are there.');
    END IF;
    RETURN found_there;
END $$;

CREATE FUNCTION reprise.release_skill(of_scope text, of_name text, of_number bigint)
RETURNS SETOF reprise.skill_version
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s' AS $$
DECLARE version reprise.skill_versions;
BEGIN
    version := reprise.locked_skill(reprise.skill_scope(of_scope), of_name, of_number,
                                    'release a version');
    IF version.state <> 'published' THEN
        IF version.state = 'draft' AND NOT starts_with(version.scope, 'personal/') THEN
            PERFORM reprise.refuse_skill('RP010',
                format('%s:%s@%s is a draft that nobody has approved, so it cannot be released.'
                       ' Nothing was changed.', version.scope, version.name, version.number),
                '`reprise skills promotions` shows what waits for an approval, and '
                || reprise.skill_right_of(version.scope, ARRAY['reviewer','admin']));
        END IF;
        PERFORM reprise.refuse_revoked_skill(version.digest, 'release it');
        UPDATE reprise.skill_versions v SET state = 'published'
         WHERE v.scope = version.scope AND v.name = version.name AND v.number = version.number
        RETURNING v.* INTO version;
        INSERT INTO reprise.skill_events (act, scope, name, number, digest, by, at, reason)
            VALUES ('release', version.scope, version.name, version.number, version.digest,
                    session_user, reprise.skill_now(), '');
        PERFORM reprise.settle_skill(version.scope, version.name, true);
    END IF;
    RETURN NEXT reprise.skill_with_standing(version);
END $$;

CREATE FUNCTION reprise.deprecate_skill(
    of_scope text, of_name text, of_number bigint, with_reason text, undo boolean
) RETURNS SETOF reprise.skill_version
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s' AS $$
DECLARE version reprise.skill_versions;
BEGIN
    version := reprise.locked_skill(reprise.skill_scope(of_scope), of_name, of_number,
                                    'deprecate a version');
    PERFORM reprise.check_skill_text(with_reason, CASE WHEN undo THEN 0 ELSE 1 END, 'reason');
    IF version.deprecated = undo THEN
        UPDATE reprise.skill_versions v SET deprecated = NOT undo
         WHERE v.scope = version.scope AND v.name = version.name AND v.number = version.number
        RETURNING v.* INTO version;
        INSERT INTO reprise.skill_events (act, scope, name, number, digest, by, at, reason)
            VALUES (CASE WHEN undo THEN 'undeprecate' ELSE 'deprecate' END, version.scope,
                    version.name, version.number, version.digest, session_user,
                    reprise.skill_now(), coalesce(with_reason, ''));
    END IF;
    RETURN NEXT reprise.skill_with_standing(version);
END $$;

-- A new version with the content of an old one, which was published there before: so somebody else
-- has approved it. In the personal scope any.
CREATE FUNCTION reprise.restore_skill(of_scope text, of_name text, of_number bigint)
RETURNS SETOF reprise.skill_version
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s' AS $$
DECLARE
    old reprise.skill_versions;
    newest reprise.skill_versions;
BEGIN
    old := reprise.locked_skill(reprise.skill_scope(of_scope), of_name, of_number,
                                'restore a version');
    IF old.state <> 'published' AND NOT starts_with(old.scope, 'personal/') THEN
        PERFORM reprise.refuse_skill('RP010',
            format('%s:%s@%s was never published there, so it cannot be restored. Nothing was'
                   ' changed.', old.scope, old.name, old.number),
            'Ask for a promotion of that content; another person approves it.');
    END IF;
    PERFORM reprise.refuse_revoked_skill(old.digest, 'restore it');
    SELECT v.* INTO newest FROM reprise.skill_versions v
     WHERE v.scope = old.scope AND v.name = old.name
       AND (v.state = 'published' OR starts_with(v.scope, 'personal/'))
     ORDER BY v.number DESC LIMIT 1;
    IF newest.digest <> old.digest THEN
        newest := reprise.append_skill(old.scope, old.name, old.digest, old.description, old.state,
                                       old.origin, format('restored from %s', old.number),
                                       old.scope, old.number, 'restore');
        PERFORM reprise.settle_skill(old.scope, old.name, true);
    END IF;
    RETURN NEXT reprise.skill_with_standing(newest);
END $$;

-- Trust and revocation ------------------------------------------------------------------------------

-- act: trust, distrust, revoke or reinstate. To let a content run for others takes a second person,
-- as a promotion does: who added it to the scope cannot trust or reinstate it there.
CREATE FUNCTION reprise.judge_skill(of_digest text, in_scope text, act text, with_reason text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s' AS $$
DECLARE
    within text := reprise.skill_scope(in_scope);
    own boolean := within = 'personal/' || session_user;
    opposite text := CASE act WHEN 'trust' THEN 'distrust' WHEN 'distrust' THEN 'trust'
                              WHEN 'revoke' THEN 'reinstate' WHEN 'reinstate' THEN 'revoke' END;
    last_said text;
    one record;
BEGIN
    IF opposite IS NULL OR of_digest IS NULL OR of_digest !~ '^[0-9a-f]{64}$' THEN
        PERFORM reprise.refuse_skill('RP012', 'That is no judgement of a digest.',
            'trust, distrust, revoke or reinstate; 64 hexadecimal digits.');
    END IF;
    PERFORM reprise.need_skill_role(within, ARRAY['reviewer','admin'],
                                    act || ' a skill in ' || in_scope);
    PERFORM reprise.check_skill_text(with_reason, CASE WHEN act = 'revoke' THEN 1 ELSE 0 END,
                                     'reason');
    IF act = 'trust' THEN
        PERFORM reprise.refuse_revoked_skill(of_digest, 'trust it');
    END IF;
    SELECT e.act INTO last_said FROM reprise.skill_events e
     WHERE e.digest = of_digest AND e.scope = within AND e.act IN (judge_skill.act, opposite)
       AND e.act IN ('trust','distrust','revoke','reinstate') ORDER BY e.event DESC LIMIT 1;
    IF last_said = act THEN
        RETURN;
    END IF;
    IF act IN ('distrust','reinstate') AND last_said IS NULL THEN
        PERFORM reprise.refuse_skill('RP012',
            format('Nobody did %s this content in %s, so there is nothing to take back.', opposite,
                   in_scope),
            'What is published in a scope is trusted there; revoke it to take that back.');
    END IF;
    IF act IN ('trust','reinstate') AND NOT own THEN
        IF act = 'trust' AND NOT EXISTS (SELECT FROM reprise.skill_versions v
                                          WHERE v.scope = within AND v.digest = of_digest) THEN
            PERFORM reprise.refuse_skill('RP012',
                format('%s has no version with this content, so nobody there can read what you'
                       ' trust. Nothing was changed.', within),
                'Ask for its promotion first; or trust it for yourself.');
        END IF;
        IF EXISTS (SELECT FROM reprise.skill_versions v
                    WHERE v.scope = within AND v.digest = of_digest
                      AND session_user IN (SELECT reprise.skill_authors(v.scope, v.name, v.number)))
        THEN
            PERFORM reprise.refuse_skill('RP010',
                format('You (%s) added this content or asked for its promotion, so another person'
                       ' has to %s it. Nothing was changed.', session_user, act),
                reprise.skill_right_of(within, ARRAY['reviewer','admin']));
        END IF;
    END IF;
    INSERT INTO reprise.skill_events (act, scope, digest, by, at, reason)
        VALUES (act, within, of_digest, session_user, reprise.skill_now(),
                coalesce(with_reason, ''));
    IF act IN ('revoke','reinstate') THEN
        FOR one IN SELECT DISTINCT v.scope, v.name FROM reprise.skill_versions v
                    WHERE v.digest = of_digest AND (v.scope = within OR within = 'organisation')
                    ORDER BY v.scope, v.name LOOP
            PERFORM reprise.settle_skill(one.scope, one.name, act = 'reinstate');
        END LOOP;
    END IF;
END $$;

-- Members -----------------------------------------------------------------------------------------

-- The scopes of session_user and his role in each.
CREATE FUNCTION reprise.my_skill_scopes() RETURNS TABLE (scope text, role text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.scope, reprise.skill_role(s.scope)
      FROM unnest(reprise.skill_scopes_read()) WITH ORDINALITY AS s(scope, place) ORDER BY s.place
$$;

CREATE FUNCTION reprise.skill_members_of(in_scope text) RETURNS TABLE (login text, role text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF reprise.skill_scope(in_scope) = 'personal/' || session_user THEN
        RETURN QUERY SELECT session_user::text, 'admin';
    ELSIF reprise.skill_role(in_scope) IS NULL
          AND NOT (reprise.may_rule_skills() AND (in_scope = 'organisation'
                   OR EXISTS (SELECT FROM reprise.skill_teams t WHERE t.scope = in_scope))) THEN
        PERFORM reprise.refuse_skill('RP010',
            format('You (%s) are not in %s, or there is no such scope.', session_user, in_scope),
            'An admin of that scope can appoint you.');
    END IF;
    RETURN QUERY SELECT m.login, m.role FROM reprise.skill_members m WHERE m.scope = in_scope
                  ORDER BY array_position(ARRAY['admin','reviewer','member'], m.role), m.login;
END $$;

-- Who appoints anybody anywhere: admins of the organisation, and to begin with the operators.
CREATE FUNCTION reprise.may_rule_skills() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT session_user <> 'reprise_kernel'
       AND (pg_has_role(session_user, 'reprise_owner', 'MEMBER')
            OR EXISTS (SELECT FROM reprise.skill_members m
                        WHERE m.scope = 'organisation' AND m.login = session_user
                          AND m.role = 'admin'))
$$;

CREATE FUNCTION reprise.need_skill_admin(in_scope text, doing text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF in_scope IS NULL OR (in_scope <> 'organisation' AND NOT starts_with(in_scope, 'team/')) THEN
        PERFORM reprise.refuse_skill('RP012', format('%L is no scope with members.', in_scope),
            'team/NAME or organisation.');
    END IF;
    IF reprise.may_rule_skills() THEN
        -- Also waits for whoever takes the right away at this moment.
        PERFORM reprise.need_skill_role('personal/' || session_user, ARRAY['admin'], doing);
        PERFORM FROM reprise.skill_members m
          WHERE m.scope = 'organisation' AND m.login = session_user FOR SHARE;
    END IF;
    IF NOT reprise.may_rule_skills() THEN
        PERFORM reprise.need_skill_role(in_scope, ARRAY['admin'], doing);
    END IF;
    IF in_scope <> 'organisation'
       AND NOT EXISTS (SELECT FROM reprise.skill_teams t WHERE t.scope = in_scope) THEN
        PERFORM reprise.refuse_skill('RP011', format('There is no %s.', in_scope),
            'An admin of the organisation creates teams: `reprise skills team NAME`.');
    END IF;
END $$;

CREATE FUNCTION reprise.appoint_for_skills(of_login text, in_scope text, as_role text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s' AS $$
BEGIN
    PERFORM reprise.need_skill_admin(in_scope, 'appoint anybody in ' || in_scope);
    IF as_role IS NULL OR as_role NOT IN ('member','reviewer','admin') THEN
        PERFORM reprise.refuse_skill('RP012', format('%L is no role.', as_role),
            'member, reviewer or admin.');
    END IF;
    IF of_login = session_user AND NOT pg_has_role(session_user, 'reprise_owner', 'MEMBER') THEN
        PERFORM reprise.refuse_skill('RP010',
            format('You (%s) cannot appoint yourself. Nothing was changed.', session_user),
            reprise.skill_right_of(in_scope, ARRAY['admin']));
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles r
                    WHERE r.rolname = of_login AND r.rolcanlogin
                      AND r.rolname <> 'reprise_kernel'
                      AND pg_has_role(r.oid, 'reprise_kernel', 'MEMBER')) THEN
        PERFORM reprise.refuse_skill('RP012',
            format('%L is no login that may use Reprise here. Nothing was changed.', of_login),
            'An operator makes one: CREATE ROLE name LOGIN …; GRANT reprise_kernel TO name.');
    END IF;
    IF EXISTS (SELECT FROM reprise.skill_members m WHERE m.scope = in_scope
                  AND m.login = of_login AND m.role = as_role) THEN
        RETURN;
    END IF;
    INSERT INTO reprise.skill_members (scope, login, role) VALUES (in_scope, of_login, as_role)
        ON CONFLICT (scope, login) DO UPDATE SET role = excluded.role;
    INSERT INTO reprise.skill_events (act, scope, login, role, by, at, reason)
        VALUES ('appoint', in_scope, of_login, as_role, session_user, reprise.skill_now(), '');
END $$;

-- Anybody may leave.
CREATE FUNCTION reprise.dismiss_from_skills(of_login text, in_scope text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s' AS $$
BEGIN
    IF of_login = session_user THEN
        PERFORM reprise.need_skill_role(in_scope, ARRAY['member','reviewer','admin'], 'leave');
    ELSE
        PERFORM reprise.need_skill_admin(in_scope, 'dismiss anybody from ' || in_scope);
    END IF;
    DELETE FROM reprise.skill_members m WHERE m.scope = in_scope AND m.login = of_login;
    IF NOT FOUND THEN
        PERFORM reprise.refuse_skill('RP012', format('%L has no role in %s. Nothing was changed.',
            of_login, in_scope), '`reprise skills members` lists who has.');
    END IF;
    INSERT INTO reprise.skill_events (act, scope, login, by, at, reason)
        VALUES ('dismiss', in_scope, of_login, session_user, reprise.skill_now(), '');
END $$;

-- A team, whose first admin is who creates it.
CREATE FUNCTION reprise.create_skill_team(name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s' AS $$
BEGIN
    PERFORM reprise.need_skill_admin('organisation', 'create a team');
    IF name IS NULL OR name !~ '^[a-z0-9]+([-_][a-z0-9]+)*$' OR length(name) > 64 THEN
        PERFORM reprise.refuse_skill('RP012', format('%L is no name of a team.', left(name, 80)),
            '1 to 64 lowercase letters, digits and single inner hyphens or underscores.');
    END IF;
    INSERT INTO reprise.skill_teams (scope, by, at)
        VALUES ('team/' || name, session_user, reprise.skill_now()) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        PERFORM reprise.refuse_skill('RP012', format('team/%s is there already.', name),
            '`reprise skills members` lists who is in it.');
    END IF;
    INSERT INTO reprise.skill_members (scope, login, role)
        VALUES ('team/' || name, session_user, 'admin');
    INSERT INTO reprise.skill_events (act, scope, login, role, by, at, reason)
        VALUES ('team', 'team/' || name, session_user, 'admin', session_user, reprise.skill_now(),
                '');
END $$;

-- Deletes a whole session, as in 0005; of the uses of skills in it only the count stays.
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
    UPDATE reprise.skill_uses SET session = NULL, seq = NULL, detail = NULL
     WHERE session = of_session;
END $$;

-- Rights ------------------------------------------------------------------------------------------

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'skill_teams', 'skill_members', 'skill_files', 'skill_contents', 'skill_paths',
        'skill_heads', 'skill_versions', 'skill_promotions', 'skill_events', 'skill_uses']
    LOOP
        EXECUTE format('ALTER TABLE reprise.%I ENABLE ROW LEVEL SECURITY', name);
    END LOOP;
END $$;
CREATE POLICY seen ON reprise.skill_teams FOR SELECT
    USING (scope = ANY ((SELECT reprise.skill_scopes_read())::text[]));
CREATE POLICY seen ON reprise.skill_members FOR SELECT
    USING (scope = ANY ((SELECT reprise.skill_scopes_read())::text[]));
CREATE POLICY seen ON reprise.skill_versions FOR SELECT
    USING (scope = ANY ((SELECT reprise.skill_scopes_read())::text[])
           AND (state = 'published' OR by = session_user
                OR scope = ANY ((SELECT reprise.skill_scopes_reviewed())::text[])));
CREATE POLICY seen ON reprise.skill_promotions FOR SELECT
    USING ((by = session_user AND to_scope = ANY ((SELECT reprise.skill_scopes_read())::text[]))
           OR to_scope = ANY ((SELECT reprise.skill_scopes_reviewed())::text[]));
CREATE POLICY seen ON reprise.skill_events FOR SELECT
    USING (scope = ANY ((SELECT reprise.skill_scopes_reviewed())::text[])
           OR (by = session_user AND scope = ANY ((SELECT reprise.skill_scopes_read())::text[])));
CREATE POLICY seen ON reprise.skill_uses FOR SELECT USING (by = session_user);
-- Contents, files, paths and heads have no policy: nobody but their owner reads them as tables.

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA reprise FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    reprise.skill_scopes_read(), reprise.skill_scopes_reviewed(), reprise.skill_standings(text[]),
    reprise.use_skill(text, text, uuid, bigint, json), reprise.skill_usage(text[]),
    reprise.skill_sessions(text),
    reprise.add_skill(text, text, text, text[], integer[], bytea[], json, text),
    reprise.find_skills(text, text, bigint, text), reprise.list_skills(text),
    reprise.read_skill(text, text), reprise.search_skills(text, integer),
    reprise.skill_history(text, text),
    reprise.ask_skill_promotion(uuid, text, text, bigint, text, text),
    reprise.skill_promotions_seen(uuid, boolean),
    reprise.decide_skill_promotion(uuid, text, boolean, text, boolean),
    reprise.withdraw_skill_promotion(uuid), reprise.release_skill(text, text, bigint),
    reprise.deprecate_skill(text, text, bigint, text, boolean),
    reprise.restore_skill(text, text, bigint), reprise.judge_skill(text, text, text, text),
    reprise.my_skill_scopes(), reprise.skill_members_of(text),
    reprise.appoint_for_skills(text, text, text), reprise.dismiss_from_skills(text, text),
    reprise.create_skill_team(text)
    TO reprise_kernel;
