package pgstore

// clock_timestamp() is the time of its call. now() is the start of the statement or
// transaction. It is older by the wait for a locked row, and in a handler's
// transaction by the handler's whole run.

const (
	// isExpired: the row r counts as missing. Its tombstone, if any, is over.
	isExpired = `r.expires_at <= clock_timestamp()`

	// isOver: the row r, not expired, counts as a tombstone, swept or not.
	isOver = `(r.version = 2 AND (r.state = 'gone' OR r.retain_until <= clock_timestamp())) IS TRUE`

	// isHeld: the row r belongs to the lease of token $2, and is not finished.
	isHeld = `r.version IN (1, 2) AND r.token = $2 AND r.state IN ('in_progress', 'released') AND NOT ` + isOver

	// isOpen: the row r, not expired, may be claimed by token $2 for fingerprint $3
	// and digest $8. It may be a take-over of an abandoned key if $6. isOpen is never
	// null, though $8 may be: see storage.Claim.Repeats.
	//
	// It uses now() for the end of Retain, which is before the time of the record: a
	// row that is over here is a tombstone in the record too. The function claim_record
	// checks the time again.
	isOpen = `(r.version IN (1, 2) AND (r.version = 2 AND r.retain_until <= now()) IS NOT TRUE AND (
		` + isForgotten + ` OR r.state = 'in_progress' AND r.token = $2 OR (
			r.state = 'released' OR $6::boolean AND r.state = 'in_progress' AND r.lease_until <= clock_timestamp()
		) AND (r.fingerprint = $3 OR r.digest = $8 AND r.digest_token = r.token))) IS TRUE`

	// isForgotten: the key of row r was released without steps. Only the attempt number is
	// left.
	isForgotten = `(r.state = 'released' AND (r.version = 2 AND r.steps IS NOT NULL) IS NOT TRUE)`

	// ownSketch ignores the sketch of an earlier record. An older program, which does
	// not know the column, leaves such a sketch in the row: see the README of the
	// migrations.
	ownSketch = `CASE WHEN r.sketch_token = r.token THEN r.sketch END`
	// ownDigest and ownOrigin do the same. A tombstone has no digest_token.
	ownDigest = `CASE WHEN r.digest_token = r.token OR r.state = 'gone' THEN r.digest END`
	ownOrigin = `CASE WHEN r.origin_token = r.token THEN r.origin END`
	// times are the time of the record and the times in it, 8 bytes each, in one
	// column: a column costs a replay more than a time does. The bytes are the same
	// under every DateStyle.
	times = `timestamptz_send(clock_timestamp()) || timestamptz_send(coalesce(r.lease_until, 'infinity')) ||
	timestamptz_send(r.claimed_at) || timestamptz_send(coalesce(r.settled_at, 'infinity')) ||
	timestamptz_send(r.expires_at) || timestamptz_send(coalesce(r.retain_until, 'infinity'))`
	// wholeRecord are the columns of storedRecord. All are null where there is no
	// row.
	wholeRecord = identity + `, r.header, r.body, ` + ownSketch + `, r.steps`
	// withoutResponse are the same columns without header, sketch and steps, and with
	// the body of a tombstone only.
	withoutResponse = identity + `, NULL::jsonb, CASE WHEN r.state = 'gone' THEN r.body END, NULL::bytea, NULL::bytea`
	identity        = times + `, r.version, r.state, r.attempt, r.fingerprint, ` + ownDigest + `, ` + ownOrigin + `, r.status`
)

// The statements that write a record have as $4 the time for which the row is kept,
// and as $5 the Retain of a row that is remembered after that, or null. A remembered
// row has version 2: a program that does not know tombstones refuses the row, and must
// not count it as missing before the tombstone is over.
const (
	setVersion     = `CASE WHEN $5::interval IS NULL THEN 1 ELSE 2 END`
	setExpiresAt   = `clock_timestamp() + $4::interval`
	setRetainUntil = `clock_timestamp() + $5::interval`
	setRetainHour  = `date_trunc('hour', clock_timestamp() + $5::interval)`
)

// acquireStatement returns one row. It has the record that was found, and the attempt
// that was won with the steps of the key, or 0 when another caller was faster, or
// null: see the function claim_record.
//
// It reads first, and calls the function claim_record of the migrations for a key
// that it finds open. The function's INSERT and UPDATE lock the row, and so write,
// even if the claim fails. As part of this statement they would also be prepared for
// each replay.
//
// The two steps see different times. The record is from the snapshot: rows committed
// before the statement began. The function sees the newest version, after a wait for
// another transaction that is writing the row. So a caller that found the key open
// may still lose it, and the record is then out of date.
//
// The statement reads the time of the record before isOpen tests whether the lease
// has ended. So a lease that ends in between is taken over, and not shown as
// abandoned.
const acquireStatement = `
SELECT ` + wholeRecord + `,
	CASE WHEN r.key IS NULL OR ` + isOpen + ` THEN
		{schema}.claim_record($1, $2::uuid, $3::text, $8::uuid, $10::text, $9::interval, $4::interval, $5::interval, $6::boolean, $7::boolean) END
FROM (SELECT) AS one LEFT JOIN {schema}.records AS r ON r.key = $1 AND NOT ` + isExpired

// completeStatement affects one row, or none when the claim has changed. Nearly
// always the claim is unchanged, and no other statement is needed. The claim has
// written the columns that a settlement does not change.
const completeStatement = `
UPDATE {schema}.records AS r SET
	version = ` + setVersion + `, state = $3, lease_until = NULL, steps = NULL,
	expires_at = ` + setExpiresAt + `, retain_until = ` + setRetainUntil + `, retain_hour = ` + setRetainHour + `,
	status = $6, header = $7::text::jsonb, body = $8, sketch = $9, sketch_token = $2::uuid, settled_at = clock_timestamp()
WHERE r.key = $1 AND r.version IN (1, 2) AND r.token = $2::uuid AND r.attempt = $10 AND r.state = 'in_progress' AND NOT ` + isOver

// completeBegunStatement is completeStatement in a handler's transaction. It affects no
// row either in another transaction than the one that the store has begun.
const completeBegunStatement = completeStatement + ` AND ` + isBegun

// restoreStatement completes a record even if its claim is gone. It affects one row,
// or none when the lease is lost or the result exists already. Of the time of a lost
// claim only its age is known, $15.
const restoreStatement = `
INSERT INTO {schema}.records AS r
	(key, token, version, state, attempt, took_over, fingerprint, expires_at, retain_until, retain_hour,
	status, header, body, sketch, sketch_token, digest, digest_token, origin, origin_token, claimed_at, settled_at)
VALUES ($1, $2::uuid, ` + setVersion + `, $3, $10, $11, $12, ` + setExpiresAt + `, ` + setRetainUntil + `, ` + setRetainHour + `,
	$6, $7::text::jsonb, $8, $9, $2::uuid, $13::uuid, $2::uuid, $14::text, CASE WHEN $14::text IS NOT NULL THEN $2::uuid END,
	clock_timestamp() - $15::interval, clock_timestamp())
ON CONFLICT (key) DO UPDATE SET
	token = $2, version = EXCLUDED.version, state = EXCLUDED.state, attempt = EXCLUDED.attempt, took_over = EXCLUDED.took_over,
	fingerprint = EXCLUDED.fingerprint, lease_until = NULL, steps = NULL,
	expires_at = ` + setExpiresAt + `, retain_until = ` + setRetainUntil + `, retain_hour = ` + setRetainHour + `,
	status = EXCLUDED.status, header = EXCLUDED.header, body = EXCLUDED.body,
	sketch = EXCLUDED.sketch, sketch_token = EXCLUDED.sketch_token, digest = EXCLUDED.digest, digest_token = EXCLUDED.digest_token,
	origin = EXCLUDED.origin, origin_token = EXCLUDED.origin_token,
	claimed_at = ` + keepClaimedAt + `, settled_at = clock_timestamp()
WHERE ` + isExpired + ` OR r.attempt = EXCLUDED.attempt AND ` + isHeld

// keepClaimedAt replaces the time of a claim only together with the claim.
const keepClaimedAt = `CASE WHEN r.token = $2 AND r.attempt = EXCLUDED.attempt THEN r.claimed_at ELSE EXCLUDED.claimed_at END`

// extendStatement affects one row, or none when the lease is lost. It keeps the
// longer steps. Steps of equal length are the same steps, and are not written again.
//
// An expired row's steps belong to no lease. The version is 2 for those too, because
// the time may pass between the two columns, and steps in a row of version 1 are lost.
const extendStatement = `
INSERT INTO {schema}.records AS r
	(key, token, version, state, attempt, took_over, fingerprint, digest, digest_token, origin, origin_token, steps,
	lease_until, expires_at, retain_until, retain_hour, claimed_at)
VALUES ($1, $2::uuid, CASE WHEN $11::bytea IS NOT NULL THEN 2 ELSE ` + setVersion + ` END, 'in_progress', $3, $6, $7,
	$8::uuid, $2::uuid, $9::text, CASE WHEN $9::text IS NOT NULL THEN $2::uuid END, $11::bytea,
	clock_timestamp() + $10::interval, ` + setExpiresAt + `, ` + setRetainUntil + `, ` + setRetainHour + `,
	clock_timestamp() - $12::interval)
ON CONFLICT (key) DO UPDATE SET
	token = $2, state = 'in_progress', attempt = EXCLUDED.attempt, took_over = EXCLUDED.took_over,
	version = CASE WHEN r.version = 2 AND r.steps IS NOT NULL THEN 2 ELSE EXCLUDED.version END,
	steps = CASE WHEN r.version = 2 AND NOT ` + isExpired + ` AND length(r.steps) >= coalesce(length(EXCLUDED.steps), 0)
		THEN r.steps ELSE EXCLUDED.steps END,
	fingerprint = EXCLUDED.fingerprint, digest = EXCLUDED.digest, digest_token = EXCLUDED.digest_token,
	origin = EXCLUDED.origin, origin_token = EXCLUDED.origin_token, lease_until = clock_timestamp() + $10::interval,
	expires_at = ` + setExpiresAt + `, retain_until = ` + setRetainUntil + `, retain_hour = ` + setRetainHour + `,
	status = NULL, header = NULL, body = NULL, sketch = NULL, sketch_token = NULL,
	claimed_at = ` + keepClaimedAt + `, settled_at = NULL
WHERE ` + isExpired + ` OR r.attempt = EXCLUDED.attempt AND ` + isHeld

// releaseStepsStatement affects one row, or none when the lease is lost. The row keeps the
// request, the origin and the steps.
const releaseStepsStatement = `
INSERT INTO {schema}.records AS r
	(key, token, version, state, attempt, took_over, fingerprint, digest, digest_token, origin, origin_token, steps,
	expires_at, claimed_at)
VALUES ($1, $2::uuid, 2, 'released', $3, false, $5, $6::uuid, $2::uuid, $7::text,
	CASE WHEN $7::text IS NOT NULL THEN $2::uuid END, $8::bytea, ` + setExpiresAt + `, clock_timestamp() - $9::interval)
ON CONFLICT (key) DO UPDATE SET
	token = $2, version = 2, state = 'released', attempt = EXCLUDED.attempt, took_over = false, steps = EXCLUDED.steps,
	fingerprint = EXCLUDED.fingerprint, digest = EXCLUDED.digest, digest_token = EXCLUDED.digest_token,
	origin = EXCLUDED.origin, origin_token = EXCLUDED.origin_token, lease_until = NULL,
	expires_at = ` + setExpiresAt + `, retain_until = NULL, retain_hour = NULL,
	status = NULL, header = NULL, body = NULL, sketch = NULL, sketch_token = NULL,
	claimed_at = ` + keepClaimedAt + `, settled_at = NULL
WHERE ` + isExpired + ` OR r.attempt = EXCLUDED.attempt AND ` + isHeld

// releaseFirstStatement and releaseLaterStatement affect one row, or none when the
// lease is lost or the key is released already. The first deletes the key. The second
// keeps its attempt number.
const (
	releaseFirstStatement = `
DELETE FROM {schema}.records AS r WHERE r.key = $1 AND r.attempt = $3 AND ` + isHeld

	releaseLaterStatement = `
UPDATE {schema}.records AS r SET
	version = 1, state = 'released', took_over = false, fingerprint = '', digest = NULL, origin = NULL, origin_token = NULL,
	steps = NULL, lease_until = NULL, expires_at = clock_timestamp() + $4::interval, retain_until = NULL, retain_hour = NULL,
	settled_at = clock_timestamp()
WHERE r.key = $1 AND r.attempt = $3 AND ` + isHeld
)

// holderStatement returns whether attempt $3 of token $2 has finished the record, and
// whether that attempt is still in progress.
const holderStatement = `
SELECT own AND r.state NOT IN ('in_progress', 'released'), own AND r.state = 'in_progress'
FROM {schema}.records AS r,
	LATERAL (SELECT r.version IN (1, 2) AND r.token = $2::uuid AND r.attempt = $3 AND NOT ` + isOver + ` AS own) AS lease
WHERE r.key = $1 AND NOT ` + isExpired

// sweepStatement removes up to $1 rows, makes up to $1 others tombstones, and returns
// both numbers. It skips rows that are locked: a claim may be taking over the row, or
// another sweeper removing it. After it has locked a row, it checks again whether the
// row was claimed since the snapshot.
//
// It uses arrays of keys, because with IN the planner may read the whole table to
// find them. It uses now(), because no index can be searched for clock_timestamp().
//
// A tombstone's own data are state, fingerprint, digest, attempt and status. The body
// of a tombstone is the hash in its fingerprint, in half the bytes. A row of version 1
// is no tombstone, whatever an older program has left in retain_hour.
const sweepStatement = `
WITH removed AS (
	DELETE FROM {schema}.records WHERE key = ANY (ARRAY(
		SELECT key FROM {schema}.records
		WHERE sweep_after <= now() AT TIME ZONE 'UTC' ORDER BY sweep_after LIMIT $1
		FOR UPDATE SKIP LOCKED
	)) RETURNING 1
), shrunk AS (
	UPDATE {schema}.records SET
		state = 'gone', took_over = false, lease_until = NULL, retain_until = NULL, retain_hour = NULL,
		body = CASE WHEN ` + isHash + ` THEN decode(substr(fingerprint, 8), 'hex') END,
		fingerprint = CASE WHEN ` + isHash + ` THEN '' ELSE fingerprint END,
		digest_token = NULL, header = NULL, sketch = NULL, sketch_token = NULL, steps = NULL,
		origin = NULL, origin_token = NULL, settled_at = NULL
	WHERE key = ANY (ARRAY(
		SELECT key FROM {schema}.records
		WHERE retain_hour <= now() - interval '1 hour' AND sweep_after > now() AT TIME ZONE 'UTC' AND version = 2
		ORDER BY retain_hour LIMIT $1
		FOR UPDATE SKIP LOCKED
	)) RETURNING 1
)
SELECT (SELECT count(*) FROM removed), (SELECT count(*) FROM shrunk)`

// isHash: the fingerprint is a prefix and a hash in hex, as package fingerprint
// writes it.
const isHash = `fingerprint ~ '^sha256:[0-9a-f]{64}$'`

const (
	lookUpStatement = `
SELECT ` + wholeRecord + ` FROM {schema}.records AS r
WHERE r.key = $1 AND NOT ` + isForgotten + ` AND NOT ` + isExpired

	forgetStatement = `
DELETE FROM {schema}.records AS r WHERE r.key = $1 RETURNING NOT ` + isForgotten + ` AND NOT ` + isExpired
)

// statements are the statements above in the store's schema.
type statements struct {
	acquire, complete, restore, extend, releaseSteps, releaseFirst, releaseLater, holder, sweep, lookUp, window, list, count, forget, happened, didNotHappen string
	claimMany, completeMany, completeBegun                                                                                                                   string
}

func newStatements(schema string) statements {
	return statements{
		acquire:      inSchema(schema, acquireStatement),
		complete:     inSchema(schema, completeStatement),
		restore:      inSchema(schema, restoreStatement),
		extend:       inSchema(schema, extendStatement),
		releaseSteps: inSchema(schema, releaseStepsStatement),
		releaseFirst: inSchema(schema, releaseFirstStatement),
		releaseLater: inSchema(schema, releaseLaterStatement),
		holder:       inSchema(schema, holderStatement),
		sweep:        inSchema(schema, sweepStatement),
		lookUp:       inSchema(schema, lookUpStatement),
		window:       inSchema(schema, windowStatement),
		list:         inSchema(schema, listStatement),
		count:        inSchema(schema, countStatement),
		forget:       inSchema(schema, forgetStatement),
		happened:     inSchema(schema, happenedStatement),
		didNotHappen: inSchema(schema, didNotHappenStatement),
		claimMany:    inSchema(schema, claimManyStatement),
		completeMany: inSchema(schema, completeManyStatement),

		completeBegun: inSchema(schema, completeBegunStatement),
	}
}
