package peers

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ByHand is the least that a guard with a token and a fingerprint does on Redis: SET NX GET,
// and a script that replaces the claim while it has the token. It replays in one round trip.
// It has no lease, no steps, no events, and one form of values. It is a floor, not a
// recommendation.
type ByHand struct {
	Client redis.UniversalClient
	// Claim and Result are the sizes of the two values.
	Claim, Result int
}

// A value has a token, a fingerprint, a status and the size of the body. The header and the
// body come after them, and spaces to the value's size.
const (
	tokenSize = 32
	sumSize   = 2 * sha256.Size
	statusAt  = tokenSize + sumSize
	sizeAt    = statusAt + 3
	headerAt  = sizeAt + 8

	noStatus = "000" // of a claim
)

// settle replaces the value, if it begins with the token.
var settle = redis.NewScript(`
if redis.call('GETRANGE', KEYS[1], '0', '31') ~= ARGV[1] then
	return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
`)

// Handler guards a handler of JSON.
func (b ByHand) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !json.Valid(body) {
			http.Error(w, "the body is no JSON", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		name := r.Header.Get("Authorization") + r.Method + r.URL.Path + r.Header.Get("Idempotency-Key")
		key, sum := "idempotency:"+hexSum([]byte(name)), hexSum(body)
		var random [tokenSize / 2]byte
		rand.Read(random[:]) // rand.Read never fails
		token := hex.EncodeToString(random[:])
		claim := redis.NewStringCmd(r.Context(), "set", key, padded(token+sum+noStatus, b.Claim), "px", storeTTL.Milliseconds(), "nx", "get")
		switch err := b.Client.Process(r.Context(), claim); {
		case errors.Is(err, redis.Nil):
			b.run(w, r, next, key, token, sum)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			replayByHand(w, claim.Val(), sum)
		}
	})
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// run runs the handler of a first-time request.
func (b ByHand) run(w http.ResponseWriter, r *http.Request, next http.Handler, key, token, sum string) {
	recorded := &recorder{header: make(http.Header), status: http.StatusOK}
	next.ServeHTTP(recorded, r)
	value := padded(recorded.value(token+sum), b.Result)
	if n, err := settle.Run(r.Context(), b.Client, []string{key}, token, value, storeTTL.Milliseconds()).Int(); err != nil || n != 1 {
		http.Error(w, "not stored", http.StatusServiceUnavailable)
		return
	}
	maps.Copy(w.Header(), recorded.header)
	w.WriteHeader(recorded.status)
	_, _ = w.Write(recorded.body.Bytes())
}

// value is a finished request's value, after its token and its fingerprint.
func (r *recorder) value(start string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%03d%08d", start, r.status, r.body.Len())
	for name, values := range r.header {
		for _, value := range values {
			b.WriteString(name + ":" + value + "\n")
		}
	}
	b.WriteByte('\n')
	b.Write(r.body.Bytes())
	return b.String()
}

func padded(text string, size int) string {
	return text + strings.Repeat(" ", max(size-len(text), 0))
}

// replayByHand sends the response of a value.
func replayByHand(w http.ResponseWriter, value, sum string) {
	switch {
	case value[tokenSize:statusAt] != sum:
		http.Error(w, "another payload", http.StatusUnprocessableEntity)
		return
	case value[statusAt:sizeAt] == noStatus:
		http.Error(w, "in progress", http.StatusConflict)
		return
	}
	status, badStatus := strconv.Atoi(value[statusAt:sizeAt])
	size, badSize := strconv.Atoi(value[sizeAt:headerAt])
	rest := value[headerAt:]
	for {
		field, after, _ := strings.Cut(rest, "\n")
		rest = after
		name, content, found := strings.Cut(field, ":")
		if !found {
			break
		}
		w.Header().Add(name, content)
	}
	if badStatus != nil || badSize != nil || size > len(rest) {
		http.Error(w, "the value is no response", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, rest[:size]) //nolint:gosec // the handler has sent this response before
}
