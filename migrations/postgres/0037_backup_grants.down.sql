REVOKE SELECT ON SEQUENCE changes_id_seq, click_batches_id_seq, link_text_queue_number_seq FROM linkforge_system;
