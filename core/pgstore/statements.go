package pgstore

// clock_timestamp() is the time of its call. now() is the start of the statement or
// transaction. It is older by the wait for a locked row, and in a handler's
// transaction by the handler's whole run.

const (
	// isExpired: the row r counts as missing.
	isExpired = `r.expires_at <= clock_timestamp()`

	// isHeld: the row r belongs to the lease of token $2, and is not finished.
	isHeld = `r.version = 1 AND r.token = $2 AND r.state IN ('in_progress', 'released')`

	// isOpen: the row r, not expired, may be claimed by token $2 for fingerprint $3
	// and digest $8. It may be a take-over of an abandoned key if $6. isOpen is never
	// null, though $8 may be: see storage.Claim.Repeats.
	isOpen = `(r.version = 1 AND (r.state = 'released' OR r.state = 'in_progress' AND (
		r.token = $2 OR $6::boolean AND r.lease_until <= clock_timestamp() AND (
			r.fingerprint = $3 OR r.digest = $8 AND r.digest_token = r.token)))) IS TRUE`

	// leaseLeft is null when the end of a lease is missing or infinite.
	leaseLeft = `CASE WHEN isfinite(r.lease_until) THEN (extract(epoch FROM r.lease_until - clock_timestamp()) * 1000000)::bigint END`
	// ownSketch ignores the sketch of an earlier record. An older program, which does
	// not know the column, leaves such a sketch in the row: see the README of the
	// migrations.
	ownSketch = `CASE WHEN r.sketch_token = r.token THEN r.sketch END`
	// ownDigest does the same for a digest.
	ownDigest = `CASE WHEN r.digest_token = r.token THEN r.digest END`
	// wholeRecord are the columns of storedRecord. All are null where there is no
	// row.
	wholeRecord = identity + `, r.status, r.header, r.body, ` + ownSketch
	// withoutResponse are the same columns without header, body and sketch.
	withoutResponse = identity + `, r.status, NULL::jsonb, NULL::bytea, NULL::bytea`
	identity        = leaseLeft + `, r.version, r.state, r.attempt, r.fingerprint, ` + ownDigest
)

// acquireStatement returns one row. It has the record that was found, and the attempt
// that was won, or 0 when another caller was faster, or null.
//
// It reads first, and calls the function claim_request of the migrations for a key
// that it finds open. The function's INSERT and UPDATE lock the row, and so write,
// even if the claim fails. As part of this statement they would also be prepared for
// each replay.
//
// The two steps see different times. The record is from the snapshot: rows committed
// before the statement began. The function sees the newest version, after a wait for
// another transaction that is writing the row. So a caller that found the key open
// may still lose it, and the record is then out of date.
//
// The statement reads the remaining lease time before isOpen tests whether the lease
// has ended. So a lease that ends in between is taken over, and not shown as
// abandoned.
const acquireStatement = `
SELECT ` + wholeRecord + `,
	CASE WHEN r.key IS NULL OR ` + isOpen + ` THEN
		{schema}.claim_request($1, $2::uuid, $3::text, $8::uuid, $4::interval, $5::interval, $6::boolean, $7::boolean) END
FROM (SELECT) AS one LEFT JOIN {schema}.records AS r ON r.key = $1 AND NOT ` + isExpired

// completeStatement affects one row, or none when the claim has changed. Nearly
// always the claim is unchanged, and no other statement is needed. The claim has
// written the columns that a settlement does not change.
const completeStatement = `
UPDATE {schema}.records AS r SET
	state = $3, lease_until = NULL, expires_at = clock_timestamp() + $4::interval, status = $5, header = $6::text::jsonb, body = $7,
	sketch = $8, sketch_token = $2::uuid, settled_at = clock_timestamp()
WHERE r.key = $1 AND r.version = 1 AND r.token = $2::uuid AND r.attempt = $9 AND r.state = 'in_progress'`

// restoreStatement completes a record even if its claim is gone. It affects one row,
// or none when the lease is lost or the result exists already.
const restoreStatement = `
INSERT INTO {schema}.records AS r
	(key, token, version, state, attempt, took_over, fingerprint, expires_at, status, header, body, sketch, sketch_token,
	digest, digest_token, claimed_at, settled_at)
VALUES ($1, $2::uuid, 1, $3, $9, $10, $11, clock_timestamp() + $4::interval, $5, $6::text::jsonb, $7, $8, $2::uuid,
	$12::uuid, $2::uuid, clock_timestamp(), clock_timestamp())
ON CONFLICT (key) DO UPDATE SET
	token = $2, version = 1, state = EXCLUDED.state, attempt = EXCLUDED.attempt, took_over = EXCLUDED.took_over,
	fingerprint = EXCLUDED.fingerprint, lease_until = NULL, expires_at = clock_timestamp() + $4::interval,
	status = EXCLUDED.status, header = EXCLUDED.header, body = EXCLUDED.body,
	sketch = EXCLUDED.sketch, sketch_token = EXCLUDED.sketch_token, digest = EXCLUDED.digest, digest_token = EXCLUDED.digest_token,
	settled_at = clock_timestamp()
WHERE ` + isExpired + ` OR r.attempt = EXCLUDED.attempt AND ` + isHeld

// extendStatement affects one row, or none when the lease is lost.
const extendStatement = `
INSERT INTO {schema}.records AS r
	(key, token, version, state, attempt, took_over, fingerprint, digest, digest_token, lease_until, expires_at, claimed_at)
VALUES ($1, $2::uuid, 1, 'in_progress', $3, $4, $5, $8::uuid, $2::uuid,
	clock_timestamp() + $6::interval, clock_timestamp() + $7::interval, clock_timestamp())
ON CONFLICT (key) DO UPDATE SET
	token = $2, version = 1, state = 'in_progress', attempt = EXCLUDED.attempt, took_over = EXCLUDED.took_over,
	fingerprint = EXCLUDED.fingerprint, lease_until = clock_timestamp() + $6::interval, expires_at = clock_timestamp() + $7::interval,
	digest = EXCLUDED.digest, digest_token = EXCLUDED.digest_token,
	status = NULL, header = NULL, body = NULL, sketch = NULL, sketch_token = NULL, settled_at = NULL
WHERE ` + isExpired + ` OR r.attempt = EXCLUDED.attempt AND ` + isHeld

// releaseFirstStatement and releaseLaterStatement affect one row, or none when the
// lease is lost or the key is released already. The first deletes the key. The second
// keeps its attempt number.
const (
	releaseFirstStatement = `
DELETE FROM {schema}.records AS r WHERE r.key = $1 AND r.attempt = $3 AND ` + isHeld

	releaseLaterStatement = `
UPDATE {schema}.records AS r SET
	state = 'released', took_over = false, fingerprint = '', digest = NULL, lease_until = NULL, expires_at = clock_timestamp() + $4::interval,
	settled_at = clock_timestamp()
WHERE r.key = $1 AND r.attempt = $3 AND ` + isHeld
)

// holderStatement returns whether attempt $3 of token $2 has finished the record, and
// whether that attempt is still in progress.
const holderStatement = `
SELECT r.version = 1 AND r.token = $2::uuid AND r.attempt = $3 AND r.state NOT IN ('in_progress', 'released'),
	r.version = 1 AND r.token = $2::uuid AND r.state = 'in_progress' AND r.attempt = $3
FROM {schema}.records AS r WHERE r.key = $1 AND NOT ` + isExpired

// sweepStatement removes up to $1 rows. It skips rows that are locked: a claim may be
// taking over the row, or another sweeper removing it. After it has locked a row, it
// checks again whether the row was claimed since the snapshot.
//
// It uses an array of keys, because with IN the planner may read the whole table to
// find them. It uses now(), because no index can be searched for clock_timestamp().
const sweepStatement = `
DELETE FROM {schema}.records WHERE key = ANY (ARRAY(
	SELECT key FROM {schema}.records
	WHERE sweep_after <= now() AT TIME ZONE 'UTC' ORDER BY sweep_after LIMIT $1
	FOR UPDATE SKIP LOCKED
))`

const (
	lookUpStatement = `
SELECT ` + wholeRecord + ` FROM {schema}.records AS r
WHERE r.key = $1 AND r.state <> 'released' AND NOT ` + isExpired

	// windowStatement returns the last of the next $2 keys after $1, and their
	// number.
	windowStatement = `
SELECT coalesce(max(key), ''), count(*)
FROM (SELECT key FROM {schema}.records WHERE key > $1 ORDER BY key LIMIT $2) AS keys`

	// listStatement returns up to $4 records in state $3, after key $1 and up to $2,
	// without header, body and sketch.
	listStatement = `
SELECT ` + withoutResponse + `, r.key FROM {schema}.records AS r
WHERE r.key > $1 AND r.key <= $2 AND r.state = $3 AND NOT ` + isExpired + `
ORDER BY r.key LIMIT $4`

	forgetStatement = `
DELETE FROM {schema}.records AS r WHERE r.key = $1 RETURNING r.state <> 'released' AND NOT ` + isExpired
)

// statements are the statements above in the store's schema.
type statements struct {
	acquire, complete, restore, extend, releaseFirst, releaseLater, holder, sweep, lookUp, window, list, forget string
}

func newStatements(schema string) statements {
	return statements{
		acquire:      inSchema(schema, acquireStatement),
		complete:     inSchema(schema, completeStatement),
		restore:      inSchema(schema, restoreStatement),
		extend:       inSchema(schema, extendStatement),
		releaseFirst: inSchema(schema, releaseFirstStatement),
		releaseLater: inSchema(schema, releaseLaterStatement),
		holder:       inSchema(schema, holderStatement),
		sweep:        inSchema(schema, sweepStatement),
		lookUp:       inSchema(schema, lookUpStatement),
		window:       inSchema(schema, windowStatement),
		list:         inSchema(schema, listStatement),
		forget:       inSchema(schema, forgetStatement),
	}
}
