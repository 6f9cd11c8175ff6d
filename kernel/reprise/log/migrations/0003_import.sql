-- A history that was recorded elsewhere is appended page by page.
--
-- Each append updates the session's head, and Postgres keeps every version of that row until the
-- transaction ends: 10,000 steps one by one in one transaction would visit them 400 million times.
-- So an import hands over pages, the function below checks them as the triggers check single rows,
-- and the head moves once a page. What the triggers keep from everybody else, they let this
-- function of the owner do.

DO $$
DECLARE
    name text;
    check_function text;
BEGIN
    FOR name, check_function IN VALUES
        ('steps', 'admit_step'), ('outcomes', 'admit_outcome'), ('outputs', 'admit_outputs')
    LOOP
        EXECUTE format('DROP TRIGGER admit ON reprise.%I', name);
        EXECUTE format('CREATE TRIGGER admit BEFORE INSERT ON reprise.%I
                        FOR EACH ROW WHEN (current_user <> ''reprise_owner'')
                        EXECUTE FUNCTION reprise.%I()', name, check_function);
    END LOOP;
END $$;

-- types: step, outcome, output (a batch) or late (a batch); words: kind or status. links, words,
-- times and the columns after them stand for steps and outcomes only.
CREATE FUNCTION reprise.append_page(
    of_session uuid, of_owner text, by_epoch bigint, types text[], seqs bigint[], bodies text[],
    links bytea[], words text[], times bigint[], environments text[], trees text[], keys text[],
    durations bigint[], counts bigint[]
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    head reprise.heads;
    item record;
    fits boolean;
BEGIN
    SELECT * INTO head FROM reprise.heads h
     WHERE h.session = of_session AND h.owner = of_owner AND h.first_seq = 0
       AND h.epoch = by_epoch AND h.backend_pid = pg_backend_pid() FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM reprise.refuse_append(of_session, by_epoch);
    END IF;
    FOR item IN
        SELECT * FROM unnest(types, seqs, bodies, links, words, times, environments, trees, keys,
                             durations, counts)
            WITH ORDINALITY AS w(type, seq, body, link, word, at, environment, tree, key,
                                 duration_us, execution_count, place)
         ORDER BY place
    LOOP
        IF item.type IN ('step', 'outcome') THEN
            head.chain := sha256(head.chain || convert_to(item.body, 'UTF8'));
            fits := head.chain = item.link AND CASE item.type
                WHEN 'step' THEN item.seq = head.next_seq
                ELSE item.seq >= 0 AND item.seq < head.next_seq END;
        ELSE
            fits := item.type IN ('output', 'late') AND item.seq >= 0 AND item.seq < head.next_seq
                AND (item.type = 'late') = EXISTS (
                    SELECT FROM reprise.outcomes o
                     WHERE o.session = of_session AND o.seq = item.seq);
        END IF;
        IF fits IS NOT TRUE THEN
            RAISE EXCEPTION 'the page does not follow the head of session % (event %, step %)',
                of_session, head.next_event, head.next_seq USING ERRCODE = 'RP002';
        END IF;
        IF item.type = 'step' THEN
            INSERT INTO reprise.steps (session, seq, event, owner, epoch, kind, environment, tree,
                                       at, key, body, digest)
                VALUES (of_session, item.seq, head.next_event, of_owner, by_epoch, item.word,
                        item.environment, item.tree, item.at, item.key, item.body::json, item.link);
            head.next_seq := head.next_seq + 1;
        ELSIF item.type = 'outcome' THEN
            INSERT INTO reprise.outcomes (session, seq, event, owner, epoch, status, duration_us,
                                          execution_count, at, body, chain)
                VALUES (of_session, item.seq, head.next_event, of_owner, by_epoch, item.word,
                        item.duration_us, item.execution_count, item.at, item.body::json,
                        item.link);
        ELSE
            INSERT INTO reprise.outputs (session, seq, number, event, owner, epoch, late, body)
                VALUES (of_session, item.seq, head.next_output, head.next_event, of_owner, by_epoch,
                        item.type = 'late', item.body::json);
            head.next_output := head.next_output + 1;
            CONTINUE;
        END IF;
        head.next_event := head.next_event + 1;
        head.last_at := item.at;
    END LOOP;
    UPDATE reprise.heads h
       SET next_event = head.next_event, next_seq = head.next_seq, next_output = head.next_output,
           chain = head.chain, last_at = head.last_at
     WHERE h.session = of_session;
END $$;

REVOKE ALL ON FUNCTION reprise.append_page(
    uuid, text, bigint, text[], bigint[], text[], bytea[], text[], bigint[], text[], text[], text[],
    bigint[], bigint[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION reprise.append_page(
    uuid, text, bigint, text[], bigint[], text[], bytea[], text[], bigint[], text[], text[], text[],
    bigint[], bigint[]) TO reprise_kernel;
