// Package peers has the middleware that oncekey is measured against: the middleware of
// common tutorials, in the tutorials' own style, and gofiber's.
package peers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// sentinel is the value of a key whose handler is running.
const sentinel = "processing"

const (
	lockTTL  = time.Hour // the tutorial does not renew a lock, so the lock has to outlive a measurement
	storeTTL = 24 * time.Hour
)

// Backend is the tutorial's store of keys.
type Backend interface {
	SetNX(ctx context.Context, key, value string, ttl time.Duration) (bool, error)
	Get(ctx context.Context, key string) ([]byte, error)
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
}

// Map is a Backend in memory: a map under a lock. It never forgets a key.
type Map struct {
	mu      sync.Mutex
	entries map[string]entry
}

type entry struct {
	value   []byte
	expires time.Time
}

// NewMap returns an empty Map.
func NewMap() *Map { return &Map{entries: make(map[string]entry)} }

// SetNX implements Backend.
func (m *Map) SetNX(_ context.Context, key, value string, ttl time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if found, ok := m.entries[key]; ok && now.Before(found.expires) {
		return false, nil
	}
	m.entries[key] = entry{[]byte(value), now.Add(ttl)}
	return true, nil
}

// Get implements Backend.
func (m *Map) Get(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entries[key].value, nil
}

// Set implements Backend.
func (m *Map) Set(_ context.Context, key string, value []byte, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[key] = entry{value, time.Now().Add(ttl)}
	return nil
}

// Redis is a Backend in Redis.
type Redis struct{ Client redis.Cmdable }

// SetNX implements Backend.
func (r Redis) SetNX(ctx context.Context, key, value string, ttl time.Duration) (bool, error) {
	err := r.Client.SetArgs(ctx, key, value, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

// Get implements Backend.
func (r Redis) Get(ctx context.Context, key string) ([]byte, error) {
	return r.Client.Get(ctx, key).Bytes()
}

// Set implements Backend.
func (r Redis) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return r.Client.Set(ctx, key, value, ttl).Err()
}

// stored is a response in the tutorial's format.
type stored struct {
	Fingerprint string      `json:"fingerprint,omitempty"`
	Status      int         `json:"status"`
	Header      http.Header `json:"header"`
	Body        []byte      `json:"body"`
}

// recorder records the handler's response.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// Tutorial is the middleware of common tutorials: a sentinel, a recorder, and the response
// in JSON.
//
// It is a measure, not a recommendation. A handler runs twice if it outlives the sentinel,
// or if its response cannot be stored.
type Tutorial struct {
	Backend Backend
	// GetFirst asks with GET before SET NX. Without it SET NX comes first, and GET follows
	// for a retry. Tutorials come in both shapes.
	GetFirst bool
	// Fingerprint compares payloads, which encoding/json decodes and encodes again.
	Fingerprint bool
}

// Handler guards a handler.
func (t Tutorial) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if key == "" {
			http.Error(w, "Idempotency-Key is required", http.StatusBadRequest)
			return
		}
		key = "idempotency:" + key
		sum := ""
		if t.Fingerprint {
			body, err := io.ReadAll(r.Body)
			if err == nil {
				sum, err = jsonFingerprint(body)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		if t.GetFirst {
			if data, err := t.Backend.Get(r.Context(), key); err == nil && data != nil {
				replayTutorial(w, data, sum)
				return
			}
		}
		won, err := t.Backend.SetNX(r.Context(), key, sentinel, lockTTL)
		if err == nil && won {
			t.run(w, r, next, key, sum)
			return
		}
		var data []byte
		if err == nil {
			data, err = t.Backend.Get(r.Context(), key)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		replayTutorial(w, data, sum)
	})
}

func (t Tutorial) run(w http.ResponseWriter, r *http.Request, next http.Handler, key, sum string) {
	recorded := &recorder{header: make(http.Header), status: http.StatusOK}
	next.ServeHTTP(recorded, r)
	data, err := json.Marshal(stored{sum, recorded.status, recorded.header, recorded.body.Bytes()})
	if err == nil {
		err = t.Backend.Set(r.Context(), key, data, storeTTL)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	maps.Copy(w.Header(), recorded.header)
	w.WriteHeader(recorded.status)
	_, _ = w.Write(recorded.body.Bytes())
}

func replayTutorial(w http.ResponseWriter, data []byte, sum string) {
	if string(data) == sentinel {
		http.Error(w, "in progress", http.StatusConflict)
		return
	}
	var recorded stored
	if err := json.Unmarshal(data, &recorded); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if recorded.Fingerprint != sum {
		http.Error(w, "another payload", http.StatusUnprocessableEntity)
		return
	}
	maps.Copy(w.Header(), recorded.Header)
	w.Header().Set("X-Idempotent-Replay", "true")
	w.WriteHeader(recorded.Status)
	_, _ = w.Write(recorded.Body)
}

// jsonFingerprint decodes a document, and hashes the encoded result.
func jsonFingerprint(document []byte) (string, error) {
	var value any
	if err := json.Unmarshal(document, &value); err != nil {
		return "", err
	}
	canonical, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}
