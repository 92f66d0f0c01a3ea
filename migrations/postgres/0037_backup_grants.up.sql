-- pg_dump reads sequences as linkforge_system. Identity columns need no grant for anything else.
GRANT SELECT ON SEQUENCE changes_id_seq, click_batches_id_seq, link_text_queue_number_seq TO linkforge_system;
