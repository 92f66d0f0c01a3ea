ALTER TABLE links DROP password_hash;
