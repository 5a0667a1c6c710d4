"""Rules that hold whatever the code above does."""

from __future__ import annotations

from django.db import migrations

TERMINAL = """
CREATE FUNCTION workflows_terminal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% % has settled as %', TG_TABLE_NAME, OLD.id, OLD.state
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER run_terminal BEFORE UPDATE ON workflows_run FOR EACH ROW
    WHEN (OLD.state IN ('completed', 'failed', 'cancelled'))
    EXECUTE FUNCTION workflows_terminal();
CREATE TRIGGER step_terminal BEFORE UPDATE ON workflows_checkpoint FOR EACH ROW
    WHEN (OLD.state IN ('completed', 'failed', 'skipped', 'cancelled'))
    EXECUTE FUNCTION workflows_terminal();
"""
NOT_TERMINAL = """
DROP TRIGGER run_terminal ON workflows_run;
DROP TRIGGER step_terminal ON workflows_checkpoint;
DROP FUNCTION workflows_terminal();
"""
IMMUTABLE = """
CREATE FUNCTION workflows_immutable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% never changes', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER plan_immutable BEFORE UPDATE ON workflows_plan
    FOR EACH ROW EXECUTE FUNCTION workflows_immutable();
CREATE TRIGGER event_immutable BEFORE UPDATE ON workflows_event
    FOR EACH ROW EXECUTE FUNCTION workflows_immutable();
CREATE TRIGGER workflow_stays BEFORE DELETE ON workflows_workflow
    FOR EACH ROW EXECUTE FUNCTION workflows_immutable();
"""
NOT_IMMUTABLE = """
DROP TRIGGER plan_immutable ON workflows_plan;
DROP TRIGGER event_immutable ON workflows_event;
DROP TRIGGER workflow_stays ON workflows_workflow;
DROP FUNCTION workflows_immutable();
"""
# Looked at when the transaction commits: a run cannot settle while something in its
# thread still asks a person, nor while its own wait stands open.
NOTHING_OPEN = """
CREATE FUNCTION workflows_nothing_open() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM workflows_runthread rt
               WHERE rt.run_id = NEW.id
                 AND (rt.awaiting OR EXISTS (
                     SELECT 1 FROM threads_gate g
                     WHERE g.thread_id = rt.thread_id AND g.state = 'open'))) THEN
        RAISE EXCEPTION 'run % has settled with a gate or a wait still open', NEW.id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER run_nothing_open AFTER UPDATE ON workflows_run
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.state IN ('completed', 'failed', 'cancelled'))
    EXECUTE FUNCTION workflows_nothing_open();
"""
NOT_NOTHING_OPEN = """
DROP TRIGGER run_nothing_open ON workflows_run;
DROP FUNCTION workflows_nothing_open();
"""
# Room on the page lets the rows that change often stay where they are (HOT).
ROOM = """
ALTER TABLE workflows_run SET (fillfactor = 70);
ALTER TABLE workflows_runthread SET (fillfactor = 70);
ALTER TABLE workflows_checkpoint SET (fillfactor = 85);
"""
NO_ROOM = """
ALTER TABLE workflows_run RESET (fillfactor);
ALTER TABLE workflows_runthread RESET (fillfactor);
ALTER TABLE workflows_checkpoint RESET (fillfactor);
"""


class Migration(migrations.Migration):
    dependencies = [("workflows", "0001_tables"), ("threads", "0002_guards")]
    operations = [
        migrations.RunSQL(TERMINAL, NOT_TERMINAL),
        migrations.RunSQL(IMMUTABLE, NOT_IMMUTABLE),
        migrations.RunSQL(NOTHING_OPEN, NOT_NOTHING_OPEN),
        migrations.RunSQL(ROOM, NO_ROOM),
    ]
