package peers

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Handmade is the least that a guard with a fingerprint does in memory: two SHA-256 sums,
// json.Valid, a claim, a captured response and its record. It has no lease, no scope
// function, no policy, no events, no clock and no bounds, and its records never expire. It is
// a floor, not a recommendation.
type Handmade struct {
	mu      sync.Mutex
	records map[[sha256.Size]byte]*handmadeRecord
}

type handmadeRecord struct {
	payload [sha256.Size]byte
	status  int // zero while the handler runs
	header  []string
	body    []byte
}

// NewHandmade returns a guard without records.
func NewHandmade() *Handmade {
	return &Handmade{records: make(map[[sha256.Size]byte]*handmadeRecord)}
}

// Handler guards a handler of JSON.
func (g *Handmade) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, max(r.ContentLength, 0))
		_, err := io.ReadFull(r.Body, body)
		name := sha256.Sum256([]byte(r.Header.Get("Authorization") + r.Method + r.URL.Path + r.Header.Get("Idempotency-Key")))
		payload := sha256.Sum256(body)
		found := g.find(name)
		if found == nil && err == nil && json.Valid(body) { // equal bytes are valid too
			found = g.claim(name, payload)
		} else if found == nil {
			http.Error(w, "the body is no JSON", http.StatusBadRequest)
			return
		}
		switch {
		case found == nil:
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			g.run(w, r, next, name, payload)
		case found.payload != payload:
			http.Error(w, "another payload", http.StatusUnprocessableEntity)
		case found.status == 0:
			http.Error(w, "in progress", http.StatusConflict)
		default:
			found.send(w, true)
		}
	})
}

func (g *Handmade) find(name [sha256.Size]byte) *handmadeRecord {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.records[name]
}

// claim returns the record of a name, or makes one and returns nil.
func (g *Handmade) claim(name, payload [sha256.Size]byte) *handmadeRecord {
	g.mu.Lock()
	defer g.mu.Unlock()
	if found := g.records[name]; found != nil {
		return found
	}
	g.records[name] = &handmadeRecord{payload: payload}
	return nil
}

// run runs the handler, and keeps its response before the response is sent.
func (g *Handmade) run(w http.ResponseWriter, r *http.Request, next http.Handler, name, payload [sha256.Size]byte) {
	recorded := &recorder{header: make(http.Header), status: http.StatusOK}
	next.ServeHTTP(recorded, r)
	record := &handmadeRecord{payload: payload, status: recorded.status, body: recorded.body.Bytes()}
	for field, values := range recorded.header {
		for _, value := range values {
			record.header = append(record.header, field, value)
		}
	}
	g.mu.Lock()
	g.records[name] = record
	g.mu.Unlock()
	record.send(w, false)
}

func (r *handmadeRecord) send(w http.ResponseWriter, again bool) {
	h := w.Header()
	for i := 0; i < len(r.header); i += 2 {
		h[r.header[i]] = append(h[r.header[i]], r.header[i+1])
	}
	if again {
		h["X-Idempotent-Replay"] = []string{"true"}
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body)
}
