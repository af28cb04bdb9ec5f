package pgstore

import (
	"context"
	"fmt"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

// happenedStatement and didNotHappenStatement settle attempt $2 of an abandoned key
// under token $3. They affect one row, or none when the key is not abandoned under that
// attempt. Digest and origin stay with the record, so they get the token too.
const (
	// The record expires when it would have, and stays remembered.
	happenedStatement = `
UPDATE {schema}.records AS r SET
	version = CASE WHEN r.version = 2 AND r.retain_until IS NOT NULL THEN 2 ELSE 1 END,
	state = 'unreplayable', token = $3::uuid, status = $4, lease_until = NULL, steps = NULL, header = NULL, body = NULL,
	sketch = NULL, sketch_token = $3::uuid, settled_at = clock_timestamp(),
	digest_token = CASE WHEN r.digest_token = r.token THEN $3::uuid ELSE r.digest_token END,
	origin_token = CASE WHEN r.origin_token = r.token THEN $3::uuid ELSE r.origin_token END
WHERE r.key = $1 AND r.attempt = $2 AND ` + isAbandoned

	// The attempt number is kept until the record would have expired.
	didNotHappenStatement = `
UPDATE {schema}.records AS r SET
	version = 1, state = 'released', token = $3::uuid, took_over = false, fingerprint = '', digest = NULL, origin = NULL,
	origin_token = NULL, steps = NULL, lease_until = NULL, settled_at = clock_timestamp(),
	expires_at = CASE WHEN r.version = 2 THEN coalesce(r.retain_until, r.expires_at) ELSE r.expires_at END,
	retain_until = NULL, retain_hour = NULL
WHERE r.key = $1 AND r.attempt = $2 AND ` + isAbandoned

	// isAbandoned: the row r is in progress, and its lease has ended.
	isAbandoned = `r.version IN (1, 2) AND r.state = 'in_progress' AND r.lease_until <= clock_timestamp() AND NOT ` + isExpired + ` AND NOT ` + isOver
)

// Settle implements [storage.Inspector] in one statement.
func (s *Store) Settle(ctx context.Context, key string, attempt uint64, word storage.Word) error {
	happened, err := records.Happened(word)
	if err != nil {
		return fmt.Errorf("pgstore: settle: %w", err)
	}
	// Under another token the lease is lost for its holder.
	statement, arguments := s.statements.didNotHappen, []any{key, int64(attempt), uuid(storage.NewToken())}
	if happened {
		statement, arguments = s.statements.happened, append(arguments, int16(storage.StatusByHand))
	}
	err = s.retry(ctx, func() error {
		tag, err := s.unprepared(s.pool).Exec(ctx, statement, arguments...)
		if err == nil && tag.RowsAffected() == 0 {
			err = storage.ErrNotAbandoned
		}
		return err
	})
	return s.failure("settle", key, err)
}
