-- Version 2: what tells a request from the one that made the record.

-- Who waits for this lock holds up everybody who comes after it. So rather fail, and be run again.
SET LOCAL lock_timeout = '3s';

ALTER TABLE {schema}.records
	-- At most 256 bytes that mean nothing to this package, see core.Result. It changes whenever status, header and body do.
	ADD COLUMN sketch       bytea,
	-- The token of the attempt that has left the sketch. A program that does not know these columns leaves them as they
	-- are, beside another token.
	ADD COLUMN sketch_token uuid;

INSERT INTO {schema}.migrations (version) VALUES (2);
