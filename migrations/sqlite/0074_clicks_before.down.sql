ALTER TABLE grants DROP COLUMN clicks_before;
