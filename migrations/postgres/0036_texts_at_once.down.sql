DROP TRIGGER link_text_created ON links;
CREATE TRIGGER link_text_created AFTER INSERT ON links FOR EACH ROW EXECUTE FUNCTION queue_link_text();
DROP FUNCTION queue_link_texts;
