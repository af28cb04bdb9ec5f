package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// HandMap keeps the records of ByHand in a map under a lock. No sweeper removes them.
type HandMap struct {
	mu      sync.Mutex
	records map[string]handEntry
}

type handEntry struct {
	record  HandRecord
	expires time.Time
}

// NewHandMap returns an empty HandMap.
func NewHandMap() *HandMap { return &HandMap{records: make(map[string]handEntry)} }

// Claim implements HandStore.
func (m *HandMap) Claim(_ context.Context, key string, claim HandRecord) (*HandRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if found, ok := m.records[key]; ok && now.Before(found.expires) {
		return &found.record, nil
	}
	m.records[key] = handEntry{claim, now.Add(lockTTL)}
	return nil, nil //nolint:nilnil // the key had no record
}

// Settle implements HandStore.
func (m *HandMap) Settle(_ context.Context, key string, finished HandRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records[key].record.Token != finished.Token {
		return errLost
	}
	m.records[key] = handEntry{finished, time.Now().Add(storeTTL)}
	return nil
}

// HandRedis keeps the records of ByHand in Redis: SET NX GET, and a script that replaces the
// claim. A replay takes one round trip.
type HandRedis struct{ Client redis.UniversalClient }

const handPrefix = "byhand:"

// settleByHand replaces the value, if it begins with the token.
var settleByHand = redis.NewScript(`
if redis.call('GETRANGE', KEYS[1], '0', '15') ~= ARGV[1] then
	return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
`)

// Claim implements HandStore.
func (s HandRedis) Claim(ctx context.Context, key string, claim HandRecord) (*HandRecord, error) {
	set := redis.NewStringCmd(ctx, "set", handPrefix+key, claim.value(), "px", lockTTL.Milliseconds(), "nx", "get")
	if err := s.Client.Process(ctx, set); err != nil {
		if errors.Is(err, redis.Nil) {
			return nil, nil //nolint:nilnil // the key had no record
		}
		return nil, err
	}
	return parseHandRecord(set.Val())
}

// Settle implements HandStore.
func (s HandRedis) Settle(ctx context.Context, key string, finished HandRecord) error {
	n, err := settleByHand.Run(ctx, s.Client, []string{handPrefix + key}, finished.Token[:], finished.value(), storeTTL.Milliseconds()).Int()
	if err == nil && n != 1 {
		err = errLost
	}
	return err
}

// A value has a token, a sum, a status, the size of the header, the header and the body.
const (
	sumAt    = 16
	statusAt = sumAt + 32
	sizeAt   = statusAt + 2
	headerAt = sizeAt + 2
)

func (r *HandRecord) value() []byte {
	value := make([]byte, headerAt, headerAt+len(r.Header)+len(r.Body))
	copy(value, r.Token[:])
	copy(value[sumAt:], r.Sum[:])
	binary.BigEndian.PutUint16(value[statusAt:], uint16(r.Status))
	binary.BigEndian.PutUint16(value[sizeAt:], uint16(len(r.Header)))
	return append(append(value, r.Header...), r.Body...)
}

func parseHandRecord(value string) (*HandRecord, error) {
	if len(value) < headerAt {
		return nil, errors.New("the value is no record")
	}
	bytes := []byte(value)
	r := &HandRecord{Token: [16]byte(bytes), Sum: [32]byte(bytes[sumAt:]), Status: int(binary.BigEndian.Uint16(bytes[statusAt:]))}
	bodyAt := headerAt + int(binary.BigEndian.Uint16(bytes[sizeAt:]))
	if bodyAt > len(value) {
		return nil, errors.New("the value is no record")
	}
	r.Header, r.Body = value[headerAt:bodyAt], bytes[bodyAt:]
	return r, nil
}

// HandPostgres keeps the records of ByHand in the table of HandTable: an INSERT, and an
// UPDATE that names the token. A replay is an INSERT that adds no row, and a SELECT.
type HandPostgres struct{ Pool *pgxpool.Pool }

// HandTable makes the table.
const HandTable = `CREATE TABLE IF NOT EXISTS by_hand (
	key text COLLATE "C" PRIMARY KEY, token bytea NOT NULL, sum bytea NOT NULL, status integer NOT NULL, header text, body bytea,
	expires_at timestamptz NOT NULL
) WITH (fillfactor = 50)`

// Claim implements HandStore.
func (s HandPostgres) Claim(ctx context.Context, key string, claim HandRecord) (*HandRecord, error) {
	tag, err := s.Pool.Exec(ctx, `
INSERT INTO by_hand (key, token, sum, status, expires_at) VALUES ($1, $2, $3, 0, now() + $4)
ON CONFLICT (key) DO UPDATE SET token = $2, sum = $3, status = 0, expires_at = now() + $4 WHERE by_hand.expires_at <= now()`,
		key, claim.Token[:], claim.Sum[:], lockTTL)
	if err != nil || tag.RowsAffected() == 1 {
		return nil, err
	}
	var token, sum []byte
	var header *string
	found := &HandRecord{}
	err = s.Pool.QueryRow(ctx, `SELECT token, sum, status, header, body FROM by_hand WHERE key = $1`, key).
		Scan(&token, &sum, &found.Status, &header, &found.Body)
	if err != nil {
		return nil, err
	}
	copy(found.Token[:], token)
	copy(found.Sum[:], sum)
	if header != nil {
		found.Header = *header
	}
	return found, nil
}

// Settle implements HandStore.
func (s HandPostgres) Settle(ctx context.Context, key string, finished HandRecord) error {
	tag, err := s.Pool.Exec(ctx, `UPDATE by_hand SET status = $3, header = $4, body = $5, expires_at = now() + $6 WHERE key = $1 AND token = $2`,
		key, finished.Token[:], finished.Status, finished.Header, finished.Body, storeTTL)
	if err == nil && tag.RowsAffected() != 1 {
		err = errLost
	}
	return err
}
