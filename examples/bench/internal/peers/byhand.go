package peers

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
)

// ByHand is a guard as a team would write one, in the shape of the nearest other library: a
// claim with a random token, SHA-256 of the body's bytes, and one record that is settled by
// its token. It has no renewal, no canonical form, no sketch, no policies and no events.
type ByHand struct{ Store HandStore }

// HandStore keeps the records of ByHand. It is safe for concurrent use.
type HandStore interface {
	// Claim keeps a record under a key that has none, and returns nil. Otherwise it returns
	// the record of the key.
	Claim(ctx context.Context, key string, claim HandRecord) (*HandRecord, error)
	// Settle replaces the record, if it has the same token. Otherwise it returns errLost.
	Settle(ctx context.Context, key string, finished HandRecord) error
}

// HandRecord is a claim, or with a status a finished request. A header has a line for each
// value.
type HandRecord struct {
	Token  [16]byte
	Sum    [sha256.Size]byte
	Status int // zero: the handler runs
	Header string
	Body   []byte
}

var errLost = errors.New("the record has another token")

// Handler guards a handler.
func (g ByHand) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := readBody(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		name := sha256.Sum256([]byte(r.Header.Get("Authorization") + r.Method + r.URL.Path + r.Header.Get("Idempotency-Key")))
		key, claim := hex.EncodeToString(name[:]), HandRecord{Sum: sha256.Sum256(body)}
		rand.Read(claim.Token[:]) // rand.Read never fails
		found, err := g.Store.Claim(r.Context(), key, claim)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case found == nil:
			g.run(w, r, next, key, claim)
		case found.Sum != claim.Sum:
			http.Error(w, "another payload", http.StatusUnprocessableEntity)
		case found.Status == 0:
			http.Error(w, "in progress", http.StatusConflict)
		default:
			w.Header().Set("X-Idempotent-Replay", "true")
			found.send(w)
		}
	})
}

// readBody allocates once for a body of known length.
func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 {
		return io.ReadAll(r.Body)
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	return body, err
}

// run runs the handler, and keeps its response before the response is sent.
func (g ByHand) run(w http.ResponseWriter, r *http.Request, next http.Handler, key string, record HandRecord) {
	recorded := &recorder{header: make(http.Header), status: http.StatusOK}
	next.ServeHTTP(recorded, r)
	var header strings.Builder
	for name, values := range recorded.header {
		for _, value := range values {
			header.WriteString(name + ":" + value + "\n")
		}
	}
	record.Status, record.Header, record.Body = recorded.status, header.String(), recorded.body.Bytes()
	if err := g.Store.Settle(r.Context(), key, record); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	record.send(w)
}

func (r *HandRecord) send(w http.ResponseWriter) {
	for line := range strings.Lines(r.Header) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		w.Header().Add(name, value)
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) //nolint:gosec // the handler has sent this response before
}
