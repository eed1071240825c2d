-- Version 2. One row of `run` is one `lab run`; everything else belongs to a run.
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    plan TEXT NOT NULL,             -- TOML
    plan_name TEXT NOT NULL,
    seed TEXT NOT NULL,             -- 64 bits, decimal: SQLite's integers are signed
    started_unix_ms INTEGER NOT NULL,
    elapsed_ns INTEGER,             -- null until it ended
    status TEXT NOT NULL,           -- JSON
    manifest TEXT NOT NULL          -- JSON: machine, versions, targets
) STRICT;
CREATE TABLE command (
    run INTEGER NOT NULL REFERENCES run(id),
    purpose TEXT NOT NULL,
    line TEXT NOT NULL,
    UNIQUE (run, purpose, line)
) STRICT;
CREATE TABLE cell (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run(id),
    block INTEGER NOT NULL,
    position INTEGER NOT NULL,
    workload INTEGER NOT NULL,      -- index into the plan
    target INTEGER NOT NULL,        -- index into the manifest
    started_ns INTEGER NOT NULL,    -- since the run began
    elapsed_ns INTEGER NOT NULL,
    headline REAL,                  -- fio's bytes per second, a tool's first figure
    outcome TEXT NOT NULL,          -- JSON: fio's result with its histogram, or a tool's figures
    evidence TEXT NOT NULL,         -- JSON
    raw TEXT NOT NULL               -- as fio or the tool wrote it
) STRICT;
CREATE INDEX cell_of_run ON cell (run, id);
CREATE TABLE sample (
    run INTEGER NOT NULL REFERENCES run(id),
    machine INTEGER NOT NULL DEFAULT 0, -- 0: this one; else the manifest's agents from 1 on
    at_ns INTEGER NOT NULL,
    sensor TEXT NOT NULL,
    item TEXT NOT NULL,
    value REAL NOT NULL
) STRICT;
CREATE INDEX sample_of_run ON sample (run, at_ns);
CREATE TABLE finding (
    run INTEGER NOT NULL REFERENCES run(id),
    cell INTEGER REFERENCES cell(id),   -- null: about the run
    check_name TEXT NOT NULL,
    level TEXT NOT NULL,
    text TEXT NOT NULL,
    body TEXT NOT NULL                  -- JSON
) STRICT;
CREATE INDEX finding_of_run ON finding (run);
