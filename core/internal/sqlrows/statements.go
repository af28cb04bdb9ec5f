package sqlrows

// Parameters have names here. Statements that end in RETURNING or contain more than the
// three databases share are avoided, so that one text serves all.
//
// :now is the time at the begin of a statement in MySQL, and before it in SQLite. A
// statement that waits for a lock then works with a time that is a little old. Old is
// safe: a lease that was over at that time is over now, and a lease that begins at that
// time ends no later than its caller expects, because callers count from before the
// call.

// {head} is a row without its response, and {whole} is a row with it. A dialect reads them
// as a text or as columns: see Form.AsText, and Row.head for the order.
const (
	// words are eleven numbers, the state and three hexadecimal words, the last of which
	// may be missing. Zero stands for null.
	words = `concat_ws(' ', :now, version, attempt, took_over, revision, coalesce(lease_until, 0), coalesce(retain_until, 0),
	expires_at, claimed_at, coalesce(settled_at, 0), coalesce(status, 0), state, {hex token}, {hex fingerprint}, {hex digest})`

	// The text is the words, the header and the origin, with a line break after the first
	// and the second. Without short names, SQLite and MySQL return each expression's text
	// with each row.
	textOfHead = `concat_ws('
', ` + words + `, '', coalesce(origin, ''))`
	textHead  = textOfHead + ` AS a`
	textWhole = `concat_ws('
', ` + words + `, coalesce(header, ''), coalesce(origin, '')) AS a, CASE WHEN state IN ('in_progress', 'released') THEN steps ELSE body END AS b, sketch`

	columnsHead = `:now AS a, version, attempt, took_over, revision, lease_until, retain_until, expires_at, claimed_at, settled_at, status,
	state, token, fingerprint, digest, origin`
	columnsWhole = columnsHead + `, header, steps, body, sketch`

	readStatement = `SELECT {whole} FROM {table} WHERE record_key = :key`

	// headStatement is for decisions about a row. It reads no response.
	headStatement = `SELECT {head} FROM {table} WHERE record_key = :key`
	// lockStatement is headStatement within a handler's transaction: it locks the row,
	// and so reads its newest version under every isolation level.
	lockStatement = headStatement + ` FOR UPDATE`

	// listStatement is headStatement for the rows after a key. As a text it leaves out rows whose
	// state is not in :states, such as ',in_progress,', unless that is empty: they are looked at
	// six times as fast.
	textListed    = `CASE WHEN :states = '' OR replace(:states, ',' || state || ',', '') <> :states THEN ` + textOfHead + ` ELSE '' END AS a`
	listStatement = `SELECT record_key, {listed} FROM {table} WHERE record_key > :key ORDER BY record_key LIMIT :limit`
)

// sweepAfter is the full hour after the earlier end of a row. It reads the clock once,
// because each reading costs the server up to a microsecond.
const sweepAfter = `((:now + :first) {div} 3600000000 + 1) * 3600000000`

// notOver: the row is no tombstone. MariaDB's planner takes 4 µs for an OR in its place.
const notOver = `(retain_until <= :now) IS NOT TRUE`

// allColumns are those of a whole row.
const allColumns = `record_key, version, state, attempt, took_over, token, revision, fingerprint, digest, origin,
	lease_until, retain_until, expires_at, sweep_after, claimed_at, settled_at, status, header, body, sketch, steps`

// insertStatement adds a whole row.
// The revision begins at the time: a claim that has seen an earlier row of the same token
// must not take the new one for it (TestTakeOverOfARestoredRow).
const insertStatement = `
INSERT INTO {table} (` + allColumns + `)
VALUES (:key, 1, :state, :attempt, :took_over, :token, :now, :fingerprint, :digest, :origin,
	:now + :lease, :now + :retain, :now + :keep, ` + sweepAfter + `, :now - :age, :now + :settled, :status, :header, :body, :sketch, :steps)`

// claimStatement is insertStatement for a key's first claim. Half as many parameters and,
// on PostgreSQL, a cheaper clock save a first-time request a tenth of its processor time.
const claimStatement = `
INSERT INTO {table} (record_key, version, state, attempt, took_over, token, revision, fingerprint, digest, origin,
	lease_until, retain_until, expires_at, sweep_after, claimed_at)
VALUES (:key, 1, 'in_progress', 1, 0, :token, 1, :fingerprint, :digest, :origin,
	:now + :lease, :now + :retain, :now + :keep, ` + sweepAfter + `, :now)`

// replaceStatement writes a whole row, unless the row has changed since it was seen, or
// has become a tombstone. Token and revision identify a state of a row: a token belongs
// to one claim, and each write of a row adds one to its revision.
const replaceStatement = `
UPDATE {table} SET
	version = 1, state = :state, attempt = :attempt, took_over = :took_over, token = :token, revision = revision + 1,
	fingerprint = :fingerprint, digest = :digest, origin = :origin,
	steps = CASE WHEN :keep_steps * coalesce(length(steps), 0) > :steps_length THEN steps ELSE :steps END,
	claimed_at = CASE WHEN :keep_claimed = 1 THEN claimed_at ELSE :now - :age END,
	lease_until = :now + :lease, retain_until = :now + :retain, sweep_after = ` + sweepAfter + `, expires_at = :now + :keep,
	settled_at = :now + :settled, status = :status, header = :header, body = :body, sketch = :sketch
WHERE record_key = :key AND token = :seen_token AND revision = :seen_revision AND (expires_at <= :now OR ` + notOver + `)`

// isHeld: the row belongs to the attempt, which is in progress.
const isHeld = `record_key = :key AND token = :token AND attempt = :attempt AND state = 'in_progress' AND version = 1 AND ` + notOver

// completeStatement changes the columns that the claim has not written. MySQL assigns
// columns in this order, so a column in a WHEN stands before its own assignment.
const completeStatement = `
UPDATE {table} SET
	state = :state, revision = revision + 1, lease_until = NULL, steps = NULL,
	retain_until = :now + :retain, expires_at = :now + :keep, sweep_after = ` + sweepAfter + `,
	settled_at = :now, status = :status, header = :header, body = :body, sketch = :sketch
WHERE ` + isHeld

// extendStatement keeps the longer steps.
const extendStatement = `
UPDATE {table} SET
	revision = revision + 1, lease_until = :now + :lease,
	retain_until = :now + :retain, expires_at = :now + :keep, sweep_after = ` + sweepAfter + `,
	steps = CASE WHEN :steps_length > coalesce(length(steps), 0) THEN :steps ELSE steps END
WHERE ` + isHeld + ` AND expires_at > :now`

// releaseFirstStatement deletes the row. releaseLaterStatement keeps its attempt number, and
// releaseStepsStatement the request, the origin and the steps too.
const (
	releaseFirstStatement = `DELETE FROM {table} WHERE ` + isHeld

	releaseLaterStatement = `UPDATE {table} SET ` + setForgotten + `, expires_at = :now + :keep, sweep_after = ` + sweepAfter + `
WHERE ` + isHeld

	releaseStepsStatement = `
UPDATE {table} SET
	state = 'released', took_over = 0, revision = revision + 1, steps = :steps, lease_until = NULL, retain_until = NULL,
	expires_at = :now + :keep, sweep_after = ` + sweepAfter + `
WHERE ` + isHeld

	setForgotten = `
	state = 'forgotten', took_over = 0, revision = revision + 1, fingerprint = :fingerprint, digest = NULL, origin = NULL, steps = NULL,
	lease_until = NULL, retain_until = NULL, settled_at = :now, status = NULL, header = NULL, body = NULL, sketch = NULL`
)

// forgetStatement deletes a row, unless it has changed since it was seen.
const forgetStatement = `DELETE FROM {table} WHERE record_key = :key AND token = :seen_token AND revision = :seen_revision`

// isAbandoned: the row is the attempt's, and its lease has ended.
const isAbandoned = `record_key = :key AND attempt = :attempt AND state = 'in_progress' AND version = 1 AND lease_until <= :now
	AND expires_at > :now AND ` + notOver

// happenedStatement and didNotHappenStatement are an operator's decision. A new token makes
// the lease of the old holder lost. The status is storage.StatusByHand.
const (
	happenedStatement = `
UPDATE {table} SET
	state = 'unreplayable', status = 999, token = :token, revision = revision + 1, steps = NULL, lease_until = NULL, settled_at = :now
WHERE ` + isAbandoned

	didNotHappenStatement = `UPDATE {table} SET ` + setReleasedByOperator + ` WHERE ` + isAbandoned

	// setReleasedByOperator keeps the attempt number for as long as the response would
	// have been kept. MySQL assigns in this order.
	setReleasedByOperator = `token = :token, expires_at = coalesce(retain_until, expires_at),` + setForgotten
)

// The sweeper reads keys, and removes the rows that are still over by then: an exact
// list of keys locks no gaps in MySQL, under no isolation level. {listed} is the condition
// that a row has one of the keys.
const (
	overdueStatement = `
SELECT record_key FROM {table} WHERE sweep_after <= :now AND (version = 1 OR expires_at <= :now) ORDER BY sweep_after LIMIT :limit`

	removeStatement = `DELETE FROM {table} WHERE expires_at <= :now AND {listed}`

	shrinkStatement = `
UPDATE {table} SET
	state = 'gone', took_over = 0, revision = revision + 1, lease_until = NULL, retain_until = NULL, header = NULL, body = NULL,
	sketch = NULL, steps = NULL, origin = NULL, settled_at = NULL, sweep_after = expires_at - expires_at % 3600000000 + 3600000000
WHERE version = 1 AND retain_until <= :now AND expires_at > :now AND {listed}`
)

// probeStatements need each right of the store, and change no row. The INSERT names its columns,
// because one of the program's own may be computed, and takes no value.
var probeStatements = []string{
	`SELECT 1 FROM {table} WHERE record_key = ''`,
	`INSERT INTO {table} (` + allColumns + `) SELECT ` + allColumns + ` FROM {table} WHERE record_key = ''`,
	`UPDATE {table} SET revision = revision + 1 WHERE record_key = ''`,
	`DELETE FROM {table} WHERE record_key = ''`,
}
