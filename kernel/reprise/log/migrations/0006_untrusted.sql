-- Which steps make a session's output static: found at once in a history of any length.
--
-- The rule of `reprise.jupyter.static.policy.untrusted`, but for which trees are trusted, which
-- changes. The canonical text is searched, since functions of json refuse bodies with NUL: in it
-- keys are sorted and unspaced, and a quote inside a string stands behind a backslash, so these
-- patterns are keys and nothing that somebody wrote in a cell.

CREATE FUNCTION reprise.untrusted(kind text, body json) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT kind = 'mount'
        OR starts_with(body::text, '{"actor":{"conversation":')     -- which agents alone have
        OR (kind = 'cell' AND strpos(body::text, '"reprise_edited_by":"agent"') > 0)
$$;

-- Whether a user's step does no more than mount one of these trees.
CREATE FUNCTION reprise.mounts_one_of(kind text, body json, trees text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT kind = 'mount'
       AND NOT starts_with(body::text, '{"actor":{"conversation":')
       AND EXISTS (SELECT FROM unnest(trees) AS one(tree)
                    WHERE strpos(body::text, '"tree":"' || one.tree || '"') > 0)
$$;

CREATE INDEX untrusted_steps ON reprise.steps (session, seq) WHERE reprise.untrusted(kind, body);

GRANT EXECUTE ON FUNCTION reprise.untrusted(text, json), reprise.mounts_one_of(text, json, text[])
    TO reprise_kernel;
