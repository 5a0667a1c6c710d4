"""Rules that hold whatever the code above does."""

from __future__ import annotations

from django.db import migrations

APPEND_ONLY = """
CREATE FUNCTION threads_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('threadwork.retention', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER entry_append_only BEFORE UPDATE OR DELETE ON threads_entry
    FOR EACH ROW EXECUTE FUNCTION threads_append_only();
CREATE TRIGGER message_append_only BEFORE UPDATE OR DELETE ON threads_turnmessage
    FOR EACH ROW EXECUTE FUNCTION threads_append_only();
CREATE TRIGGER answer_append_only BEFORE UPDATE OR DELETE ON threads_gateanswer
    FOR EACH ROW EXECUTE FUNCTION threads_append_only();
"""
NOT_APPEND_ONLY = """
DROP TRIGGER entry_append_only ON threads_entry;
DROP TRIGGER message_append_only ON threads_turnmessage;
DROP TRIGGER answer_append_only ON threads_gateanswer;
DROP FUNCTION threads_append_only();
"""
TERMINAL = """
CREATE FUNCTION threads_terminal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% % has settled as %', TG_TABLE_NAME, OLD.id, OLD.state
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER turn_terminal BEFORE UPDATE ON threads_turn FOR EACH ROW
    WHEN (OLD.state IN ('succeeded', 'failed', 'cancelled'))
    EXECUTE FUNCTION threads_terminal();
CREATE TRIGGER job_terminal BEFORE UPDATE ON threads_job FOR EACH ROW
    WHEN (OLD.state IN ('succeeded', 'dead')) EXECUTE FUNCTION threads_terminal();
CREATE TRIGGER gate_terminal BEFORE UPDATE ON threads_gate FOR EACH ROW
    WHEN (OLD.state = 'closed') EXECUTE FUNCTION threads_terminal();
"""
NOT_TERMINAL = """
DROP TRIGGER turn_terminal ON threads_turn;
DROP TRIGGER job_terminal ON threads_job;
DROP TRIGGER gate_terminal ON threads_gate;
DROP FUNCTION threads_terminal();
"""
OWN_BOT = """
CREATE FUNCTION threads_own_bot() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM threads_thread
               WHERE id = NEW.thread_id AND kind = 'run' AND bot_id <> NEW.bot_id) THEN
        RAISE EXCEPTION 'only the bound bot works in a run''s thread'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER turn_own_bot BEFORE INSERT OR UPDATE OF thread_id, bot_id ON threads_turn
    FOR EACH ROW EXECUTE FUNCTION threads_own_bot();
CREATE FUNCTION threads_stays_bound() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a run''s thread stays bound to its bot'
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER thread_stays_bound BEFORE UPDATE OF kind, bot_id ON threads_thread
    FOR EACH ROW WHEN (OLD.kind = 'run'
        AND (NEW.kind <> 'run' OR NEW.bot_id IS DISTINCT FROM OLD.bot_id))
    EXECUTE FUNCTION threads_stays_bound();
"""
NOT_OWN_BOT = """
DROP TRIGGER thread_stays_bound ON threads_thread;
DROP FUNCTION threads_stays_bound();
DROP TRIGGER turn_own_bot ON threads_turn;
DROP FUNCTION threads_own_bot();
"""
# Room on the page lets the rows that change often stay where they are (HOT).
ROOM = """
ALTER TABLE threads_thread SET (fillfactor = 70);
ALTER TABLE threads_turn SET (fillfactor = 70);
ALTER TABLE threads_pulse SET (fillfactor = 50);
"""
NO_ROOM = """
ALTER TABLE threads_thread RESET (fillfactor);
ALTER TABLE threads_turn RESET (fillfactor);
ALTER TABLE threads_pulse RESET (fillfactor);
"""


class Migration(migrations.Migration):
    dependencies = [("threads", "0001_tables")]
    operations = [
        migrations.RunSQL(APPEND_ONLY, NOT_APPEND_ONLY),
        migrations.RunSQL(TERMINAL, NOT_TERMINAL),
        migrations.RunSQL(OWN_BOT, NOT_OWN_BOT),
        migrations.RunSQL(ROOM, NO_ROOM),
    ]
