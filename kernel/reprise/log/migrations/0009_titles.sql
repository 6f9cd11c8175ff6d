-- What people call conversations and sessions. Append only: the newest row counts, an empty text
-- takes a name away. They go with what they name.

CREATE TABLE reprise.conversation_titles (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation uuid  NOT NULL,
    owner       text   NOT NULL,
    title       text   NOT NULL CHECK (length(title) <= 200),
    by          text,                      -- the person, where one is known
    login       text   NOT NULL DEFAULT session_user,
    at          bigint NOT NULL,
    FOREIGN KEY (owner, conversation) REFERENCES reprise.conversations (owner, id)
        ON DELETE CASCADE
);
CREATE INDEX conversation_titles_newest ON reprise.conversation_titles (conversation, number DESC);

CREATE TABLE reprise.session_names (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session     uuid   NOT NULL,
    owner       text   NOT NULL,
    name        text   NOT NULL CHECK (length(name) <= 200),
    by          text,
    login       text   NOT NULL DEFAULT session_user,
    at          bigint NOT NULL,
    FOREIGN KEY (owner, session) REFERENCES reprise.sessions (owner, id) ON DELETE CASCADE
);
CREATE INDEX session_names_newest ON reprise.session_names (session, number DESC);

-- As in 0008; the titles of a conversation go with it.
CREATE OR REPLACE FUNCTION reprise.refuse_conversation_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND TG_TABLE_NAME IN ('conversation_entries', 'conversation_titles') THEN
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

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON reprise.conversation_titles
    FOR EACH ROW EXECUTE FUNCTION reprise.refuse_conversation_change();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON reprise.conversation_titles
    FOR EACH STATEMENT EXECUTE FUNCTION reprise.refuse_conversation_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON reprise.session_names
    FOR EACH ROW EXECUTE FUNCTION reprise.refuse_change();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON reprise.session_names
    FOR EACH STATEMENT EXECUTE FUNCTION reprise.refuse_change();

GRANT SELECT, INSERT ON reprise.conversation_titles, reprise.session_names TO reprise_kernel;
