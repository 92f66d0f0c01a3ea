ALTER TABLE host_owners DROP case_sensitive;
ALTER TABLE host_owners DROP domain_id;
DROP INDEX links_by_domain;
ALTER TABLE links DROP domain_id;
ALTER TABLE links DROP own_address;
ALTER TABLE domains DROP case_sensitive;
ALTER TABLE domains DROP code_space;
